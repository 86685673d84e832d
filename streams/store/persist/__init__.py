"""Runs the sink, which stores every topic in ClickHouse, each row exactly once."""

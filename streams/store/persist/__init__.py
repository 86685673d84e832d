"""The sink: stores every topic in ClickHouse, each row exactly once."""

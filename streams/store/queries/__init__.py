"""Queries on what ClickHouse stores: evidence, findings, jobs, and the history for a backtest."""

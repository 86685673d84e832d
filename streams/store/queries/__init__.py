"""Queries ClickHouse: evidence, findings, jobs, and the history for a backtest."""

"""Self-metrics, the clock protocol and process tuning; requires only the standard library."""

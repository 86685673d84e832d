"""Expands and runs the queries of boards as Grafana does, and draws the boards."""

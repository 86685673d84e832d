"""Grafana dashboards as code, and the JSON made from it."""

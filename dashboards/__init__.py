"""Defines the Grafana dashboards as code, with the JSON generated from it."""

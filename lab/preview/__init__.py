"""Reads boards as Grafana does, from their JSON: expands queries, runs them, and draws what a person would see."""

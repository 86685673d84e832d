"""Alerts from findings, and the client of Alertmanager."""

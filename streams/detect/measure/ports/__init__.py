"""Publishes for `decide` which ports are up, and what the readings of ports with a recent fault show."""

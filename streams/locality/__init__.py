"""Computes distances between hosts, remaining capacity, sets of hosts for a job, and exports for schedulers."""

"""Distances between hosts, the capacity that is left, sets of hosts for a job, and exports for schedulers."""

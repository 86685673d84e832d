"""The locality of hosts: distances, the capacity that is left, sets of hosts for a job, exports for schedulers."""

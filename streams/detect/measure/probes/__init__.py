"""Sums up the reports of active probes: what each part of the network carried, and which flows lost probes."""

"""Stores the readings of devices in arrays: columns, recent history, ends of windows, and their snapshots."""

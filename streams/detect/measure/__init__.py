"""Finds changes between two readings of each device, and selects the notable ones."""

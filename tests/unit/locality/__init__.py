"""Tests the locality of hosts: groups, distances, placements, exports."""

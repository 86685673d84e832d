"""Simulates one fabric: topology, traffic, faults with ground truth, and negative cases."""

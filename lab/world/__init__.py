"""Simulates one fabric: topology, traffic, faults with ground truth, and negative cases.

A fault is declared once, in `faults`. Its effects (effects.py) are the only input of a simulated fabric. Two models
derive readings from effects: world.py poll after poll and with noise, for trials; demo_world.py at any moment, for the
protocol servers, for tests, and for the ports with faults in the load of lab.bench.load.
"""

"""Worlds of the tests: a small fabric, its faults, and the messages that its devices send."""

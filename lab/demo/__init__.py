"""Runs the demo: the whole pipeline on this machine, its screen, and the score at its end."""

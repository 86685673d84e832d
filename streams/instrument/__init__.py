"""The names of self-metrics and the clock protocol; needs the standard library only."""

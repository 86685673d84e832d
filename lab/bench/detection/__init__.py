"""Measures detection: a simulated fabric with faults of every condition, through all stages in memory, scored."""

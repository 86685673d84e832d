"""Faust apps and the stage runner: binds a pure stage to its topics, its clock and its snapshots."""

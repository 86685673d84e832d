"""Runs stages on Faust: connects a stage without I/O to its topics, its clock and its snapshots."""

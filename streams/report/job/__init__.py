"""Reports for `railsight job ID` whether the network of a job was clean, and how much of it was covered."""

MIN_COVERAGE = 0.95
"""The required share of the time of all ports. It tolerates a collector's restart of a minute per hour, but not a rail
of eight without a source."""

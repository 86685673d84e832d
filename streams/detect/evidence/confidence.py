"""The confidence of a finding on a link. The numbers are our own, so that a reader can distinguish the two cases."""

BOTH_ENDS = 0.95
"""Both ends of the link show it."""

ONE_END = 0.6
"""One end shows it."""

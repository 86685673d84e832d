"""Scores lemons: links, hosts, part numbers and firmware with more faults than the rest of their kind."""

"""Builds reports: status, explanations, verdicts on jobs, inventory drafts, the terminal program."""

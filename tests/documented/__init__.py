"""Extracts the commands of the pages that are marked for it, and runs them as a reader would."""

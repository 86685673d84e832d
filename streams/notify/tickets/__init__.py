"""Builds tickets of remediations that need manual work, and delivers them to ticket systems."""

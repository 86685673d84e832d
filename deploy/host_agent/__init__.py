"""Builds the Debian package of the collectors for a GPU host."""

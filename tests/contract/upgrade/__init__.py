"""Upgrades: what a released version wrote is read by all that follow."""

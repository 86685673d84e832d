"""fleet/version-drift."""

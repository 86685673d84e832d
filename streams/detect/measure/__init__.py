"""Per device: what changed between two readings, and what of it is notable."""

"""rail/degraded."""

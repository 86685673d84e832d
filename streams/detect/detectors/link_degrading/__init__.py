"""link/degrading."""

"""link/miscabled."""

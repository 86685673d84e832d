"""link/flap."""

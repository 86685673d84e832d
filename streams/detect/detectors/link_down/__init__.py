"""link/down."""

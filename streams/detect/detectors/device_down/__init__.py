"""device/down."""

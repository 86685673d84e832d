"""The gNMI collector."""

"""The gNMI collector subscribes to switches."""

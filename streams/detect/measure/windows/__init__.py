"""Selects the final windows of event time to send: of ports, of rails and of uplinks."""

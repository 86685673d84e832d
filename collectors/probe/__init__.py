"""The probe collector: measures loss and round-trip times between the rails of hosts, and traces the paths."""

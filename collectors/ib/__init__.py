"""Reads the ports of an InfiniBand subnet from its management: UFM Telemetry, and files of ibdiagnet."""

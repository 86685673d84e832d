"""Listens for devices that send telemetry by themselves: gNMI dial-out, and Cisco MDT over gRPC."""

"""Receives telemetry from devices that connect by themselves: gNMI dial-out, and Cisco MDT over gRPC."""

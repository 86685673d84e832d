"""The liveness and readiness of a process: its checks, their HTTP endpoints, and systemd's notify protocol."""

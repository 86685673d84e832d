"""Receives syslog of switches, and reports the lines that its tables know as events."""

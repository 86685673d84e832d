"""Reads the NICs of a host from its kernel: ports, names and roles, and the table of counters.

Shared by `nic` and `host`; `bridge` uses the table of counter names.
"""

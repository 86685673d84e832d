"""Kafka with users, TLS and ACLs: the real broker, and the real parts."""

"""Collectors read devices and write samples, events, facts and status to Kafka."""

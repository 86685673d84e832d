"""Reads the locality model's input from Kafka, and prints, publishes and serves its answers."""

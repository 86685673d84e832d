"""Locality from Kafka: reads what the model needs, and prints, publishes and serves its answers."""

"""A real Kafka and an embedded ClickHouse on this machine."""

"""The pipeline: from samples in Kafka to findings, remediations and rows in ClickHouse."""

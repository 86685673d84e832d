"""Defines the tables of ClickHouse, the sink that fills them from Kafka, and the queries that read them."""

"""Provides fixtures that integration tests share; those of one part are in its own modules."""

from tests.integration.fixtures_clickhouse import clickhouse, clickhouse_database  # noqa: F401 — found by name
from tests.integration.fixtures_kafka import kafka, topic_name  # noqa: F401 — pytest finds fixtures by name here

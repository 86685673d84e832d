"""Fixtures that integration tests share; each part's live in a module of their own."""

from tests.integration.fixtures_clickhouse import clickhouse, clickhouse_database  # noqa: F401 — found by name
from tests.integration.fixtures_kafka import kafka, topic_name  # noqa: F401 — pytest finds fixtures by name here

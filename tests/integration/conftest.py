"""Provides fixtures that integration tests share; those of one part are in its own modules."""

import pytest

from streams.wire.kafka_refusals import explain_refusals
from tests.integration.fixtures_clickhouse import clickhouse, clickhouse_database  # noqa: F401 — found by name
from tests.integration.fixtures_kafka import (
    docker_answers,
    kafka,  # noqa: F401 — pytest finds fixtures by name here
    topic_name,  # noqa: F401
)


def pytest_report_header() -> str:
    """Print which servers the fixtures choose."""
    chosen = "containers, as Docker answers" if docker_answers() else "the embedded ones, as no Docker answers"
    return f"Kafka and ClickHouse of tests/integration: {chosen}"


@pytest.fixture(scope="session", autouse=True)
def clients_as_in_the_product() -> None:
    """Let clients connect as those of the commands do, also where a test makes them without their options."""
    explain_refusals()

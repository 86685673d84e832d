"""Provides a broker and a ClickHouse for each test module, because tests kill them and count Kafka's records."""

import asyncio
from collections.abc import Iterator

import pytest

from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.runtime.admin import ensure_topics
from tests.fixtures.logging_state import restored_logging  # noqa: F401 — autouse: commands configure logging
from tests.integration.store.rig import Database, Rig, running


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Yield the servers with all topics created."""
    folder = tmp_path_factory.mktemp("store")
    with EmbeddedKafka(KafkaParams(data=folder / "kafka")) as kafka, running(Rig(kafka, folder)) as parts:
        asyncio.run(ensure_topics(parts.settings))
        yield parts


@pytest.fixture
def database(rig: Rig) -> Iterator[Database]:
    """Yield a migrated database; its sinks end with the test."""
    found = rig.database()
    yield found
    found.end()

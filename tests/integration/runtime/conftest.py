"""A pipeline of fake stages of its own for each test, on the broker of the session."""

from collections.abc import Callable

import pytest

from streams.runtime.admin import ensure_topics
from tests.integration.fixtures_kafka import Broker
from tests.integration.runtime.rig import Rig


@pytest.fixture
async def rig(kafka: Broker, topic_name: Callable[[str], str]) -> Rig:
    """Return the rig, its topics made."""
    made = Rig(topic_name("rig"), kafka.bootstrap)
    await ensure_topics(made.kafka, made.wiring.topics)
    return made

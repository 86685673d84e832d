"""Each test has its own pipeline of fake stages on the broker of the session."""

from collections.abc import Callable

import pytest

from streams.runtime.admin import ensure_topics
from tests.integration.fixtures_kafka import Broker
from tests.integration.runtime.rig import PipelineRig


@pytest.fixture
async def rig(kafka: Broker, topic_name: Callable[[str], str]) -> PipelineRig:
    """Return the rig after the creation of its topics."""
    rig = PipelineRig(topic_name("rig"), kafka.bootstrap)
    await ensure_topics(rig.kafka, rig.wiring.topics)
    return rig

"""Each test has its own pipeline of fake stages on the broker of the session."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.runtime.admin import ensure_topics
from tests.integration.fixtures_kafka import Broker
from tests.integration.runtime.commands import railsight
from tests.integration.runtime.rig import PipelineRig


@pytest.fixture
async def rig(kafka: Broker, topic_name: Callable[[str], str]) -> PipelineRig:
    """Return the rig after the creation of its topics."""
    rig = PipelineRig(topic_name("rig"), kafka.bootstrap)
    await ensure_topics(rig.kafka, rig.wiring.topics)
    return rig


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    """Yield a broker with the real topics, which no other test shares."""
    with EmbeddedKafka(KafkaParams(data=tmp_path / "kafka")) as broker:
        assert railsight("topics", "--bootstrap", broker.bootstrap).returncode == 0
        yield broker.bootstrap

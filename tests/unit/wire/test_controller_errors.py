"""A request for the controller while there is none is an error of Kafka, which callers repeat."""

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import NodeNotReadyError

from streams.wire.kafka_clients import controller_errors


async def test_brokers_without_a_controller_are_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """As metadata of a starting broker has it."""

    async def unchanged() -> bool:
        return True

    admin = AIOKafkaAdminClient(bootstrap_servers="127.0.0.1:9092")
    monkeypatch.setattr(admin._client, "force_metadata_update", unchanged)
    with pytest.raises(NodeNotReadyError, match="no controller"), controller_errors():
        await admin.create_topics([NewTopic("t", 1, 1)])


def test_other_errors_stay_as_they_are() -> None:
    """A mistake of our own is not taken for a broker that starts."""
    with pytest.raises(AttributeError), controller_errors():
        _ = object().missing  # type: ignore[attr-defined]

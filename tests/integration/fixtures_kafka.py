"""Provides a broker for every test that needs one: in Docker if it is available, else the embedded one.

One broker serves a whole test session, so tests take topic names of their own from `topic_name`.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams


@dataclass(frozen=True)
class Broker:
    """The address of a broker, as `host:port`."""

    bootstrap: str


def docker_answers() -> bool:
    """Return whether a Docker engine responds, without waiting for one that does not."""
    if not os.environ.get("DOCKER_HOST") and not Path("/var/run/docker.sock").exists():
        return False
    import docker  # type: ignore[import-untyped]
    from docker.errors import DockerException  # type: ignore[import-untyped]

    with suppress(DockerException, OSError):
        client = docker.from_env(timeout=3)
        try:
            return bool(client.ping())
        finally:
            client.close()
    return False


@contextmanager
def in_docker() -> Iterator[Broker]:
    """Run Kafka by testcontainers, with the limits that the embedded one has."""
    from testcontainers.kafka import KafkaContainer

    container = KafkaContainer().with_kraft()
    container.with_env("KAFKA_MESSAGE_MAX_BYTES", "4194304").with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
    with container as running:
        yield Broker(running.get_bootstrap_server())


@contextmanager
def embedded(data: Path) -> Iterator[Broker]:
    """Run the broker of the product, on a folder of its own."""
    with EmbeddedKafka(KafkaParams(data=data)) as broker:
        yield Broker(broker.bootstrap)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yield a broker that is ready; its topics exist until the end of the test session."""
    with in_docker() if docker_answers() else embedded(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def topic_name() -> Callable[[str], str]:
    """Return a function that makes unique topic names: `topic_name("samples")`."""
    return lambda stem: f"{stem}.{uuid.uuid4().hex[:12]}"


async def create_topics(bootstrap: str, *names: str, partitions: int = 1, copies: int = 1) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        answer = await admin.create_topics([NewTopic(name, partitions, copies) for name in names])
        assert [error[1] for error in answer.topic_errors] == [0] * len(names)
    finally:
        await admin.close()

"""A process whose event loop turns and whose consumer reads nothing, though records wait, is not live."""

import asyncio
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiokafka import AIOKafkaProducer
from prometheus_client import CollectorRegistry

from collectors.bridge.bridge import Bridge
from collectors.bridge.delivery import CommittedState, Place
from collectors.bridge.params import Params
from collectors.bridge.read import Batch
from collectors.core.context import CollectorContext
from collectors.core.once import NullPublisher
from lab.constants import with_constants
from streams.health.health import Health, HealthParams
from streams.health.input_checks import ReadingLoop, add_consumer_checks
from streams.health.status_server import StatusServer, supervised
from tests.integration.fixtures_kafka import Broker, create_topics

pytestmark = pytest.mark.timeout(120)
LIMITS = with_constants(HealthParams, stuck_s=2.0, probe_s=0.3)()
_TURN_S = 0.05


@dataclass
class Stuck:
    """The loop of the notifier or of the tickets, as the health sees it: it turns, and reads as far as `positions`."""

    topic: str
    steps: int = 0
    positions: Mapping[Place, int] = field(default_factory=dict)

    async def run(self) -> None:
        self.positions = {(self.topic, 0): 0}
        while True:
            self.steps += 1
            await asyncio.sleep(_TURN_S)


@dataclass
class Nothing:
    """A reader of one partition from which no record comes."""

    topic: str

    def assigned(self) -> set[Place]:
        return {(self.topic, 0)}

    async def begin(self, place: Place) -> tuple[int, CommittedState | None]:
        return 0, CommittedState(1, 1)

    async def poll(self, wait_s: float) -> Batch:
        await asyncio.sleep(wait_s)
        return []

    async def commit(self, positions: Mapping[Place, tuple[int, str]]) -> None:
        pass


@asynccontextmanager
async def elected(topic: str) -> AsyncIterator[ReadingLoop]:
    loop = Stuck(topic)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(loop.run())
        yield loop
        running.cancel()


@asynccontextmanager
async def bridge(topic: str) -> AsyncIterator[ReadingLoop]:
    context = CollectorContext(NullPublisher(), "b")
    params = Params.model_validate({"topics": [topic]})
    loop = Bridge(params, context)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(loop.run(Nothing(topic)))
        yield loop
        running.cancel()


def livez(port: int) -> tuple[int, str]:
    """Return the status and the line of /livez."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=5) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode().strip()


@pytest.mark.parametrize("part", [elected, bridge])
async def test_a_consumer_that_reads_nothing_though_records_wait_is_not_live(
    part: Callable[[str], AbstractAsyncContextManager[ReadingLoop]],
    kafka: Broker,
    topic_name: Callable[[str], str],
) -> None:
    """Without records it is live, however long it reads nothing."""
    topic, options = topic_name("stuck"), {"bootstrap_servers": kafka.bootstrap}
    health = Health(LIMITS, time.monotonic)
    server = StatusServer("127.0.0.1", 0, CollectorRegistry(), health)
    try:
        await create_topics(kafka.bootstrap, topic)
        async with AIOKafkaProducer(**options) as producer, part(topic) as loop, supervised(health):
            await producer.send_and_wait(topic, b"a line", partition=0)
            ends = add_consumer_checks(loop, options, health)
            health.started()
            asking = asyncio.create_task(ends.run())
            assert (await asyncio.to_thread(livez, server.port))[0] == 200
            async with asyncio.timeout(30):
                while (answer := await asyncio.to_thread(livez, server.port))[0] == 200:
                    pass
            assert (answer[0], answer[1].partition(" processed")[0]) == (503, f"input: {topic}/0")
            assert loop.steps > 0
            asking.cancel()
    finally:
        await asyncio.to_thread(server.close)

"""A Kafka client that is cancelled or has no time for its end leaves no connection open."""

import asyncio
import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from streams.wire.kafka_clients import stop_client
from tests.integration.fixtures_kafka import Broker, create_topics

CLIENTS: dict[str, Callable[[str], Any]] = {
    "consumer": lambda bootstrap: AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id="ends"),
    "producer": lambda bootstrap: AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True),
    "admin": lambda bootstrap: AIOKafkaAdminClient(bootstrap_servers=bootstrap),
}
"""Each client, by its name; made with the address of the brokers."""


@contextmanager
def none_left() -> Iterator[None]:
    """Fail if a connection is freed while it is open."""
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    assert [str(one.message) for one in caught if one.category is ResourceWarning] == []


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_start_that_is_cancelled_leaves_no_connection(kafka: Broker, name: str) -> None:
    """It is cancelled after each number of turns of the event loop that a start takes."""
    turns, is_started = 0, False
    with none_left():
        while not is_started:
            client = CLIENTS[name](kafka.bootstrap)
            starting = asyncio.ensure_future(client.start())
            for _ in range(turns):
                await asyncio.sleep(0)
            is_started = starting.done()
            starting.cancel()
            await asyncio.wait({starting})
            await stop_client(client)
            turns += 1
    assert turns > 10


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_stop_without_time_leaves_no_connection(
    kafka: Broker, topic_name: Callable[[str], str], name: str
) -> None:
    """Its connections are closed, also while a consumer is in its group."""
    topic = topic_name("ends")
    await create_topics(kafka.bootstrap, topic)
    with none_left():
        client = CLIENTS[name](kafka.bootstrap)
        await client.start()
        if name == "consumer":
            client.subscribe([topic])
            await client.getmany(timeout_ms=100)
        await stop_client(client, within_s=0)
        del client

"""Tests the delay of metadata requests of a producer while they fail."""

import asyncio

from aiokafka import AIOKafkaProducer

from streams.wire.kafka_clients import throttle_metadata_refresh

PAUSE_S = 0.1


class Client:
    """A client that responds at once and counts requests."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.requests = 0

    def force_metadata_update(self) -> "asyncio.Future[bool]":
        self.requests += 1
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        answer.set_result(self.answers.pop(0) if self.answers else False)
        return answer


class Producer:
    """A producer with a public client, like aiokafka's."""

    def __init__(self, client: Client) -> None:
        self.client = client


async def test_a_failed_refresh_is_delayed() -> None:
    """Ten in a row take ten pauses; the result is unchanged."""
    producer = Producer(Client())
    throttle_metadata_refresh(producer, PAUSE_S)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for _ in range(10):
        assert await producer.client.force_metadata_update() is False
    assert loop.time() - began_s >= 9.5 * PAUSE_S and producer.client.requests == 10


async def test_a_successful_refresh_is_not_delayed() -> None:
    """A cancelled refresh does not block the next one."""
    producer = Producer(Client(False, True))
    throttle_metadata_refresh(producer, 60.0)
    left = asyncio.ensure_future(producer.client.force_metadata_update())
    await asyncio.sleep(0)
    left.cancel()
    async with asyncio.timeout(30):
        assert await producer.client.force_metadata_update() is True


async def test_aiokafkas_producer_has_the_patched_method() -> None:
    """Its client is public, and it refreshes metadata by this method."""
    producer = AIOKafkaProducer(bootstrap_servers="127.0.0.1:1")
    throttle_metadata_refresh(producer, PAUSE_S)
    assert producer.client.force_metadata_update.__module__ == throttle_metadata_refresh.__module__
    await producer.stop()

"""How often a producer asks who leads, while nobody can tell."""

import asyncio

from aiokafka import AIOKafkaProducer

from streams.wire.producer_backoff import throttle_metadata_refresh

PAUSE_S = 0.1


class Client:
    """What a producer asks; it answers at once, and counts."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.asked = 0

    def force_metadata_update(self) -> "asyncio.Future[bool]":
        self.asked += 1
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        answer.set_result(self.answers.pop(0) if self.answers else False)
        return answer


class Producer:
    """As aiokafka's, its client is public."""

    def __init__(self, client: Client) -> None:
        self.client = client


async def test_a_question_that_fails_is_not_asked_again_at_once() -> None:
    """Ten in a row take ten pauses; the answer is still the answer."""
    producer = Producer(Client())
    throttle_metadata_refresh(producer, PAUSE_S)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for _ in range(10):
        assert await producer.client.force_metadata_update() is False
    assert loop.time() - began_s >= 9.5 * PAUSE_S and producer.client.asked == 10


async def test_a_question_that_is_answered_is_not_held_up() -> None:
    """Nor is one that nobody waits for in the way of the next."""
    producer = Producer(Client(False, True))
    throttle_metadata_refresh(producer, 60.0)
    left = asyncio.ensure_future(producer.client.force_metadata_update())
    await asyncio.sleep(0)
    left.cancel()
    async with asyncio.timeout(5):
        assert await producer.client.force_metadata_update() is True


async def test_aiokafkas_producer_is_one_that_can_be_made_patient() -> None:
    """Its client is public, and is what it asks by this name."""
    producer = AIOKafkaProducer(bootstrap_servers="127.0.0.1:1")
    throttle_metadata_refresh(producer, PAUSE_S)
    assert producer.client.force_metadata_update.__module__ == throttle_metadata_refresh.__module__
    await producer.stop()

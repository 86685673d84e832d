"""A consumer joins its group again after answers of the brokers at which aiokafka stops; nothing else may stop it."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import CoordinatorLoadInProgressError, KafkaError, NoError, UnknownError

from streams.wire.kafka_clients import ended_task, has_group_error, rejoin_after_error
from tests.fixtures.waiting import until

ASSIGNMENT = b"\x00\x00\x00\x00\x00\x01\x00\x05topic\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"
"""Version 0, one topic with partition 0, no user data."""
MEMBER = {"member_id": "m", "generation_id": 1, "leader_id": "other", "group_protocol": "roundrobin", "members": []}


class Brokers:
    """Answers the requests of one group; `errors` are those of the next answers, by the request's name."""

    cluster = SimpleNamespace(
        add_listener=lambda _: None, partitions_for_topic=lambda _: {0}, need_all_topic_metadata=False
    )

    def __init__(self) -> None:
        self.errors: dict[str, list[type[KafkaError]]] = {}
        self.asked: list[str] = []

    async def coordinator_lookup(self, *_: object) -> int:
        return 1

    async def ready(self, *_: object, **__: object) -> bool:
        return True

    def set_topics(self, _: object) -> None: ...

    async def send(self, _: int, request: Any, **__: object) -> Any:
        name = type(request).__name__.partition("Request")[0]
        self.asked.append(name)
        await asyncio.sleep(0)
        error = errors.pop(0) if (errors := self.errors.get(name)) else NoError
        return SimpleNamespace(error_code=error.errno, API_VERSION=0, member_assignment=ASSIGNMENT, **MEMBER)


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
async def consumer(brokers: Brokers) -> AsyncIterator[Any]:
    """Return a member of a group, as far as it coordinates, which joins when it subscribes; it is never polled."""
    subscription = SubscriptionState()
    subscription.register_fetch_waiters(set())
    coordinator = GroupCoordinator(
        brokers, subscription, group_id="group", heartbeat_interval_ms=1, retry_backoff_ms=1, enable_auto_commit=False
    )
    yield SimpleNamespace(_coordinator=coordinator, _subscription=subscription)
    await coordinator.close()


def is_member(consumer: Any) -> bool:
    assignment = consumer._subscription.subscription.assignment
    return assignment is not None and assignment.active and not consumer._coordinator._rejoin_needed_fut.done()


@pytest.mark.parametrize("request_name", ["JoinGroup", "SyncGroup"])
async def test_an_unexpected_answer_to_a_join_is_followed_by_another_join(
    consumer: Any, brokers: Brokers, request_name: str
) -> None:
    """Until its error is taken the client asks nothing more; then it joins."""
    brokers.errors[request_name] = [UnknownError]
    consumer._subscription.subscribe({"topic"})
    await until(lambda: has_group_error(consumer))
    asked = len(brokers.asked)
    await asyncio.sleep(0.02)
    assert len(brokers.asked) == asked and not is_member(consumer)
    assert "UnknownError" in repr(rejoin_after_error(consumer))
    await until(lambda: is_member(consumer))
    assert rejoin_after_error(consumer) is None


async def test_an_unexpected_answer_to_a_heartbeat_is_followed_by_heartbeats(consumer: Any, brokers: Brokers) -> None:
    """Taking the error alone, as a poll does, would bring it again and again."""
    consumer._subscription.subscribe({"topic"})
    await until(lambda: is_member(consumer))
    brokers.errors["Heartbeat"] = [CoordinatorLoadInProgressError]
    await until(lambda: has_group_error(consumer))
    assert rejoin_after_error(consumer) is not None
    await until(lambda: is_member(consumer))
    beats = brokers.asked.count("Heartbeat")
    await until(lambda: brokers.asked.count("Heartbeat") > beats + 2)
    assert not has_group_error(consumer)


async def test_only_a_task_that_an_error_ended_is_reported(consumer: Any) -> None:
    """A running task and a cancelled one are not; the line has the error."""

    async def fail() -> None:
        raise ValueError("bad batch")

    failed, cancelled = asyncio.create_task(fail()), asyncio.create_task(asyncio.sleep(60))
    cancelled.cancel()
    await asyncio.wait({failed, cancelled})
    assert ended_task(None) == ended_task(consumer, SimpleNamespace(_sender=None)) == ""
    consumer._fetcher = SimpleNamespace(error_future=cancelled)
    assert ended_task(consumer, SimpleNamespace(_sender=SimpleNamespace(sender_task=cancelled))) == ""
    consumer._fetcher = SimpleNamespace(error_future=failed)
    assert ended_task(consumer) == "the fetches ended by ValueError('bad batch')"


def test_the_names_of_a_client_without_a_group_are_no_error() -> None:
    """A consumer that has not started, or has no group, has nothing to take."""
    assert not has_group_error(SimpleNamespace(_coordinator=None))
    assert rejoin_after_error(SimpleNamespace(_coordinator=SimpleNamespace())) is None

"""What was fetched is taken as aiokafka's own `getmany` would answer it, partition by partition."""

import asyncio
from typing import Any

import pytest
from aiokafka.consumer.fetcher import FetchError
from aiokafka.errors import CorruptRecordException, TopicAuthorizationFailedError

from streams.wire.batch_fetch import drain_fetched, wait_for_fetch
from tests.fakes.kafka_fetcher import IN, OUT, SNAPPY, Consumer, batch


def seen(records: list[Any]) -> list[tuple[Any, ...]]:
    """What a runner looks at."""
    return [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]


@pytest.fixture
async def consumer() -> Consumer:
    """A consumer of two partitions."""
    return Consumer()


@pytest.mark.parametrize("codec", [0, SNAPPY])
@pytest.mark.parametrize(
    ("offset", "batches"),
    [
        (10, [(10, 0, 1, 2)]),
        (11, [(10, 0, 1, 2)]),
        (0, [(10, 0, 5), (20, 1, 2)]),
        (12, [(10, 0, 1, 2), (13, 0)]),
        (13, [(10, 0, 1, 2)]),
    ],
)
async def test_the_records_are_those_that_getmany_answers(
    consumer: Consumer, codec: int, offset: int, batches: list[tuple[int, ...]]
) -> None:
    """Wherever the fetch began and whatever compaction took, what comes and where it goes on is aiokafka's own."""
    data = b"".join(batch(*one, codec=codec) for one in batches)
    expected = seen(consumer.fetched(IN, data, offset).getall())
    goes_on = consumer.position(IN)
    consumer.fetched(IN, data, offset)
    assert [(tp, seen(records)) for tp, records in drain_fetched(consumer)] == ([(IN, expected)] if expected else [])
    assert consumer.position(IN) == goes_on
    assert not consumer._records


async def test_it_fetches_on_when_all_was_taken(consumer: Consumer) -> None:
    """Else one partition would be fetched alone, and the others would wait for its batch."""
    consumer.fetched(IN, batch(0, 0), 0)
    consumer.fetched(OUT, batch(5, 0), 5)
    partitions = []
    for tp, _ in drain_fetched(consumer):
        partitions.append(tp)
        assert not consumer.fetches_on
    assert (partitions, consumer.fetches_on) == ([IN, OUT], 1)


async def test_what_was_fetched_for_another_position_is_dropped(consumer: Consumer) -> None:
    """After a seek, nothing of before it comes."""
    consumer.fetched(IN, batch(0, 0), 0)
    consumer.assignment.state_value(IN).seek(7)
    assert list(drain_fetched(consumer)) == []
    assert (consumer.position(IN), consumer._records, consumer.fetches_on) == (7, {}, 1)


async def test_a_batch_that_is_not_what_was_written_is_refused(consumer: Consumer) -> None:
    """It is fetched again rather than believed."""
    data = bytearray(batch(0, 0))
    data[-1] ^= 1
    consumer.fetched(IN, bytes(data), 0)
    with pytest.raises(CorruptRecordException):
        list(drain_fetched(consumer))
    assert consumer.position(IN) == 0


async def test_an_error_of_a_fetch_is_raised_once(consumer: Consumer) -> None:
    """The next fetch may do better."""
    consumer._records[IN] = FetchError(error=TopicAuthorizationFailedError("in"), backoff=0)
    with pytest.raises(TopicAuthorizationFailedError):
        list(drain_fetched(consumer))
    assert list(drain_fetched(consumer)) == []


async def test_arrive_returns_when_something_is_there(consumer: Consumer) -> None:
    """At once where something was fetched before, with the fetch that is waited for, or when the time is over."""
    await wait_for_fetch(consumer, 0)
    assert consumer._waiters[0].cancelled()
    waiting = asyncio.create_task(wait_for_fetch(consumer, 60))
    for _ in range(3):
        await asyncio.sleep(0)
    consumer._waiters[1].set_result(None)
    await waiting
    consumer.fetched(IN, batch(0, 0), 0)
    await wait_for_fetch(consumer, 60)
    assert len(consumer._waiters) == 2

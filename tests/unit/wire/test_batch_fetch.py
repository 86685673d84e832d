"""Drained records equal those of aiokafka's own `getmany`, partition by partition."""

import asyncio
from typing import Any

import pytest
from aiokafka.consumer.fetcher import FetchError
from aiokafka.errors import CorruptRecordException, TopicAuthorizationFailedError

from streams.wire.batch_fetch import drain_fetched, wait_for_fetch
from tests.fakes.kafka_fetcher import IN, OUT, SNAPPY, Consumer, batch


def fields(records: list[Any]) -> list[tuple[Any, ...]]:
    """Return the fields that a runner reads."""
    return [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]


@pytest.fixture
async def consumer() -> Consumer:
    """Create a consumer of two partitions."""
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
async def test_the_records_equal_those_of_getmany(
    consumer: Consumer, codec: int, offset: int, batches: list[tuple[int, ...]]
) -> None:
    """For any fetch offset and any compaction, records and next offset equal those of aiokafka."""
    data = b"".join(batch(*one, codec=codec) for one in batches)
    expected = fields(consumer.fetched(IN, data, offset).getall())
    goes_on = consumer.position(IN)
    consumer.fetched(IN, data, offset)
    assert [(tp, fields(records)) for tp, records in drain_fetched(consumer)] == ([(IN, expected)] if expected else [])
    assert consumer.position(IN) == goes_on
    assert not consumer._records


async def test_fetching_resumes_after_all_partitions(consumer: Consumer) -> None:
    """Otherwise one partition would be fetched alone, and the others would wait for its batch."""
    consumer.fetched(IN, batch(0, 0), 0)
    consumer.fetched(OUT, batch(5, 0), 5)
    partitions = []
    for tp, _ in drain_fetched(consumer):
        partitions.append(tp)
        assert not consumer.fetches_on
    assert (partitions, consumer.fetches_on) == ([IN, OUT], 1)


async def test_records_of_another_position_are_dropped(consumer: Consumer) -> None:
    """After a seek, no earlier record is returned."""
    consumer.fetched(IN, batch(0, 0), 0)
    consumer.assignment.state_value(IN).seek(7)
    assert list(drain_fetched(consumer)) == []
    assert (consumer.position(IN), consumer._records, consumer.fetches_on) == (7, {}, 1)


async def test_a_corrupt_batch_is_refused(consumer: Consumer) -> None:
    """The consumer fetches it again."""
    data = bytearray(batch(0, 0))
    data[-1] ^= 1
    consumer.fetched(IN, bytes(data), 0)
    with pytest.raises(CorruptRecordException):
        list(drain_fetched(consumer))
    assert consumer.position(IN) == 0


async def test_an_error_of_a_fetch_is_raised_once(consumer: Consumer) -> None:
    """The next fetch may succeed."""
    consumer._records[IN] = FetchError(error=TopicAuthorizationFailedError("in"), backoff=0)
    with pytest.raises(TopicAuthorizationFailedError):
        list(drain_fetched(consumer))
    assert list(drain_fetched(consumer)) == []


async def test_wait_for_fetch_returns_when_records_are_available(consumer: Consumer) -> None:
    """It returns at once if records were fetched before, else with the awaited fetch or at the timeout."""
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

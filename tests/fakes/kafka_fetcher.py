"""A consumer whose fetcher returns record batches made by the test, with aiokafka's own result types."""

import asyncio
from typing import Any

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import FetchResult, PartitionRecords
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

IN, OUT = TopicPartition("in", 3), TopicPartition("out", 0)


SNAPPY = 2


def batch(first: int, *deltas: int, codec: int = SNAPPY) -> bytes:
    """Return one batch that begins at offset `first`."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for delta in deltas:
        assert builder.append(delta, 1_000 + delta, b"key", b"value %d" % (first + delta), [("type", b"progress")])
    data = builder.build()
    data[:8] = first.to_bytes(8, "big")  # the checksum does not cover this field
    return bytes(data)


class Consumer:
    """A consumer with the few attributes that are used: aiokafka's own results over the test's bytes."""

    def __init__(self) -> None:
        self.state = SubscriptionState()
        self.state.assign_from_user([IN, OUT])
        assert self.state.subscription is not None
        self.assignment = self.state.subscription.assignment
        self._fetcher = self
        self._records: dict[TopicPartition, Any] = {}
        self._wait_consume_future = object()
        self._waiters: list[asyncio.Future[None]] = []
        self.fetches_on = 0

    def _notify(self, future: object) -> None:
        assert future is self._wait_consume_future
        self.fetches_on += 1

    def _create_fetch_waiter(self) -> "asyncio.Future[None]":
        self._waiters.append(asyncio.get_running_loop().create_future())
        return self._waiters[-1]

    def fetched(self, tp: TopicPartition, data: bytes, offset: int) -> Any:
        self.assignment.state_value(tp).seek(offset)
        records = PartitionRecords(tp, MemoryRecords(data), [], offset, None, None, True, 0)
        result = FetchResult(tp, assignment=self.assignment, partition_records=records, backoff=0)
        self._records[tp] = result
        return result

    def position(self, tp: TopicPartition) -> int:
        return int(self.assignment.state_value(tp).position)

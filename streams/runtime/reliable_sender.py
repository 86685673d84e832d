"""Sends records and returns when the brokers have acknowledged them; retries every failed delivery.

Preserves the order: records after a failed one are sent again after it, with the same ids, so that readers deduplicate.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from aiokafka.errors import KafkaError

from streams.instrument.metrics import Metrics
from streams.wire.topics import Partitions, Record

_LOG_APPEND_TIME = 1
_MS = 1_000_000

AGAIN_S = 0.2
AT_ONCE = 5000
"""The limit of records in flight: some ten megabytes of the largest records."""


class PartitionLost(Exception):
    """Raised if the partition has another owner, which sends the same outputs."""


class ReliableSender:
    """Sends the outputs of one owner."""

    def __init__(
        self,
        producer: Callable[[], Any],
        partitions: Partitions,
        owned: Callable[[], bool],
        *,
        stage: str,
        partition: int,
        metrics: Metrics,
        again_s: float = AGAIN_S,
        appended: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Create a sender; `producer` returns aiokafka's producer or None, `owned` whether this owner may still send.

        `appended` is called with the time (Unix, ns) at which a broker has just appended a record.
        """
        self._producer = producer
        self._partitions = partitions
        self._owned = owned
        self._stage = stage
        self._partition = partition
        self._metrics = metrics
        self._again_s = again_s
        self._appended = appended
        self._sending: list[float] = []
        self.attempts = 0
        """The number of attempts to send; each ends in bounded time."""

    async def send(self, records: Sequence[Record], at: Sequence[int] = ()) -> list[int]:
        """Send to the partitions `at` (default: each record's own); return the offsets when all are acknowledged.

        Raises PartitionLost if the partition is lost meanwhile.
        """
        began = time.monotonic()
        self._sending.append(began)
        try:
            return await self._send(records, at)
        finally:
            self._sending.remove(began)

    @property
    def sending_s(self) -> float:
        """The time since the begin of the oldest unfinished `send`; 0 without one."""
        return time.monotonic() - min(self._sending) if self._sending else 0.0

    async def _send(self, records: Sequence[Record], at: Sequence[int]) -> list[int]:
        where = at or [record.partition(self._partitions) for record in records]
        offsets: list[int] = []
        while len(offsets) < len(records):
            if not self._owned():
                raise PartitionLost
            begin = len(offsets)
            some = list(zip(records[begin : begin + AT_ONCE], where[begin : begin + AT_ONCE], strict=True))
            offsets += await self._try(some)
            if len(offsets) < begin + len(some):
                self._metrics.count("railsight_send_retries_total", self._stage, self._partition)
                await asyncio.sleep(self._again_s)
        return offsets

    async def send_once(self, records: Sequence[Record]) -> None:
        """Send records that `send` repeats later: once, and without a wait for their acknowledgement."""
        producer = self._producer()
        if producer is None or not self._owned():
            return
        with suppress(KafkaError, OSError, TimeoutError):
            for record in records:
                delivery = await _queue(producer, record, record.partition(self._partitions))
                delivery.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _try(self, records: list[tuple[Record, int]]) -> list[int]:
        """Send once; return the offsets of the records before the first failed one."""
        self.attempts += 1
        producer = self._producer()
        if producer is None:
            return []
        deliveries = []
        try:
            for record, partition in records:
                deliveries.append(await _queue(producer, record, partition))
        except (KafkaError, OSError, TimeoutError):
            pass  # Records that the producer accepted before are still sent, and their offsets count.
        answers = await asyncio.gather(*deliveries, return_exceptions=True)
        offsets = []
        for answer in answers:
            if isinstance(answer, KafkaError | OSError | TimeoutError | asyncio.CancelledError):
                break
            if isinstance(answer, BaseException):
                raise answer
            offsets.append(answer.offset)
            if answer.timestamp_type == _LOG_APPEND_TIME:
                self._appended(answer.timestamp * _MS)
        return offsets


async def _queue(producer: Any, record: Record, partition: int) -> "asyncio.Future[Any]":
    """Queue a record; the returned future completes with its acknowledgement."""
    delivery: asyncio.Future[Any] = await producer.send(
        record.topic.name, record.value, key=record.key, partition=partition, headers=list(record.headers)
    )
    return delivery

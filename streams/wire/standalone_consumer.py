"""Reads partitions to their present end with a consumer outside any group, and compacted topics by key."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from streams.wire.errors import Reject
from streams.wire.kafka_clients import stop_client
from streams.wire.models import Finding, Message
from streams.wire.topics import Topic, decode

AWAY = (KafkaError, OSError, TimeoutError)
"""The errors that a client raises while the brokers are unavailable: wait and retry."""

READ_COMMITTED = "read_committed"
"""The isolation level of all readers: records of an unfinished or aborted transaction of `decide` are not delivered."""

_WAIT_MS = 50
"""The longest wait of a fetch; brokers answer a connection's requests in order, so others wait for it."""


@asynccontextmanager
async def open_consumer(options: Mapping[str, Any], wait_ms: int = _WAIT_MS) -> AsyncIterator[Any]:
    """Yield a consumer of committed records; reuse it, because starting one costs more than most reads."""
    consumer = AIOKafkaConsumer(
        **options, enable_auto_commit=False, auto_offset_reset="earliest", fetch_max_wait_ms=wait_ms,
        isolation_level=READ_COMMITTED,
    )  # fmt: skip
    try:
        await consumer.start()
        yield consumer
    finally:
        await stop_client(consumer)


async def records(consumer: Any, topic: str, partition: int, start: int = 0) -> AsyncIterator[Any]:
    """Yield the records that the partition has now, from offset `start` on."""
    tp = TopicPartition(topic, partition)
    first = max(start, (await consumer.beginning_offsets([tp]))[tp])
    end = (await consumer.end_offsets([tp]))[tp]
    if first >= end:
        return
    consumer.assign([tp])
    consumer.seek(tp, first)
    while await consumer.position(tp) < end:
        for record in (await consumer.getmany(tp, timeout_ms=500)).get(tp, ()):
            yield record
    # Otherwise it would continue to fetch, and the next request would wait for that.
    consumer.unsubscribe()


async def offset_at(consumer: Any, topic: str, partition: int, time_ns: int) -> int:
    """Return the offset of the first record at a time or later, or the end."""
    tp = TopicPartition(topic, partition)
    found = (await consumer.offsets_for_times({tp: time_ns // 1_000_000}))[tp]
    return int((await consumer.end_offsets([tp]))[tp] if found is None else found.offset)


async def start_and_end_offsets(
    consumer: Any, partitions: Iterable[tuple[str, int]]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the first retained offset of each partition, and the offset after its last record; by topic."""
    wanted = [TopicPartition(*partition) for partition in partitions]
    first, end = await consumer.beginning_offsets(wanted), await consumer.end_offsets(wanted)
    return {tp.topic: offset for tp, offset in first.items()}, {tp.topic: offset for tp, offset in end.items()}


class CompactedTopic:
    """The content of a compacted topic by key, while its records are read one by one."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.newest: dict[bytes, Message] = {}
        """The newest message of each key; for findings, the one with the highest revision."""
        self.unreadable: set[bytes] = set()
        """Keys whose newest record cannot be read; `newest` may have an earlier message of them."""

    def add(self, record: Any) -> None:
        """Add one record; a tombstone removes its key."""
        key = record.key or b""
        self.unreadable.discard(key)
        if record.value is None:
            self.newest.pop(key, None)
            return
        try:
            message = decode(self._topic, record.value, record.headers)
        except Reject:
            self.unreadable.add(key)
            return
        known = self.newest.get(key)
        if not (isinstance(message, Finding) and isinstance(known, Finding) and message.revision < known.revision):
            self.newest[key] = message

    def readable(self) -> dict[bytes, Message]:
        """Return the newest messages of the keys whose newest record is readable."""
        return {key: message for key, message in self.newest.items() if key not in self.unreadable}

    @property
    def keys(self) -> set[bytes]:
        """Return the keys whose newest record is not a tombstone."""
        return self.newest.keys() | self.unreadable


async def read_compacted(consumer: Any, topic: Topic, partitions: int = 1) -> CompactedTopic:
    """Return the present content of a compacted topic."""
    content = CompactedTopic(topic)
    for partition in range(partitions):
        async for record in records(consumer, topic.name, partition):
            content.add(record)
    return content

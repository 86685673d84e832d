"""Sends the outputs of an owner and the state that covers them in one Kafka transaction.

Readers of committed records receive all records of a transaction or none, so nothing is published that a successor does
not restore. Kafka fences: `open` makes the brokers abort the former owner's unfinished transaction and refuse its later
ones. After a failed transaction its outcome is unknown, so the partition is taken over again from the committed state.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streams.config.kafka import KafkaSettings
from streams.runtime.reliable_sender import PartitionLost
from streams.wire.kafka_clients import stop_client, throttle_metadata_refresh
from streams.wire.topics import Record

TRANSACTION_S = 15.0
"""The brokers abort a longer transaction. Readers of committed records wait for an unfinished one: after a kill for a
successor, which takes the session timeout, or for this time."""
_MAX_REQUEST_BYTES = 4 << 20


class TransactionFailed(Exception):
    """Raised if a transaction may not have been committed; the owner must be replaced by a new one."""


OpenProducer = Callable[[str], Awaitable[Any]]
"""Starts a producer with a transactional id."""


async def open_transactional_producer(kafka: KafkaSettings, transactional_id: str) -> Any:
    """Start a producer with a transactional id, which fences all others with it; raises aiokafka's errors."""
    producer = AIOKafkaProducer(
        **kafka.client_options(), transactional_id=transactional_id, acks="all", max_request_size=_MAX_REQUEST_BYTES,
        transaction_timeout_ms=round(TRANSACTION_S * 1000),
    )  # fmt: skip
    throttle_metadata_refresh(producer)
    try:
        await producer.start()
    except BaseException:
        await stop_client(producer)
        raise
    return producer


class TransactionalSender:
    """Sends each batch of records of one owner as one transaction."""

    def __init__(self, open_producer: OpenProducer, transactional_id: str, owned: Callable[[], bool]) -> None:
        """Create a sender; `owned` returns whether this owner may still send."""
        self._open_producer, self._transactional_id, self._owned = open_producer, transactional_id, owned
        self._producer: Any = None
        self._since: float | None = None
        self.attempts = 0
        """The number of transactions; each waits for the brokers."""

    async def open(self) -> None:
        """Fence all former owners; may be called again."""
        await self.close()
        self._producer = await self._open_producer(self._transactional_id)

    async def close(self) -> None:
        """Stop the producer; a successor or the brokers abort an unfinished transaction."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop_client(producer)

    @property
    def sending_s(self) -> float:
        """The duration of the present transaction; 0 without one."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    async def send(self, records: Sequence[Record], at: Sequence[int]) -> list[int]:
        """Send to the partitions `at` in one transaction, and return the offsets after its commit.

        Raises PartitionLost without ownership, and TransactionFailed if the records may not be committed.
        """
        if not records:
            return []
        self.attempts, self._since = self.attempts + 1, time.monotonic()
        try:
            return await self._send(records, at)
        except (KafkaError, OSError, TimeoutError) as error:
            if not self._owned():
                raise PartitionLost from error
            raise TransactionFailed(f"{self._transactional_id}: {error or type(error).__name__}") from error
        finally:
            self._since = None

    async def _send(self, records: Sequence[Record], at: Sequence[int]) -> list[int]:
        if not self._owned():
            raise PartitionLost
        producer = self._producer
        await producer.begin_transaction()
        deliveries = [
            await producer.send(
                record.topic.name, record.value, key=record.key, partition=partition, headers=list(record.headers)
            )
            for record, partition in zip(records, at, strict=True)
        ]
        # aiokafka would commit although a record was refused.
        offsets = []
        for answer in await asyncio.gather(*deliveries, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer
            offsets.append(answer.offset)
        await producer.commit_transaction()
        return offsets

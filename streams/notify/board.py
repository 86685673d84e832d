"""Reads the input of the notifier's alerts: first the current state of the topics, then their changes.

The compacted topics (open findings, open remediations, controls) are read from their beginning, so that a reader at the
end has the current state. Remediations, results and findings are read from the recent past, because denials are in no
topic of open remediations, and ends are posted again. All of these topics have one partition.
"""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError

from streams.notify.params import NotifyParams
from streams.wire.errors import Retry
from streams.wire.kafka_clients import stop_client
from streams.wire.standalone_consumer import READ_COMMITTED
from streams.wire.topics import (
    CONTROLS,
    FINDINGS,
    FINDINGS_OPEN,
    PROGRESS,
    REMEDIATION_RESULTS,
    REMEDIATIONS,
    REMEDIATIONS_OPEN,
)

if TYPE_CHECKING:
    from streams.health.input_checks import Place

TOPICS = (FINDINGS, FINDINGS_OPEN, CONTROLS, REMEDIATIONS_OPEN, REMEDIATIONS, REMEDIATION_RESULTS, PROGRESS)
_PARTITIONS = tuple(TopicPartition(topic.name, 0) for topic in TOPICS)
_FINDINGS, _, _, _, _REMEDIATIONS, _RESULTS, _PROGRESS = _PARTITIONS
_COMPACTED = _PARTITIONS[1:4]
_FOLLOWED = _PARTITIONS[1:]
_POLL_MS = 200


class Board:
    """A reader of these topics without a consumer group; an async context."""

    def __init__(self, kafka: Mapping[str, Any], params: NotifyParams) -> None:
        self._consumer = AIOKafkaConsumer(**kafka, enable_auto_commit=False, isolation_level=READ_COMMITTED)
        self._params = params
        self.positions: dict[Place, int] = {}
        """The next offset of each followed topic, after `read_all` has ended."""

    async def read_all(self, now_ns: int) -> AsyncIterator[ConsumerRecord]:
        """Yield the records up to the current ends of the topics; the Progress topics are only followed."""
        self.positions = {}
        ends = await self._consumer.end_offsets(_PARTITIONS)
        self._consumer.resume(_FINDINGS)
        await self._consumer.seek_to_beginning(*_COMPACTED)
        for partition, past_s in (
            (_FINDINGS, self._params.ends_s),
            (_REMEDIATIONS, self._params.remediation_s),
            (_RESULTS, self._params.remediation_s),
            (_PROGRESS, 0.0),
        ):
            since_ms = (now_ns - round(past_s * 1e9)) // 1_000_000
            found = (await self._consumer.offsets_for_times({partition: since_ms}))[partition]
            self._consumer.seek(partition, ends[partition] if found is None or not past_s else found.offset)
        while [p for p in _PARTITIONS if await self._consumer.position(p) < ends[p]]:
            for record in await self._poll(_POLL_MS):
                yield record
        # The consumer group reads new findings.
        self._consumer.pause(_FINDINGS)
        await self._note_positions()

    async def changes(self) -> list[ConsumerRecord]:
        """Return the records since the last call, without waiting."""
        found = await self._poll(0)
        await self._note_positions()
        return found

    async def _note_positions(self) -> None:
        # The records do not have the positions, because compaction may have removed the last ones.
        self.positions = {(at.topic, at.partition): await self._consumer.position(at) for at in _FOLLOWED}

    async def _poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        try:
            batches = await self._consumer.getmany(timeout_ms=timeout_ms)
        except KafkaError as error:
            raise Retry(f"{FINDINGS_OPEN.name}: {error}") from error
        return [record for batch in batches.values() for record in batch]

    async def __aenter__(self) -> Self:
        try:
            await self._consumer.start()
        except KafkaError as error:
            await stop_client(self._consumer)
            if isinstance(error, KafkaConnectionError):
                raise Retry(f"cannot connect to Kafka: {error}") from error
            raise
        self._consumer.assign(_PARTITIONS)
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop_client(self._consumer)

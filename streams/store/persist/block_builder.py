"""Adds records to a partition's pending block as rows or rejections, or skips them; counts stored records."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog
from aiokafka import TopicPartition

from streams.instrument.metrics import Metrics, NullMetrics
from streams.store.params import SinkParams
from streams.store.persist.persisted_topics import PersistedTopic
from streams.store.persist.rejected_records import MAX_VALUE_BYTES, STAGE
from streams.store.rows.row_builder import RowBuilder, SourcedMessage
from streams.wire import topics
from streams.wire.errors import Reject
from streams.wire.models import Rejected

if TYPE_CHECKING:
    from streams.wire.identity import MacVerifier


@dataclass(slots=True)
class SinkStats:
    """Counts the stored records and rows of a sink since its start, for its log and metrics."""

    metrics: Metrics = field(default_factory=NullMetrics)
    records: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    blocks: int = 0
    rejected: int = 0
    lost: int = 0
    """Records that retention deleted before they were read."""

    def add_block(self, at: TopicPartition, records: int, rows: dict[str, int]) -> None:
        """Add one block of a partition, with its rows by table."""
        self.blocks += 1
        self.records[at.topic] += records
        self.rows.update(rows)
        count = self.metrics.count
        count("railsight_messages_total", STAGE, at.partition, topic=at.topic, by=records)
        count("railsight_rows_stored_total", STAGE, at.partition, topic=at.topic, by=sum(rows.values()))
        count("railsight_blocks_stored_total", STAGE, at.partition, topic=at.topic)

    def add_rejected(self, at: TopicPartition) -> None:
        """Add one unreadable record."""
        self.rejected += 1
        self.metrics.count("railsight_rejected_total", STAGE, at.partition, topic=at.topic)

    def add_lost(self, at: TopicPartition, records: int) -> None:
        """Add records that retention deleted before they were read."""
        self.lost += records
        self.metrics.count("railsight_input_lost_records_total", STAGE, at.partition, topic=at.topic, by=records)


_log = structlog.get_logger("railsight.persist")


@dataclass(slots=True)
class PendingBlock:
    """Records that are read but not stored; `first` is the block's begin, even if compaction removed records."""

    first: int
    first_at: float = 0.0
    last: int = -1
    stamp_ms: int = -1
    newest_ms: int = 0
    records: int = 0
    rows: int = 0
    size: int = 0
    rejected: list[Rejected] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """True if the block has no record."""
        return self.last < self.first

    def add(self, records: Sequence[Any]) -> None:
        """Extend the block's bounds by these records."""
        if records:
            if self.records == 0:
                self.stamp_ms = records[0].timestamp
            self.last = records[-1].offset
            self.newest_ms = max(self.newest_ms, *(record.timestamp for record in records))
            self.records += len(records)


class BlockBuilder:
    """Decodes the records of one partition for the row builder of its topic."""

    def __init__(
        self,
        at: TopicPartition,
        persisted: PersistedTopic,
        rows: RowBuilder,
        params: SinkParams,
        stats: SinkStats,
        now_ns: Callable[[], int],
        verifier: "MacVerifier | None" = None,
    ) -> None:
        self._verifier = verifier if persisted.topic in topics.TELEMETRY else None
        self._at = at
        self._persisted = persisted
        self._models = persisted.models if persisted.other_models else persisted.models[0]
        without_rows = set(persisted.topic.other_models) - set(persisted.other_models)
        self._skipped_types = frozenset(model.__name__.lower().encode() for model in without_rows)
        self._params = params
        self._stats = stats
        self._now_ns = now_ns
        self.rows = rows

    def is_full(self, block: PendingBlock) -> bool:
        """Return whether a block has reached a limit of rows, records or bytes."""
        params = self._params
        return block.rows >= params.block_rows or block.records >= params.block_rows or block.size >= params.block_bytes

    def add(self, block: PendingBlock, records: Sequence[Any], *, until_full: bool = False) -> int:
        """Add records to the block; return how many were added."""
        topic, models, skipped_types = self._persisted.topic, self._models, self._skipped_types
        partition, add = self._at.partition, self.rows.add
        max_rows, max_bytes = self._params.block_rows, self._params.block_bytes
        verifier = self._verifier
        added = 0
        for record in records:
            added += 1
            value, headers = record.value, record.headers
            if value is None:
                continue
            block.size += len(value)
            # Message types without rows are not decoded.
            if headers and _type_of(headers) in skipped_types:
                continue
            try:
                if verifier is None:
                    message = topics.decode(topic, value, headers)
                else:
                    message = verifier.decode(topic, record, self._on_refusal)
                if isinstance(message, models):
                    block.rows += add(SourcedMessage(partition, record.offset, record.timestamp, message))
            except Reject as error:
                self._reject(block, record, str(error))
            if until_full and (block.rows >= max_rows or block.size >= max_bytes):
                break
        block.add(records[:added])
        return added

    def _on_refusal(self, topic: topics.Topic, _offset: int, _reason: str) -> None:
        self._stats.metrics.count("railsight_unauthenticated_total", STAGE, self._at.partition, topic=topic.name)

    def _reject(self, block: PendingBlock, record: Any, reason: str) -> None:
        self._stats.add_rejected(self._at)
        _log.warning("record rejected", topic=self._at.topic, offset=record.offset, reason=reason)
        if self._persisted.topic is topics.REJECTED:
            return  # a rejection of a rejection would loop forever
        value = record.value[:MAX_VALUE_BYTES]
        block.rejected.append(
            Rejected(self._at.topic, self._at.partition, record.offset, STAGE, reason, self._now_ns(), value)
        )


def _type_of(headers: topics.Headers) -> bytes:
    """Return the message type of a record if it differs from the topic's."""
    return next((data for name, data in headers if name == "type"), b"")

"""Counts what a sink has stored since it started, for its log and its metrics."""

from collections import Counter
from dataclasses import dataclass, field

from aiokafka import TopicPartition

from streams.instrument.metrics import Metrics, NullMetrics

STAGE = "persist"
"""The label `stage` of a sink's metrics."""


@dataclass(slots=True)
class SinkStats:
    """Running totals, which are passed on to the metrics of the process."""

    metrics: Metrics = field(default_factory=NullMetrics)
    records: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    blocks: int = 0
    rejected: int = 0
    rewinds: int = 0
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
        """Add one record that cannot be read."""
        self.rejected += 1
        self.metrics.count("railsight_rejected_total", STAGE, at.partition, topic=at.topic)

    def add_lost(self, at: TopicPartition, records: int) -> None:
        """Add records that retention deleted before they were read."""
        self.lost += records
        self.metrics.count("railsight_input_lost_records_total", STAGE, at.partition, topic=at.topic, by=records)

"""Counts what a sink has stored since it started, for its log and its metrics."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class SinkStats:
    """Running totals."""

    records: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    blocks: int = 0
    rejected: int = 0
    rewinds: int = 0
    lost: int = 0
    """Records that retention deleted before they were read."""

    def add_block(self, topic: str, records: int, rows: dict[str, int]) -> None:
        """Add one block."""
        self.blocks += 1
        self.records[topic] += records
        self.rows.update(rows)

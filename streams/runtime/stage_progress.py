"""Computes the progress of one stage over all its partitions from its Progress messages."""

from collections import deque
from dataclasses import dataclass, field

from streams.wire.models import IDLE_NS, Progress

RATE_OVER_S = 5.0


@dataclass(slots=True)
class StageProgress:
    """The progress of one stage over all its partitions: read records, unread records, and watermarks."""

    records: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    records_of_former_owners: dict[int, int] = field(default_factory=dict)
    lags: dict[int, int] = field(default_factory=dict)
    watermarks: dict[int, int] = field(default_factory=dict)
    totals: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=600))

    def update(self, progress: Progress, now_s: float) -> None:
        """Apply one Progress that arrived at `now_s`."""
        part = progress.partition
        if progress.epoch < self.epochs.get(part, 0):
            return  # a late message of a former owner
        if progress.epoch > self.epochs.get(part, 0):
            # A new owner counts from zero, so the records of the former owner are added.
            self.records_of_former_owners[part] = self.records_of_former_owners.get(part, 0) + self.records.get(part, 0)
            self.epochs[part] = progress.epoch
        self.records[part] = progress.records
        self.lags[part] = progress.lag
        self.watermarks[part] = progress.watermark_ns
        self.totals.append((now_s, self.total))

    @property
    def total(self) -> int:
        """The number of records that all owners have read."""
        return sum(self.records.values()) + sum(self.records_of_former_owners.values())

    @property
    def lag(self) -> int:
        """The number of unread records."""
        return sum(self.lags.values())

    @property
    def watermark_ns(self) -> int | None:
        """The lowest watermark of its partitions; None before the first one, and while every partition is idle."""
        known = [ns for ns in self.watermarks.values() if 0 < ns < IDLE_NS]
        return min(known, default=None)

    def has_reached(self, ns: int) -> bool:
        """Return whether the watermark passed `ns` in every partition that is not idle."""
        return (watermark := self.watermark_ns) is not None and watermark >= ns

    def rate(self, now_s: float) -> float:
        """Return records per second over the last `RATE_OVER_S` seconds."""
        recent = [(at, total) for at, total in self.totals if at >= now_s - RATE_OVER_S]
        if len(recent) < 2 or recent[-1][0] <= recent[0][0]:
            return 0.0
        return (recent[-1][1] - recent[0][1]) / (recent[-1][0] - recent[0][0])

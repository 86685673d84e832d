"""Progress of one stage over all its partitions, folded from the Progress messages that it emits."""

from collections import deque
from dataclasses import dataclass, field

from streams.wire.models import IDLE_NS, Progress

RATE_OVER_S = 5.0


@dataclass(slots=True)
class StageProgress:
    """One stage over all its partitions: records read, records not yet read, and watermarks."""

    records: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    records_of_former_owners: dict[int, int] = field(default_factory=dict)
    lags: dict[int, int] = field(default_factory=dict)
    watermarks: dict[int, int] = field(default_factory=dict)
    totals: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=600))

    def update(self, progress: Progress, now_s: float) -> None:
        """Fold in one Progress that arrived at `now_s`."""
        part = progress.partition
        if progress.epoch < self.epochs.get(part, 0):
            return  # a late message of a former owner
        if progress.epoch > self.epochs.get(part, 0):
            # A new owner counts from zero; the records of the former owner stay counted.
            self.records_of_former_owners[part] = self.records_of_former_owners.get(part, 0) + self.records.get(part, 0)
            self.epochs[part] = progress.epoch
        self.records[part] = progress.records
        self.lags[part] = progress.lag
        self.watermarks[part] = progress.watermark_ns
        self.totals.append((now_s, self.total))

    @property
    def total(self) -> int:
        """Records read by all owners."""
        return sum(self.records.values()) + sum(self.records_of_former_owners.values())

    @property
    def lag(self) -> int:
        """Records not yet read."""
        return sum(self.lags.values())

    @property
    def watermark_ns(self) -> int | None:
        """The smallest watermark of its partitions; None before the first and when every partition is idle."""
        known = [ns for ns in self.watermarks.values() if 0 < ns < IDLE_NS]
        return min(known, default=None)

    def has_reached(self, ns: int) -> bool:
        """Return whether the watermark passed `ns` in every partition; idle partitions are left out."""
        return (watermark := self.watermark_ns) is not None and watermark >= ns

    def rate(self, now_s: float) -> float:
        """Return records per second over the last `RATE_OVER_S` seconds."""
        recent = [(at, total) for at, total in self.totals if at >= now_s - RATE_OVER_S]
        if len(recent) < 2 or recent[-1][0] <= recent[0][0]:
            return 0.0
        return (recent[-1][1] - recent[0][1]) / (recent[-1][0] - recent[0][0])

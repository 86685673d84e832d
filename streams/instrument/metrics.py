"""What railsight says of itself while it runs: every name is here once, so that a misspelt one is a type error.

Whoever counts is handed a Metrics; the one that Prometheus reads is in streams/runtime/prometheus.py.
"""

from typing import Literal, Protocol

Counter = Literal[
    "railsight_messages_total",
    "railsight_rejected_total",
    "railsight_outputs_total",
    "railsight_snapshots_total",
    "railsight_snapshot_bytes_total",
    "railsight_snapshot_seconds_total",
    "railsight_takeovers_total",
    "railsight_send_retries_total",
]
Gauge = Literal[
    "railsight_watermark_seconds",
    "railsight_lag_records",
    "railsight_epoch",
    "railsight_takeover_seconds",
]

HELP: dict[Counter | Gauge, str] = {
    "railsight_messages_total": "Records folded into a stage, by its input topic.",
    "railsight_rejected_total": "Records that could not be read and went to the rejected topic.",
    "railsight_outputs_total": "Records that a stage said, by topic; each is a revision of what its key names.",
    "railsight_snapshots_total": "Snapshots written and acknowledged.",
    "railsight_snapshot_bytes_total": "Bytes of these snapshots.",
    "railsight_snapshot_seconds_total": "Time from taking these snapshots to their acknowledgement.",
    "railsight_takeovers_total": "Times that a partition was taken over and its state restored.",
    "railsight_send_retries_total": "Times that records had to be sent again.",
    "railsight_watermark_seconds": "How far event time has come, as Unix time.",
    "railsight_lag_records": "Records of the input that are not read yet.",
    "railsight_epoch": "The epoch of the partition's owner.",
    "railsight_takeover_seconds": "How long it took to take the partition over, its state restored.",
}


class Metrics(Protocol):
    """Where counts go. Labels: the stage, the partition of its input, and a topic where the name speaks of one."""

    def count(self, name: Counter, stage: str, partition: int, *, topic: str = "", by: float = 1) -> None:
        """Add to a counter."""
        ...

    def set(self, name: Gauge, stage: str, partition: int, value: float) -> None:
        """Set a gauge."""
        ...


class NullMetrics:
    """For whoever does not ask."""

    def count(self, name: Counter, stage: str, partition: int, *, topic: str = "", by: float = 1) -> None:
        """Count nothing."""

    def set(self, name: Gauge, stage: str, partition: int, value: float) -> None:
        """Keep nothing."""

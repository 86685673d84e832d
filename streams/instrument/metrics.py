"""Defines the self-metrics of railsight: every name is defined once, so that a misspelt name is a type error.

Code that counts takes a Metrics argument; Prometheus scrapes the one in streams/health/status_server.py.
"""

from typing import Literal, Protocol

Counter = Literal[
    "railsight_messages_total",
    "railsight_rejected_total",
    "railsight_unauthenticated_total",
    "railsight_input_lost_records_total",
    "railsight_outputs_total",
    "railsight_snapshots_total",
    "railsight_snapshot_bytes_total",
    "railsight_snapshot_seconds_total",
    "railsight_snapshot_failures_total",
    "railsight_snapshots_unreadable_total",
    "railsight_stale_progress_total",
    "railsight_takeovers_total",
    "railsight_send_retries_total",
    "railsight_late_messages_total",
    "railsight_clock_ahead_total",
    "railsight_implausible_rates_total",
    "railsight_unknown_devices_refused_total",
    "railsight_unknown_ports_refused_total",
    "railsight_append_times_refused_total",
    "railsight_tickets_delivered_total",
    "railsight_tickets_refused_total",
    "railsight_ticket_failures_total",
    "railsight_log_records_sent_total",
    "railsight_log_records_refused_total",
    "railsight_log_send_failures_total",
    "railsight_rows_stored_total",
    "railsight_blocks_stored_total",
]
Gauge = Literal[
    "railsight_watermark_seconds",
    "railsight_lag_records",
    "railsight_epoch",
    "railsight_takeover_seconds",
    "railsight_clock_offset_seconds",
    "railsight_tickets_blocked",
    "railsight_tickets_open",
    "railsight_unstored_seconds",
]

HELP: dict[Counter | Gauge, str] = {
    "railsight_messages_total": "Records folded into a stage, or stored by the sink, by input topic.",
    "railsight_rejected_total": "Unreadable records that were sent to the rejected topic.",
    "railsight_unauthenticated_total": "Records of telemetry without a valid MAC; with identity.mode require refused.",
    "railsight_input_lost_records_total": "Records that were deleted by retention before they were read, by topic.",
    "railsight_outputs_total": "Records that a stage emitted, by topic; each is a revision of the subject of its key.",
    "railsight_snapshots_total": "Snapshots written and acknowledged.",
    "railsight_snapshot_bytes_total": "Bytes of snapshots written and acknowledged.",
    "railsight_snapshot_seconds_total": "Time from taking a snapshot to its acknowledgement, summed over snapshots.",
    "railsight_snapshot_failures_total": "Snapshots that could not be written or read back; the last good one is kept.",
    "railsight_snapshots_unreadable_total": "Snapshots that a takeover passed over: unreadable, or of a newer version.",
    "railsight_stale_progress_total": "Progress of a lower epoch than known, which is ignored: of a replaced owner.",
    "railsight_takeovers_total": "Takeovers of a partition with its state restored.",
    "railsight_send_retries_total": "Retries of sending records.",
    "railsight_late_messages_total": "Samples that are older than the watermark of their partition.",
    "railsight_clock_ahead_total": "Samples and events dated by their arrival, as the clock of their sender is ahead.",
    "railsight_implausible_rates_total": "Growth of bytes in a window beyond a port's speed, not compared.",
    "railsight_unknown_devices_refused_total": "Messages of devices beyond the bound of devices without inventory.",
    "railsight_unknown_ports_refused_total": "Events of ports beyond the bound of ports that only events name.",
    "railsight_append_times_refused_total": "Records whose broker appended them at a time after this host's.",
    "railsight_tickets_delivered_total": "Changes of tickets that the ticket system accepted.",
    "railsight_tickets_refused_total": "Changes of tickets that the ticket system refused as invalid, not repeated.",
    "railsight_ticket_failures_total": "Failed attempts to deliver a ticket, each of which is repeated.",
    "railsight_log_records_sent_total": "Findings and remediations that the receiver of OTLP answered, by topic.",
    "railsight_log_records_refused_total": "Log records that the receiver of OTLP refused as invalid, not repeated.",
    "railsight_log_send_failures_total": "Failed attempts to send log records by OTLP, each of which is repeated.",
    "railsight_rows_stored_total": "Rows that the sink stored, by the topic that they are from.",
    "railsight_blocks_stored_total": "Blocks of records that the sink stored, by topic.",
    "railsight_watermark_seconds": "The watermark in event time, as Unix time.",
    "railsight_lag_records": "Records of the input that are not yet read.",
    "railsight_epoch": "The epoch of the partition's owner.",
    "railsight_takeover_seconds": "Duration of the last takeover of the partition, with its state restored.",
    "railsight_clock_offset_seconds": "How far the clock of this host is ahead of the brokers' time, negative: behind.",
    "railsight_tickets_blocked": "1 while the last attempt to deliver a ticket failed, and the others wait behind it.",
    "railsight_tickets_open": "Remediations that need a person's hands now.",
    "railsight_unstored_seconds": "The time for which the sink's oldest finished block waits for ClickHouse.",
}

UNIT: dict[Counter | Gauge, str] = {
    "railsight_messages_total": "records",
    "railsight_rejected_total": "records",
    "railsight_unauthenticated_total": "records",
    "railsight_input_lost_records_total": "records",
    "railsight_outputs_total": "records",
    "railsight_snapshots_total": "snapshots",
    "railsight_snapshot_bytes_total": "bytes",
    "railsight_snapshot_seconds_total": "seconds",
    "railsight_snapshot_failures_total": "snapshots",
    "railsight_snapshots_unreadable_total": "snapshots",
    "railsight_stale_progress_total": "messages",
    "railsight_takeovers_total": "takeovers",
    "railsight_send_retries_total": "retries",
    "railsight_late_messages_total": "messages",
    "railsight_clock_ahead_total": "messages",
    "railsight_implausible_rates_total": "windows",
    "railsight_unknown_devices_refused_total": "messages",
    "railsight_unknown_ports_refused_total": "messages",
    "railsight_append_times_refused_total": "records",
    "railsight_tickets_delivered_total": "changes",
    "railsight_tickets_refused_total": "changes",
    "railsight_ticket_failures_total": "attempts",
    "railsight_log_records_sent_total": "records",
    "railsight_log_records_refused_total": "records",
    "railsight_log_send_failures_total": "attempts",
    "railsight_rows_stored_total": "rows",
    "railsight_blocks_stored_total": "blocks",
    "railsight_watermark_seconds": "seconds",
    "railsight_lag_records": "records",
    "railsight_epoch": "number",
    "railsight_takeover_seconds": "seconds",
    "railsight_clock_offset_seconds": "seconds",
    "railsight_tickets_blocked": "0 or 1",
    "railsight_tickets_open": "tickets",
    "railsight_unstored_seconds": "seconds",
}


class Metrics(Protocol):
    """A sink of self-metrics. Labels: the stage, the partition of its input, and a topic for metrics by topic."""

    def count(self, name: Counter, stage: str, partition: int, *, topic: str = "", by: float = 1) -> None:
        """Add to a counter."""
        ...

    def set(self, name: Gauge, stage: str, partition: int, value: float) -> None:
        """Set a gauge."""
        ...


class NullMetrics:
    """A sink that discards all metrics."""

    def count(self, name: Counter, stage: str, partition: int, *, topic: str = "", by: float = 1) -> None:
        """Discard a count."""

    def set(self, name: Gauge, stage: str, partition: int, value: float) -> None:
        """Discard a value."""

"""Declares the tables that have one row per message: each column, its type, and how its value is extracted."""

from typing import Any

import orjson

from streams.store.rows.column_specs import (
    NULLABLE_TIMESTAMP,
    STRING_ARRAY,
    attribute_column,
    blast_radius_column,
    component_column,
    component_limits,
    coverage_column,
    enum_column,
    finding_columns,
    json_column,
    neighbor_column,
    nullable_time_column,
    subject_columns,
    time_column,
)
from streams.store.rows.native_format import LOW_CARDINALITY, TIMESTAMP_NS
from streams.store.rows.row_builder import ColumnSpec, TableSchema
from streams.wire.errors import Reject
from streams.wire.models import IDLE_NS, Finding, Progress, Subject


def _watermark(message: Progress) -> int | None:
    return None if message.watermark_ns == IDLE_NS else message.watermark_ns


EVENTS = TableSchema(
    "events",
    (
        attribute_column("device", LOW_CARDINALITY),
        attribute_column("port", LOW_CARDINALITY),
        enum_column("kind"),
        time_column("at"),
        time_column("received_at"),
        enum_column("source"),
        attribute_column("collector", LOW_CARDINALITY),
        attribute_column("collector_run", "UInt64"),
        attribute_column("sequence", "UInt64"),
        attribute_column("code", "Int64"),
        attribute_column("detail", "String"),
    ),
)

FACTS = TableSchema(
    "facts",
    (
        attribute_column("device", LOW_CARDINALITY),
        enum_column("source"),
        time_column("observed_at"),
        attribute_column("vendor", LOW_CARDINALITY),
        attribute_column("model", LOW_CARDINALITY),
        attribute_column("os_version", LOW_CARDINALITY),
        nullable_time_column("booted_at"),
        attribute_column("serial", "String"),
        component_column("name", "String", lambda c: c.name),
        component_column("kind", "String", lambda c: c.kind),
        component_column("part_number", "String", lambda c: c.part_number),
        component_column("serial", "String", lambda c: c.serial),
        component_column("firmware", "String", lambda c: c.firmware),
        component_column("alias", STRING_ARRAY, lambda c: c.alias),
        component_column("limits", "String", component_limits),
        neighbor_column("port"),
        neighbor_column("remote_device"),
        neighbor_column("remote_port"),
    ),
)

COLLECTOR_STATUS = TableSchema(
    "collector_status",
    (
        attribute_column("device", LOW_CARDINALITY),
        enum_column("source"),
        attribute_column("collector", LOW_CARDINALITY),
        attribute_column("collector_run", "UInt64"),
        time_column("at"),
        attribute_column("reachable", "Bool"),
        attribute_column("error", "String"),
        nullable_time_column("last_sample_at"),
        attribute_column("clock_offset_ns", "Int64"),
        attribute_column("cadence_ns", "Int64"),
    ),
)

FINDINGS = TableSchema(
    "findings",
    (
        *finding_columns(lambda m: m),
        enum_column("cause"),
        attribute_column("confidence", "Nullable(Float64)"),
        attribute_column("parent_id", "String"),
        attribute_column("occurrences", "Nullable(UInt32)"),
        ColumnSpec("shadow", "Bool", lambda m: bool(m.shadow)),
        blast_radius_column("hosts", STRING_ARRAY, "hosts", ()),
        blast_radius_column("jobs", STRING_ARRAY, "jobs", ()),
        blast_radius_column("gpus", "Nullable(UInt32)", "gpus", None),
        blast_radius_column("capacity_lost_ratio", "Nullable(Float64)", "capacity_lost_ratio", None),
        coverage_column("coverage_seen", "Nullable(UInt32)", "seen", None),
        coverage_column("coverage_expected", "Nullable(UInt32)", "expected", None),
        coverage_column("coverage_missing", STRING_ARRAY, "missing", ()),
        ColumnSpec("evidence", STRING_ARRAY, lambda m: [evidence.statement for evidence in m.evidence]),
        attribute_column("detector_version", LOW_CARDINALITY),
        attribute_column("settings_digest", "String"),
        attribute_column("inventory_digest", "String"),
        attribute_column("runbook_url", "String"),
        attribute_column("dashboard_url", "String"),
        json_column(),
    ),
)


def _target(message: Any) -> Subject:
    if message.target is None:
        raise Reject(f"remediation {message.id} has no target")
    target: Subject = message.target
    return target


def _prior_values(message: Any) -> str:
    """Return the values before the action as a JSON object; empty if the automation reported none."""
    return orjson.dumps(dict(message.prior_values)).decode() if message.prior_values else ""


REMEDIATIONS = TableSchema(
    "remediations",
    (
        attribute_column("id", "String"),
        attribute_column("revision", "UInt64"),
        attribute_column("finding_ids", STRING_ARRAY),
        enum_column("action"),
        enum_column("verdict"),
        *subject_columns(_target),
        attribute_column("reason", "String"),
        ColumnSpec("constraint_name", LOW_CARDINALITY, lambda m: m.constraint),
        attribute_column("constraint_limit", "Nullable(Float64)"),
        attribute_column("constraint_observed", "Nullable(Float64)"),
        nullable_time_column("decided_at"),
        nullable_time_column("expires_at"),
        attribute_column("surviving_capacity_ratio", "Nullable(Float64)"),
        attribute_column("repair_hint", "String"),
        attribute_column("approved_by", "String"),
        attribute_column("runbook_url", "String"),
        enum_column("state"),
        attribute_column("attempt", "UInt32"),
        attribute_column("actor", "String"),
        attribute_column("guard", "UInt32"),
        attribute_column("penalty", "Nullable(Float64)"),
        enum_column("cause"),
        enum_column("repair_step"),
        attribute_column("part_number", LOW_CARDINALITY),
        enum_column("repair_outcome"),
        json_column(),
    ),
)

REMEDIATION_RESULTS = TableSchema(
    "remediation_results",
    (
        attribute_column("remediation_id", "String"),
        enum_column("outcome"),
        nullable_time_column("at"),
        attribute_column("actor", "String"),
        attribute_column("detail", "String"),
        ColumnSpec("prior_values", "String", _prior_values),
    ),
)

CONTROLS = TableSchema(
    "controls",
    (
        attribute_column("id", "String"),
        enum_column("kind"),
        attribute_column("subject_id", "String"),
        nullable_time_column("at"),
        nullable_time_column("until"),
        attribute_column("actor", "String"),
        attribute_column("reason", "String"),
        attribute_column("endless", "Bool"),
    ),
)

LEMONS = TableSchema(
    "lemons",
    (
        enum_column("kind"),
        attribute_column("subject_id", "String"),
        attribute_column("part_kind", LOW_CARDINALITY),
        nullable_time_column("since"),
        nullable_time_column("until"),
        *(
            attribute_column(name, "UInt32")
            for name in (
                "findings", "failed_repairs", "relapses", "events", "exposure", "fleet_events", "fleet_exposure"
            )
        ),
        *(attribute_column(name, "Nullable(Float64)") for name in ("ratio", "ratio_low", "ratio_high")),
    ),
)  # fmt: skip

REJECTED = TableSchema(
    "rejected",
    (
        attribute_column("topic", LOW_CARDINALITY),
        attribute_column("partition", "UInt32"),
        attribute_column("offset", "Int64"),
        attribute_column("stage", LOW_CARDINALITY),
        attribute_column("reason", "String"),
        time_column("at"),
        attribute_column("value", "String"),
    ),
)

PROGRESS = TableSchema(
    "progress",
    (
        attribute_column("stage", LOW_CARDINALITY),
        attribute_column("partition", "UInt32"),
        attribute_column("epoch", "UInt64"),
        ColumnSpec("watermark", NULLABLE_TIMESTAMP, _watermark),
        attribute_column("after_offset", "Int64"),
        attribute_column("records", "UInt64"),
        attribute_column("lag", "Int64"),
    ),
)


def _episode_finding(message: Any) -> Finding:
    if message.finding is None:
        raise Reject("the episode has no finding")
    finding: Finding = message.finding
    return finding


EPISODES = TableSchema(
    "episodes",
    (
        *finding_columns(_episode_finding),
        ColumnSpec("down_at", f"Array({TIMESTAMP_NS})", lambda m: m.down_at_ns),
        json_column(_episode_finding),
    ),
)

JOBS = TableSchema(
    "jobs",
    (
        attribute_column("job", "String"),
        attribute_column("device", "String"),
        time_column("start"),
        nullable_time_column("end"),
        *(attribute_column(name, "String") for name in ("name", "user")),
        *(attribute_column(name, LOW_CARDINALITY) for name in ("team", "tenant")),
        attribute_column("gpus", "Nullable(UInt32)"),
        attribute_column("run", "UInt32"),
        *(attribute_column(name, LOW_CARDINALITY) for name in ("state", "scheduler")),
        attribute_column("scheduler_ids", STRING_ARRAY),
        attribute_column("array_job", "String"),
        nullable_time_column("stale_since"),
    ),
)

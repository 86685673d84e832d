"""Declares the tables that have one row per message: each column, its type, and how its value is extracted."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import orjson

from streams.store.enum_labels import enum_label
from streams.store.rows.native_format import LOW_CARDINALITY, TIMESTAMP_NS
from streams.store.rows.row_builder import ColumnSpec, TableSchema
from streams.wire import codec
from streams.wire.errors import Reject
from streams.wire.models import IDLE_NS, Component, Endpoint, Facts, Finding, Progress, Subject

NULLABLE_TIMESTAMP = f"Nullable({TIMESTAMP_NS})"
STRING_ARRAY = "Array(String)"

_INT64 = 2**63
_NO_ENDPOINT = Endpoint("")


def checked_ns(value: int) -> int:
    """Return a time that fits the column; raises Reject on one that does not (JSON times go to the year 9999)."""
    if not -_INT64 <= value < _INT64:
        raise Reject(f"time {value} ns is out of the range of DateTime64(9)")
    return value


def attribute_column(name: str, type_: str) -> ColumnSpec:
    """Return a column that has the message's attribute of the same name."""
    return ColumnSpec(name, type_, attrgetter(name))


def time_column(name: str, part: Callable[[Any], Any] | None = None) -> ColumnSpec:
    """Return a column of the message's time `<name>_ns`, or of that of a part of the message."""
    time_of = _time_getter(name, part)
    return ColumnSpec(name, TIMESTAMP_NS, lambda message: checked_ns(time_of(message)))


def nullable_time_column(name: str, part: Callable[[Any], Any] | None = None) -> ColumnSpec:
    """Return a column of a time that may be absent; 0 is absent too, as in messages without field presence."""
    time_of = _time_getter(name, part)

    def extract(message: Any) -> int | None:
        value = time_of(message)
        return checked_ns(value) if value else None

    return ColumnSpec(name, NULLABLE_TIMESTAMP, extract)


def _time_getter(name: str, part: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    attribute = f"{name}_ns"
    return attrgetter(attribute) if part is None else lambda message: getattr(part(message), attribute)


def enum_column(name: str) -> ColumnSpec:
    """Return a column of the labels of an enum attribute."""
    member_of, labels = attrgetter(name), dict[int, str]()

    def extract(message: Any) -> str:
        member = member_of(message)
        # By number: an enum's own hash is a Python function.
        if (label := labels.get(number := int(member))) is None:
            label = labels[number] = enum_label(member)
        return label

    return ColumnSpec(name, LOW_CARDINALITY, extract)


def json_column(part: Callable[[Any], Any] = lambda m: m) -> ColumnSpec:
    """Return a column of the canonical JSON of a message, or of a part of it."""
    return ColumnSpec("json", "String", lambda message: codec.to_json(part(message)))


def subject_columns(subject_of: Callable[[Any], Subject]) -> tuple[ColumnSpec, ...]:
    """Return the columns of a subject."""
    of = subject_of
    return (
        ColumnSpec("subject_id", "String", lambda m: of(m).id),
        ColumnSpec("a_device", LOW_CARDINALITY, lambda m: (of(m).a or _NO_ENDPOINT).device),
        ColumnSpec("a_port", LOW_CARDINALITY, lambda m: (of(m).a or _NO_ENDPOINT).port),
        ColumnSpec("z_device", LOW_CARDINALITY, lambda m: (of(m).z or _NO_ENDPOINT).device),
        ColumnSpec("z_port", LOW_CARDINALITY, lambda m: (of(m).z or _NO_ENDPOINT).port),
        ColumnSpec("role", LOW_CARDINALITY, lambda m: of(m).role),
        ColumnSpec("rail", "Nullable(Int32)", lambda m: of(m).rail),
        ColumnSpec("plane", "Nullable(Int32)", lambda m: of(m).plane),
        ColumnSpec("pod", LOW_CARDINALITY, lambda m: of(m).pod),
        ColumnSpec("site", LOW_CARDINALITY, lambda m: of(m).site),
        ColumnSpec("team", LOW_CARDINALITY, lambda m: of(m).team),
        ColumnSpec("former_ids", STRING_ARRAY, lambda m: of(m).former_ids),
    )


def _with_subject(finding: Finding) -> Finding:
    """Return the finding; raises Reject where it has no subject, because the subject is its key."""
    if finding.subject is None:
        raise Reject(f"finding {finding.id} has no subject")
    return finding


def finding_columns(finding_of: Callable[[Any], Finding]) -> tuple[ColumnSpec, ...]:
    """Return the columns that findings and episodes share."""
    of = finding_of
    return (
        ColumnSpec("id", "String", lambda m: _with_subject(of(m)).id),
        ColumnSpec("revision", "UInt64", lambda m: of(m).revision),
        ColumnSpec("final", "Bool", lambda m: of(m).final),
        ColumnSpec("condition", LOW_CARDINALITY, lambda m: enum_label(of(m).condition)),
        ColumnSpec("detector", LOW_CARDINALITY, lambda m: of(m).detector or of(m).condition.slug),
        ColumnSpec("status", LOW_CARDINALITY, lambda m: enum_label(of(m).status)),
        ColumnSpec("severity", LOW_CARDINALITY, lambda m: enum_label(of(m).severity)),
        *subject_columns(lambda m: of(m).subject),
        time_column("started_at", of),
        time_column("observed_at", of),
        nullable_time_column("resolved_at", of),
        nullable_time_column("detected_at", of),
        ColumnSpec("summary", "String", lambda m: of(m).summary),
    )


def blast_radius_column(name: str, type_: str, attribute: str, default: Any) -> ColumnSpec:
    """Return a column of the blast radius's attribute, with a default where the finding has none."""
    return ColumnSpec(name, type_, lambda m: getattr(m.blast_radius, attribute) if m.blast_radius else default)


def coverage_column(name: str, type_: str, attribute: str, default: Any) -> ColumnSpec:
    """Return a column of the coverage's attribute, with a default where the finding has none."""
    return ColumnSpec(name, type_, lambda m: getattr(m.coverage, attribute) if m.coverage else default)


def component_column(name: str, type_: str, value_of: Callable[[Component], Any]) -> ColumnSpec:
    """Return a nested column with a value for each component of facts."""

    def extract(message: Facts) -> list[Any]:
        return [value_of(component) for component in message.components]

    return ColumnSpec(f"components.{name}", f"Array({type_})", extract)


def component_limits(component: Component) -> bytes:
    """Return a component's limits as JSON with sorted keys."""
    return orjson.dumps(component.limit, option=orjson.OPT_SORT_KEYS)


def neighbor_column(name: str) -> ColumnSpec:
    """Return a nested column with a value for each LLDP neighbor of facts."""

    def extract(message: Facts) -> list[str]:
        return [getattr(neighbor, name) for neighbor in message.neighbors]

    return ColumnSpec(f"neighbors.{name}", STRING_ARRAY, extract)


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

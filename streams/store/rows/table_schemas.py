"""The tables that have one row a message: each column, its type, and where in the message its value is."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import orjson

from streams.store.enum_labels import enum_label
from streams.store.rows.row_builder import ColumnSpec, TableSchema
from streams.wire import codec
from streams.wire.errors import Reject
from streams.wire.models import IDLE_NS, Component, Endpoint, Facts, Finding, Progress, Subject

LOW_CARDINALITY = "LowCardinality(String)"
TIMESTAMP = "DateTime64(9, 'UTC')"
NULLABLE_TIMESTAMP = f"Nullable({TIMESTAMP})"
STRING_ARRAY = "Array(String)"

_INT64 = 2**63
_NO_END = Endpoint("")


def checked_ns(value: int) -> int:
    """A time that the column can hold; raises Reject on one that it cannot (JSON times go to the year 9999)."""
    if not -_INT64 <= value < _INT64:
        raise Reject(f"a time out of range: {value} ns")
    return value


def _attribute(name: str, of: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    return attrgetter(name) if of is None else lambda message: getattr(of(message), name)


def _same(name: str, type_: str) -> ColumnSpec:
    return ColumnSpec(name, type_, attrgetter(name))


def _time(name: str, of: Callable[[Any], Any] | None = None) -> ColumnSpec:
    value_of = _attribute(f"{name}_ns", of)
    return ColumnSpec(name, TIMESTAMP, lambda message: checked_ns(value_of(message)))


def _maybe_time(name: str, of: Callable[[Any], Any] | None = None) -> ColumnSpec:
    """A time that may be absent; 0 is absent too, for that is how the messages without presence say it."""
    value_of = _attribute(f"{name}_ns", of)

    def get(message: Any) -> int | None:
        value = value_of(message)
        return checked_ns(value) if value else None

    return ColumnSpec(name, NULLABLE_TIMESTAMP, get)


def _enum(name: str) -> ColumnSpec:
    member_of, known = attrgetter(name), dict[int, str]()

    def get(message: Any) -> str:
        member = member_of(message)
        # By number: an enum's own hash is a Python function.
        if (word := known.get(number := int(member))) is None:
            word = known[number] = enum_label(member)
        return word

    return ColumnSpec(name, LOW_CARDINALITY, get)


def _json(of: Callable[[Any], Any] = lambda m: m) -> ColumnSpec:
    return ColumnSpec("json", "String", lambda message: codec.to_json(of(message)))


def _subject(of: Callable[[Any], Subject]) -> tuple[ColumnSpec, ...]:
    return (
        ColumnSpec("subject_id", "String", lambda m: of(m).id),
        ColumnSpec("a_device", LOW_CARDINALITY, lambda m: (of(m).a or _NO_END).device),
        ColumnSpec("a_port", LOW_CARDINALITY, lambda m: (of(m).a or _NO_END).port),
        ColumnSpec("z_device", LOW_CARDINALITY, lambda m: (of(m).z or _NO_END).device),
        ColumnSpec("z_port", LOW_CARDINALITY, lambda m: (of(m).z or _NO_END).port),
        ColumnSpec("role", LOW_CARDINALITY, lambda m: of(m).role),
        ColumnSpec("rail", "Nullable(Int32)", lambda m: of(m).rail),
        ColumnSpec("plane", "Nullable(Int32)", lambda m: of(m).plane),
        ColumnSpec("pod", LOW_CARDINALITY, lambda m: of(m).pod),
        ColumnSpec("site", LOW_CARDINALITY, lambda m: of(m).site),
        ColumnSpec("team", LOW_CARDINALITY, lambda m: of(m).team),
        ColumnSpec("former_ids", STRING_ARRAY, lambda m: of(m).former_ids),
    )


def _said(finding: Finding) -> Finding:
    """A finding that says what it is about; one that does not raises Reject, for its subject is its key."""
    if finding.subject is None:
        raise Reject(f"finding {finding.id} has no subject")
    return finding


def _conclusion(of: Callable[[Any], Finding]) -> tuple[ColumnSpec, ...]:
    """The columns that findings and episodes share."""
    return (
        ColumnSpec("id", "String", lambda m: _said(of(m)).id),
        ColumnSpec("revision", "UInt64", lambda m: of(m).revision),
        ColumnSpec("final", "Bool", lambda m: of(m).final),
        ColumnSpec("condition", LOW_CARDINALITY, lambda m: enum_label(of(m).condition)),
        ColumnSpec("detector", LOW_CARDINALITY, lambda m: of(m).detector or of(m).condition.slug),
        ColumnSpec("status", LOW_CARDINALITY, lambda m: enum_label(of(m).status)),
        ColumnSpec("severity", LOW_CARDINALITY, lambda m: enum_label(of(m).severity)),
        *_subject(lambda m: of(m).subject),
        _time("started_at", of=of),
        _time("observed_at", of=of),
        _maybe_time("resolved_at", of=of),
        _maybe_time("detected_at", of=of),
        ColumnSpec("summary", "String", lambda m: of(m).summary),
    )


def _blast(attribute: str, blank: Any) -> Callable[[Finding], Any]:
    return lambda m: getattr(m.blast_radius, attribute) if m.blast_radius else blank


def _coverage(attribute: str, blank: Any) -> Callable[[Finding], Any]:
    return lambda m: getattr(m.coverage, attribute) if m.coverage else blank


def _components(name: str, type_: str, get: Callable[[Component], Any]) -> ColumnSpec:
    def of(message: Facts) -> list[Any]:
        return [get(component) for component in message.components]

    return ColumnSpec(f"components.{name}", f"Array({type_})", of)


def _neighbors(name: str, attribute: str) -> ColumnSpec:
    def of(message: Facts) -> list[str]:
        return [getattr(neighbor, attribute) for neighbor in message.neighbors]

    return ColumnSpec(f"neighbors.{name}", STRING_ARRAY, of)


def _watermark(message: Progress) -> int | None:
    return None if message.watermark_ns == IDLE_NS else message.watermark_ns


EVENTS = TableSchema(
    "events",
    (
        _same("device", LOW_CARDINALITY),
        _same("port", LOW_CARDINALITY),
        _enum("kind"),
        _time("at"),
        _time("received_at"),
        _enum("source"),
        _same("collector", LOW_CARDINALITY),
        _same("collector_run", "UInt64"),
        _same("sequence", "UInt64"),
        _same("code", "Int64"),
        _same("detail", "String"),
    ),
)

FACTS = TableSchema(
    "facts",
    (
        _same("device", LOW_CARDINALITY),
        _enum("source"),
        _time("observed_at"),
        _same("vendor", LOW_CARDINALITY),
        _same("model", LOW_CARDINALITY),
        _same("os_version", LOW_CARDINALITY),
        _maybe_time("booted_at"),
        _same("serial", "String"),
        _components("name", "String", lambda c: c.name),
        _components("kind", "String", lambda c: c.kind),
        _components("part_number", "String", lambda c: c.part_number),
        _components("serial", "String", lambda c: c.serial),
        _components("firmware", "String", lambda c: c.firmware),
        _components("alias", STRING_ARRAY, lambda c: c.alias),
        _components("limits", "String", lambda c: orjson.dumps(c.limit, option=orjson.OPT_SORT_KEYS)),
        _neighbors("port", "port"),
        _neighbors("remote_device", "remote_device"),
        _neighbors("remote_port", "remote_port"),
    ),
)

COLLECTOR_STATUS = TableSchema(
    "collector_status",
    (
        _same("device", LOW_CARDINALITY),
        _enum("source"),
        _same("collector", LOW_CARDINALITY),
        _same("collector_run", "UInt64"),
        _time("at"),
        _same("reachable", "Bool"),
        _same("error", "String"),
        _maybe_time("last_sample_at"),
        _same("clock_offset_ns", "Int64"),
        _same("cadence_ns", "Int64"),
    ),
)

FINDINGS = TableSchema(
    "findings",
    (
        *_conclusion(lambda m: m),
        _enum("cause"),
        _same("confidence", "Nullable(Float64)"),
        _same("parent_id", "String"),
        _same("occurrences", "Nullable(UInt32)"),
        ColumnSpec("shadow", "Bool", lambda m: bool(m.shadow)),
        ColumnSpec("hosts", STRING_ARRAY, _blast("hosts", ())),
        ColumnSpec("jobs", STRING_ARRAY, _blast("jobs", ())),
        ColumnSpec("gpus", "Nullable(UInt32)", _blast("gpus", None)),
        ColumnSpec("capacity_lost_ratio", "Nullable(Float64)", _blast("capacity_lost_ratio", None)),
        ColumnSpec("coverage_seen", "Nullable(UInt32)", _coverage("seen", None)),
        ColumnSpec("coverage_expected", "Nullable(UInt32)", _coverage("expected", None)),
        ColumnSpec("coverage_missing", STRING_ARRAY, _coverage("missing", ())),
        ColumnSpec("evidence", STRING_ARRAY, lambda m: [evidence.statement for evidence in m.evidence]),
        _same("detector_version", LOW_CARDINALITY),
        _same("settings_digest", "String"),
        _same("inventory_digest", "String"),
        _same("runbook_url", "String"),
        _same("dashboard_url", "String"),
        _json(),
    ),
)


def _target(message: Any) -> Subject:
    if message.target is None:
        raise Reject(f"remediation {message.id} has no target")
    target: Subject = message.target
    return target


REMEDIATIONS = TableSchema(
    "remediations",
    (
        _same("id", "String"),
        _same("revision", "UInt64"),
        _same("finding_ids", STRING_ARRAY),
        _enum("action"),
        _enum("verdict"),
        *_subject(_target),
        _same("reason", "String"),
        ColumnSpec("constraint_name", LOW_CARDINALITY, lambda m: m.constraint),
        _same("constraint_limit", "Nullable(Float64)"),
        _same("constraint_observed", "Nullable(Float64)"),
        _maybe_time("decided_at"),
        _maybe_time("expires_at"),
        _same("surviving_capacity_ratio", "Nullable(Float64)"),
        _same("repair_hint", "String"),
        _same("approved_by", "String"),
        _same("runbook_url", "String"),
        _json(),
    ),
)

REMEDIATION_RESULTS = TableSchema(
    "remediation_results",
    (
        _same("remediation_id", "String"),
        _enum("outcome"),
        _maybe_time("at"),
        _same("actor", "String"),
        _same("detail", "String"),
    ),
)

CONTROLS = TableSchema(
    "controls",
    (
        _same("id", "String"),
        _enum("kind"),
        _same("subject_id", "String"),
        _maybe_time("at"),
        _maybe_time("until"),
        _same("actor", "String"),
        _same("reason", "String"),
    ),
)

REJECTED = TableSchema(
    "rejected",
    (
        _same("topic", LOW_CARDINALITY),
        _same("partition", "UInt32"),
        _same("offset", "Int64"),
        _same("stage", LOW_CARDINALITY),
        _same("reason", "String"),
        _time("at"),
        _same("value", "String"),
    ),
)

PROGRESS = TableSchema(
    "progress",
    (
        _same("stage", LOW_CARDINALITY),
        _same("partition", "UInt32"),
        _same("epoch", "UInt64"),
        ColumnSpec("watermark", NULLABLE_TIMESTAMP, _watermark),
        _same("after_offset", "Int64"),
        _same("records", "UInt64"),
        _same("lag", "Int64"),
    ),
)

SYMPTOMS = TableSchema(
    "symptoms",
    (
        _same("device", LOW_CARDINALITY),
        _same("port", LOW_CARDINALITY),
        _enum("kind"),
        _time("at"),
        _maybe_time("since"),
        _enum("source"),
        _same("by_event", "Bool"),
        _same("count", "UInt64"),
        _same("boot_id", "UInt64"),
        _same("collector", LOW_CARDINALITY),
        _same("collector_silent", "Bool"),
        _same("detail", "String"),
        _same("cadence_ns", "Int64"),
    ),
)


def _episode(message: Any) -> Finding:
    if message.finding is None:
        raise Reject("an episode without a finding")
    finding: Finding = message.finding
    return finding


EPISODES = TableSchema(
    "episodes",
    (
        *_conclusion(_episode),
        ColumnSpec("down_at", f"Array({TIMESTAMP})", lambda m: m.down_at_ns),
        _json(_episode),
    ),
)

JOBS = TableSchema("jobs", (_same("job", "String"), _same("device", "String"), _time("start"), _maybe_time("end")))

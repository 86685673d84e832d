"""Declares the tables with one row per message: each column, its type, and the function that extracts its value."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import orjson

from streams.store.enum_labels import enum_label
from streams.store.rows.native_format import LOW_CARDINALITY, TIMESTAMP_NS
from streams.store.rows.row_builder import ColumnSpec, TableSchema
from streams.wire import codec
from streams.wire.errors import Reject
from streams.wire.models import IDLE_NS, BlastRadius, Component, Coverage, Endpoint, Finding, Progress, Subject

NULLABLE_TIMESTAMP = f"Nullable({TIMESTAMP_NS})"
STRING_ARRAY = "Array(String)"

_INT64 = 2**63
_Part = Callable[[Any], Any]
"""Returns a part of a message, or the message itself."""
_Columns = tuple[ColumnSpec, ...]


def columns(type_: str, *names: str) -> _Columns:
    """Return columns of one type with the message's attributes of the same names."""
    return tuple(ColumnSpec(name, type_, attrgetter(name)) for name in names)


def times(*names: str, of: _Part = lambda message: message) -> _Columns:
    """Return columns of the times `<name>_ns`."""
    return tuple(ColumnSpec(name, TIMESTAMP_NS, _time(name, of)) for name in names)


def optional_times(*names: str, of: _Part = lambda message: message) -> _Columns:
    """Return columns of optional times; 0 counts as absent, because some messages have no field presence."""
    return tuple(ColumnSpec(name, NULLABLE_TIMESTAMP, _time(name, of, optional=True)) for name in names)


def _time(name: str, of: _Part, *, optional: bool = False) -> Callable[[Any], int | None]:
    get = attrgetter(f"{name}_ns")

    def extract(message: Any) -> int | None:
        value: int | None = get(of(message))
        if optional and not value:
            return None
        # Times in JSON can be as late as the year 9999.
        if value is None or not -_INT64 <= value < _INT64:
            raise Reject(f"time {value} ns is out of the range of DateTime64(9)")
        return value

    return extract


def _enums(*names: str) -> _Columns:
    """Return columns of the labels of enums."""
    return tuple(ColumnSpec(name, LOW_CARDINALITY, _label(name)) for name in names)


def _label(name: str) -> Callable[[Any], str]:
    member_of, labels = attrgetter(name), dict[int, str]()

    def extract(message: Any) -> str:
        member = member_of(message)
        # Looks up by number, because an enum's hash is a Python function.
        if (label := labels.get(number := int(member))) is None:
            label = labels[number] = enum_label(member)
        return label

    return extract


def _json(of: _Part = lambda message: message) -> ColumnSpec:
    """Return the column with the canonical JSON of a message or a part of it."""
    return ColumnSpec("json", "String", lambda message: codec.to_json(of(message)))


def _columns_of(of: _Part, types: Mapping[str, str], prefix: str = "") -> _Columns:
    """Return columns for a part of a message; `types` has the type of each attribute."""

    def column(name: str, type_: str) -> ColumnSpec:
        get = attrgetter(name)
        return ColumnSpec(f"{prefix}{name}", type_, lambda message: get(of(message)))

    return tuple(column(name, type_) for name, type_ in types.items())


def _nested_columns(table: str, types: Mapping[str, str]) -> _Columns:
    """Return nested columns with a value for each item of a list of the message."""
    items_of = attrgetter(table)

    def column(name: str, type_: str) -> ColumnSpec:
        get = attrgetter(name)
        return ColumnSpec(f"{table}.{name}", f"Array({type_})", lambda message: [get(one) for one in items_of(message)])

    return tuple(column(name, type_) for name, type_ in types.items())


_NO_ENDPOINT = Endpoint("")


def _subject_columns(of: Callable[[Any], Subject]) -> _Columns:
    ends = {
        "a": lambda message: of(message).a or _NO_ENDPOINT,
        "z": lambda message: of(message).z or _NO_ENDPOINT,
    }
    end_types = {"device": LOW_CARDINALITY, "port": LOW_CARDINALITY}
    types = dict.fromkeys(("role", "pod", "site", "team"), LOW_CARDINALITY)
    return (
        ColumnSpec("subject_id", "String", lambda message: of(message).id),
        *(column for end, part in ends.items() for column in _columns_of(part, end_types, f"{end}_")),
        *_columns_of(of, {**types, "rail": "Nullable(Int32)", "plane": "Nullable(Int32)", "former_ids": STRING_ARRAY}),
    )


def _finding_columns(of: Callable[[Any], Finding]) -> _Columns:
    """Return the columns that findings and episodes share."""

    def with_subject(message: Any) -> Finding:
        finding = of(message)
        if finding.subject is None:  # the key of the row
            raise Reject(f"finding {finding.id} has no subject")
        return finding

    def enum(name: str) -> ColumnSpec:
        get = attrgetter(name)
        return ColumnSpec(name, LOW_CARDINALITY, lambda message: enum_label(get(of(message))))

    return (
        ColumnSpec("id", "String", lambda message: with_subject(message).id),
        *_columns_of(of, {"revision": "UInt64", "final": "Bool", "summary": "String"}),
        *map(enum, ("condition", "status", "severity")),
        ColumnSpec("detector", LOW_CARDINALITY, lambda message: of(message).detector or of(message).condition.slug),
        *_subject_columns(lambda message: of(message).subject),
        *times("started_at", "observed_at", of=of),
        *optional_times("resolved_at", "detected_at", of=of),
    )


def _limits(message: Any) -> list[bytes]:
    """Return the limits of each component as JSON with sorted keys."""
    components: tuple[Component, ...] = message.components
    return [orjson.dumps(component.limit, option=orjson.OPT_SORT_KEYS) for component in components]


EVENTS = TableSchema(
    "events",
    (
        *columns(LOW_CARDINALITY, "device", "port", "collector"),
        *_enums("kind", "source"),
        *times("at", "received_at"),
        *columns("UInt64", "collector_run", "sequence"),
        *columns("Int64", "code"),
        *columns("String", "detail"),
    ),
)

FACTS = TableSchema(
    "facts",
    (
        *columns(LOW_CARDINALITY, "device", "vendor", "model", "os_version"),
        *_enums("source"),
        *times("observed_at"),
        *optional_times("booted_at"),
        *columns("String", "serial"),
        *_nested_columns("components", dict.fromkeys(("name", "kind", "part_number", "serial", "firmware"), "String")),
        *_nested_columns("components", {"alias": STRING_ARRAY}),
        ColumnSpec("components.limits", STRING_ARRAY, _limits),
        *_nested_columns("neighbors", dict.fromkeys(("port", "remote_device", "remote_port"), "String")),
    ),
)

COLLECTOR_STATUS = TableSchema(
    "collector_status",
    (
        *columns(LOW_CARDINALITY, "device", "collector"),
        *_enums("source"),
        *columns("UInt64", "collector_run"),
        *times("at"),
        *columns("Bool", "reachable"),
        *columns("String", "error"),
        *optional_times("last_sample_at"),
        *columns("Int64", "clock_offset_ns", "cadence_ns"),
    ),
)

FINDINGS = TableSchema(
    "findings",
    (
        *_finding_columns(lambda message: message),
        *_enums("cause"),
        *columns("Nullable(Float64)", "confidence"),
        *columns("String", "parent_id", "settings_digest", "inventory_digest", "runbook_url", "dashboard_url"),
        *columns("Nullable(UInt32)", "occurrences"),
        ColumnSpec("shadow", "Bool", lambda message: bool(message.shadow)),
        *_columns_of(
            lambda message: message.blast_radius or BlastRadius(),
            {
                "hosts": STRING_ARRAY,
                "jobs": STRING_ARRAY,
                "gpus": "Nullable(UInt32)",
                "capacity_lost_ratio": "Nullable(Float64)",
            },
        ),
        *_columns_of(
            lambda message: message.coverage or Coverage(),
            {"seen": "Nullable(UInt32)", "expected": "Nullable(UInt32)", "missing": STRING_ARRAY},
            prefix="coverage_",
        ),
        ColumnSpec("evidence", STRING_ARRAY, lambda message: [one.statement for one in message.evidence]),
        *columns(LOW_CARDINALITY, "detector_version"),
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
        *columns("String", "id", "reason", "repair_hint", "approved_by", "runbook_url", "actor"),
        *columns("UInt64", "revision"),
        *columns(STRING_ARRAY, "finding_ids"),
        *_enums("action", "verdict", "state", "cause", "repair_step", "repair_outcome"),
        *_subject_columns(_target),
        ColumnSpec("constraint_name", LOW_CARDINALITY, lambda message: message.constraint),
        *columns("Nullable(Float64)", "constraint_limit", "constraint_observed", "surviving_capacity_ratio", "penalty"),
        *optional_times("decided_at", "expires_at"),
        *columns("UInt32", "attempt", "guard"),
        *columns(LOW_CARDINALITY, "part_number"),
        _json(),
    ),
)


def _prior_values(message: Any) -> str:
    """Return the values before the action as a JSON object; empty if the automation reported none."""
    return orjson.dumps(dict(message.prior_values)).decode() if message.prior_values else ""


REMEDIATION_RESULTS = TableSchema(
    "remediation_results",
    (
        *columns("String", "remediation_id", "actor", "detail"),
        *_enums("outcome"),
        *optional_times("at"),
        ColumnSpec("prior_values", "String", _prior_values),
    ),
)

CONTROLS = TableSchema(
    "controls",
    (
        *columns("String", "id", "subject_id", "actor", "reason"),
        *_enums("kind"),
        *optional_times("at", "until"),
        *columns("Bool", "endless"),
    ),
)

LEMONS = TableSchema(
    "lemons",
    (
        *_enums("kind"),
        *columns("String", "subject_id"),
        *columns(LOW_CARDINALITY, "part_kind"),
        *optional_times("since", "until"),
        *columns("UInt32", "findings", "failed_repairs", "relapses", "events", "exposure"),
        *columns("UInt32", "fleet_events", "fleet_exposure"),
        *columns("Nullable(Float64)", "ratio", "ratio_low", "ratio_high"),
    ),
)

REJECTED = TableSchema(
    "rejected",
    (
        *columns(LOW_CARDINALITY, "topic", "stage"),
        *columns("UInt32", "partition"),
        *columns("Int64", "offset"),
        *columns("String", "reason", "value"),
        *times("at"),
    ),
)


def _watermark(message: Progress) -> int | None:
    return None if message.watermark_ns == IDLE_NS else message.watermark_ns


PROGRESS = TableSchema(
    "progress",
    (
        *columns(LOW_CARDINALITY, "stage"),
        *columns("UInt32", "partition"),
        *columns("UInt64", "epoch", "records"),
        ColumnSpec("watermark", NULLABLE_TIMESTAMP, _watermark),
        *columns("Int64", "after_offset", "lag"),
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
        *_finding_columns(_episode_finding),
        ColumnSpec("down_at", f"Array({TIMESTAMP_NS})", lambda message: message.down_at_ns),
        _json(_episode_finding),
    ),
)

JOBS = TableSchema(
    "jobs",
    (
        *columns("String", "job", "device", "name", "user", "array_job"),
        *times("start"),
        *optional_times("end", "stale_since"),
        *columns(LOW_CARDINALITY, "team", "tenant", "state", "scheduler"),
        *columns("Nullable(UInt32)", "gpus"),
        *columns("UInt32", "run"),
        *columns(STRING_ARRAY, "scheduler_ids"),
    ),
)

"""Constructs column specifications: each column's name, its type, and how its value is read from a message."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import orjson

from streams.store.enum_labels import enum_label
from streams.store.rows.native_format import LOW_CARDINALITY, TIMESTAMP_NS
from streams.store.rows.row_builder import ColumnSpec
from streams.wire import codec
from streams.wire.errors import Reject
from streams.wire.models import Component, Endpoint, Facts, Finding, Subject

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

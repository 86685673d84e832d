"""The tables that have one row a message: each column, its type, and where in the message its value is."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import orjson

from streams.store.build import Field, Shape
from streams.store.names import spelled
from streams.wire import codec
from streams.wire.errors import Reject
from streams.wire.models import IDLE_NS, Component, Endpoint, Facts, Finding, Progress, Subject

WORD = "LowCardinality(String)"
TIME = "DateTime64(9, 'UTC')"
MAYBE_TIME = f"Nullable({TIME})"
WORDS = "Array(String)"

_INT64 = 2**63
_NO_END = Endpoint("")


def nanoseconds(value: int) -> int:
    """A time that the column can hold; raises Reject on one that it cannot (JSON times go to the year 9999)."""
    if not -_INT64 <= value < _INT64:
        raise Reject(f"a time out of range: {value} ns")
    return value


def _attribute(name: str, of: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    return attrgetter(name) if of is None else lambda message: getattr(of(message), name)


def _same(name: str, type_: str) -> Field:
    return Field(name, type_, attrgetter(name))


def _time(name: str, of: Callable[[Any], Any] | None = None) -> Field:
    value_of = _attribute(f"{name}_ns", of)
    return Field(name, TIME, lambda message: nanoseconds(value_of(message)))


def _maybe_time(name: str, of: Callable[[Any], Any] | None = None) -> Field:
    """A time that may be absent; 0 is absent too, for that is how the messages without presence say it."""
    value_of = _attribute(f"{name}_ns", of)

    def get(message: Any) -> int | None:
        value = value_of(message)
        return nanoseconds(value) if value else None

    return Field(name, MAYBE_TIME, get)


def _enum(name: str) -> Field:
    member_of, known = attrgetter(name), dict[int, str]()

    def get(message: Any) -> str:
        member = member_of(message)
        # By number: an enum's own hash is a Python function.
        if (word := known.get(number := int(member))) is None:
            word = known[number] = spelled(member)
        return word

    return Field(name, WORD, get)


def _json(of: Callable[[Any], Any] = lambda m: m) -> Field:
    return Field("json", "String", lambda message: codec.to_json(of(message)))


def _subject(of: Callable[[Any], Subject]) -> tuple[Field, ...]:
    return (
        Field("subject_id", "String", lambda m: of(m).id),
        Field("a_device", WORD, lambda m: (of(m).a or _NO_END).device),
        Field("a_port", WORD, lambda m: (of(m).a or _NO_END).port),
        Field("z_device", WORD, lambda m: (of(m).z or _NO_END).device),
        Field("z_port", WORD, lambda m: (of(m).z or _NO_END).port),
        Field("role", WORD, lambda m: of(m).role),
        Field("rail", "Nullable(Int32)", lambda m: of(m).rail),
        Field("plane", "Nullable(Int32)", lambda m: of(m).plane),
        Field("pod", WORD, lambda m: of(m).pod),
        Field("site", WORD, lambda m: of(m).site),
        Field("team", WORD, lambda m: of(m).team),
        Field("former_ids", WORDS, lambda m: of(m).former_ids),
    )


def _said(finding: Finding) -> Finding:
    """A finding that says what it is about; one that does not raises Reject, for its subject is its key."""
    if finding.subject is None:
        raise Reject(f"finding {finding.id} has no subject")
    return finding


def _conclusion(of: Callable[[Any], Finding]) -> tuple[Field, ...]:
    """The columns that findings and episodes share."""
    return (
        Field("id", "String", lambda m: _said(of(m)).id),
        Field("revision", "UInt64", lambda m: of(m).revision),
        Field("final", "Bool", lambda m: of(m).final),
        Field("condition", WORD, lambda m: spelled(of(m).condition)),
        Field("detector", WORD, lambda m: of(m).detector or of(m).condition.slug),
        Field("status", WORD, lambda m: spelled(of(m).status)),
        Field("severity", WORD, lambda m: spelled(of(m).severity)),
        *_subject(lambda m: of(m).subject),
        _time("started_at", of=of),
        _time("observed_at", of=of),
        _maybe_time("resolved_at", of=of),
        _maybe_time("detected_at", of=of),
        Field("summary", "String", lambda m: of(m).summary),
    )


def _blast(attribute: str, blank: Any) -> Callable[[Finding], Any]:
    return lambda m: getattr(m.blast_radius, attribute) if m.blast_radius else blank


def _coverage(attribute: str, blank: Any) -> Callable[[Finding], Any]:
    return lambda m: getattr(m.coverage, attribute) if m.coverage else blank


def _components(name: str, type_: str, get: Callable[[Component], Any]) -> Field:
    def of(message: Facts) -> list[Any]:
        return [get(component) for component in message.components]

    return Field(f"components.{name}", f"Array({type_})", of)


def _neighbors(name: str, attribute: str) -> Field:
    def of(message: Facts) -> list[str]:
        return [getattr(neighbor, attribute) for neighbor in message.neighbors]

    return Field(f"neighbors.{name}", WORDS, of)


def _watermark(message: Progress) -> int | None:
    return None if message.watermark_ns == IDLE_NS else message.watermark_ns


EVENTS = Shape(
    "events",
    (
        _same("device", WORD),
        _same("port", WORD),
        _enum("kind"),
        _time("at"),
        _time("received_at"),
        _enum("source"),
        _same("collector", WORD),
        _same("collector_run", "UInt64"),
        _same("sequence", "UInt64"),
        _same("code", "Int64"),
        _same("detail", "String"),
    ),
)

FACTS = Shape(
    "facts",
    (
        _same("device", WORD),
        _enum("source"),
        _time("observed_at"),
        _same("vendor", WORD),
        _same("model", WORD),
        _same("os_version", WORD),
        _maybe_time("booted_at"),
        _same("serial", "String"),
        _components("name", "String", lambda c: c.name),
        _components("kind", "String", lambda c: c.kind),
        _components("part_number", "String", lambda c: c.part_number),
        _components("serial", "String", lambda c: c.serial),
        _components("firmware", "String", lambda c: c.firmware),
        _components("alias", WORDS, lambda c: c.alias),
        _components("limits", "String", lambda c: orjson.dumps(c.limit, option=orjson.OPT_SORT_KEYS)),
        _neighbors("port", "port"),
        _neighbors("remote_device", "remote_device"),
        _neighbors("remote_port", "remote_port"),
    ),
)

COLLECTOR_STATUS = Shape(
    "collector_status",
    (
        _same("device", WORD),
        _enum("source"),
        _same("collector", WORD),
        _same("collector_run", "UInt64"),
        _time("at"),
        _same("reachable", "Bool"),
        _same("error", "String"),
        _maybe_time("last_sample_at"),
        _same("clock_offset_ns", "Int64"),
        _same("cadence_ns", "Int64"),
    ),
)

FINDINGS = Shape(
    "findings",
    (
        *_conclusion(lambda m: m),
        _same("cause", WORD),
        _same("confidence", "Nullable(Float64)"),
        _same("parent_id", "String"),
        _same("occurrences", "Nullable(UInt32)"),
        Field("shadow", "Bool", lambda m: bool(m.shadow)),
        Field("hosts", WORDS, _blast("hosts", ())),
        Field("jobs", WORDS, _blast("jobs", ())),
        Field("gpus", "Nullable(UInt32)", _blast("gpus", None)),
        Field("capacity_lost_ratio", "Nullable(Float64)", _blast("capacity_lost_ratio", None)),
        Field("coverage_seen", "Nullable(UInt32)", _coverage("seen", None)),
        Field("coverage_expected", "Nullable(UInt32)", _coverage("expected", None)),
        Field("coverage_missing", WORDS, _coverage("missing", ())),
        Field("evidence", WORDS, lambda m: [evidence.statement for evidence in m.evidence]),
        _same("detector_version", WORD),
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


REMEDIATIONS = Shape(
    "remediations",
    (
        _same("id", "String"),
        _same("revision", "UInt64"),
        _same("finding_ids", WORDS),
        _enum("action"),
        _enum("verdict"),
        *_subject(_target),
        _same("reason", "String"),
        Field("constraint_name", WORD, lambda m: m.constraint),
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

REMEDIATION_RESULTS = Shape(
    "remediation_results",
    (
        _same("remediation_id", "String"),
        _enum("outcome"),
        _maybe_time("at"),
        _same("actor", "String"),
        _same("detail", "String"),
    ),
)

CONTROLS = Shape(
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

REJECTED = Shape(
    "rejected",
    (
        _same("topic", WORD),
        _same("partition", "UInt32"),
        _same("offset", "Int64"),
        _same("stage", WORD),
        _same("reason", "String"),
        _time("at"),
        _same("value", "String"),
    ),
)

PROGRESS = Shape(
    "progress",
    (
        _same("stage", WORD),
        _same("partition", "UInt32"),
        _same("epoch", "UInt64"),
        Field("watermark", MAYBE_TIME, _watermark),
        _same("after_offset", "Int64"),
        _same("records", "UInt64"),
        _same("lag", "Int64"),
    ),
)

SYMPTOMS = Shape(
    "symptoms",
    (
        _same("device", WORD),
        _same("port", WORD),
        _enum("kind"),
        _time("at"),
        _maybe_time("since"),
        _enum("source"),
        _same("by_event", "Bool"),
        _same("count", "UInt64"),
        _same("boot_id", "UInt64"),
        _same("collector", WORD),
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


EPISODES = Shape(
    "episodes",
    (
        *_conclusion(_episode),
        Field("down_at", f"Array({TIME})", lambda m: m.down_at_ns),
        _json(_episode),
    ),
)

JOBS = Shape("jobs", (_same("job", "String"), _same("device", "String"), _time("start"), _maybe_time("end")))

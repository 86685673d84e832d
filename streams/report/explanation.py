"""Explains one finding: its evidence, children, remediations and revisions, and the samples and events behind it.

Reads findings from Kafka, or from ClickHouse if Kafka no longer has them or does not answer, and samples from
ClickHouse. If a server does not answer, reports that and returns the rest.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from streams.config.kafka import KafkaSettings
from streams.detect.detectors import DETECTORS
from streams.detect.evidence.subjects import subject_ends
from streams.fabric.catalogue import BY_NAME, Metric
from streams.instrument.shipped import runbook_path, shipped
from streams.instrument.text import format_time, in_words
from streams.notify.alert import first_steps
from streams.notify.page import first_step
from streams.report.records import findings_by_id_prefix, latest_revisions, remediations_of
from streams.report.render import decision_reason, finding_report, revision_moments, state_name, unchanged_line
from streams.store.clickhouse import ClickHouse, QueryClient
from streams.store.queries import finding_queries
from streams.store.queries.finding_queries import EventRow, ReadingRow, group_by_lane, query_events, query_readings
from streams.store.queries.job_history import port_aliases
from streams.wire import codec
from streams.wire.errors import Misconfigured, Retry
from streams.wire.models import Evidence, Finding, Remediation

Moment = tuple[int, str, str]
"""Time, source and text."""
PortEvents = tuple[str, Sequence[EventRow]]
"""The name of a port or device, and its events."""


def time_line(
    revisions: Sequence[Finding],
    children: Iterable[Finding],
    remediations: Iterable[Remediation],
    events: Iterable[PortEvents],
) -> Iterator[str]:
    """Yield a line for each moment, oldest first; moments of the same time keep the order of their causes."""
    changes, unchanged = revision_moments(revisions)
    moments: list[Moment] = []
    for place, rows in events:
        moments += [
            (row.at_ns, place, f"{in_words(row.kind)}  {row.detail or row.code or ''}".rstrip()) for row in rows
        ]
    moments += [(at_ns, "finding", text) for at_ns, text in changes]
    for child in children:
        moments.append((child.started_at_ns, "child", f"{child.condition.slug} {child.subject.id} begins"))
        if child.resolved_at_ns is not None:
            moments.append((child.resolved_at_ns, "child", f"{child.condition.slug} {child.subject.id} is over"))
    for one in remediations:
        text = f"{one.action.name} {state_name(one)}  {decision_reason(one)}".rstrip()
        moments.append((one.decided_at_ns or 0, "decision", text))
    width = max((len(source) for _, source, _ in moments), default=0)
    for at_ns, source, text in sorted(moments, key=lambda one: one[0]):
        yield f"    {format_time(at_ns or None)}  {source:<{width}}  {text}"
    yield from unchanged_line(unchanged)


_MAX_ROWS = 10
"""The limit of printed readings inside the window, half of them from each end; the readings between are counted."""
_MAX_EVENTS = 12
_MAX_TABLES = 8
_DEFAULT_METRIC = {one.condition: one.state_metric for one in DETECTORS if one.state_metric is not None}
"""The metric to print if the evidence names no sampled metric."""


@dataclass(frozen=True, slots=True)
class EvidenceTable:
    """The readings or events of one port around one window."""

    device: str
    port: str
    metric: str
    window: tuple[int, int]
    readings: tuple[ReadingRow, ...]
    events: tuple[EventRow, ...]

    @property
    def place(self) -> str:
        """Return the name of the port or device."""
        return f"{self.device}/{self.port}" if self.port else self.device

    def as_dict(self) -> dict[str, Any]:
        """Return the table as JSON values, times in Unix ns."""
        return {
            "device": self.device, "port": self.port, "metric": self.metric, "window_ns": list(self.window),
            "readings": [reading._asdict() for reading in self.readings],
            "events": [event._asdict() for event in self.events],
        }  # fmt: skip


def evidence_tables(client: QueryClient, finding: Finding) -> list[EvidenceTable]:
    """Return the tables of a finding's evidence, one for each port, metric and window."""
    found: dict[tuple[str, str, str], EvidenceTable] = {}
    for device, port, metric, window in _requested_windows(finding):
        rows = port_aliases(client, [device]).get((device, port), {port})
        name = metric.name.lower() if metric else ""
        readings = tuple(query_readings(client, device, rows, metric, window)) if metric else ()
        has_events = (device, port, "") in found
        events = () if has_events else tuple(query_events(client, device, rows, window, _MAX_EVENTS))
        for key, table in (
            ((device, port, name), EvidenceTable(device, port, name, window, readings, ())),
            ((device, port, ""), EvidenceTable(device, port, "", window, (), events)),
        ):
            if (table.readings or table.events) and key not in found and len(found) < _MAX_TABLES:
                found[key] = table
    return list(found.values())


def _requested_windows(finding: Finding) -> Iterator[tuple[str, str, Metric | None, tuple[int, int]]]:
    until_ns = finding.resolved_at_ns or finding.observed_at_ns
    for evidence in finding.evidence or (Evidence(""),):
        window = evidence.window_start_ns or finding.started_at_ns, evidence.window_end_ns or until_ns
        metric = BY_NAME.get(evidence.metric, _DEFAULT_METRIC.get(finding.condition))
        for end in (evidence.at,) if evidence.at is not None else subject_ends(finding.subject):
            yield end.device, end.port, metric, (min(window), max(window))


def table_lines(tables: Iterable[EvidenceTable]) -> Iterator[str]:
    """Yield the readings of the tables as text."""
    for table in tables:
        for (source, index), readings in group_by_lane(table.readings):
            lane = "" if index < 0 else f"[{index}]"
            yield f"  {table.metric}{lane} of {table.place}, read by {source} (* in the window)"
            yield from _reading_lines(readings, table)


def _reading_lines(readings: Sequence[ReadingRow], table: EvidenceTable) -> Iterator[str]:
    is_counter = BY_NAME[table.metric].counter
    inside = [i for i, reading in enumerate(readings) if table.window[0] <= reading.at_ns <= table.window[1]]
    left_out = set(inside[_MAX_ROWS // 2 : -_MAX_ROWS // 2]) if len(inside) > _MAX_ROWS else set()
    day = ""
    for i, reading in enumerate(readings):
        if i in left_out:
            if i - 1 not in left_out:
                yield f"    … {len(left_out)} more"
            continue
        mark = "*" if i in inside else " "
        delta = f"  {reading.value - readings[i - 1].value:+,.10g}" if is_counter and i else ""
        date, _, clock = format_time(reading.at_ns).partition(" ")
        if date != day:
            yield f"    {date}"
            day = date
        yield f"    {clock} {mark} {reading.value:,.10g}{delta}"


class NoSuchFinding(Exception):
    """Raised if no finding, or more than one, has this id prefix."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One finding with all related data; `no_samples` is the reason for missing samples."""

    finding: Finding
    revisions: tuple[Finding, ...]
    children: tuple[Finding, ...]
    remediations: tuple[Remediation, ...]
    samples: tuple[EvidenceTable, ...] = ()
    no_samples: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON values."""
        return {
            "finding": _plain(self.finding),
            "revisions": [_plain(revision) for revision in self.revisions],
            "children": [_plain(child) for child in self.children],
            "remediations": [_plain(remediation) for remediation in self.remediations],
            "samples": [table.as_dict() for table in self.samples],
        }

    def lines(self) -> Iterator[str]:
        """Yield the explanation as text."""
        page, finding = runbook_path(self.finding.condition.slug), self.finding
        if finding.runbook_url == page and (file := shipped(page)).is_file():
            finding = replace(finding, runbook_url=str(file))
        yield from finding_report(finding, self.children, self.remediations, len(self.revisions))
        if not finding.is_closed and (step := first_step(finding, first_steps(finding.condition.slug))):
            yield f"  first step   {step}"
        if any(table.readings for table in self.samples):
            yield "  samples"
        yield from (f"  {line}" for line in table_lines(self.samples))
        yield "  time line"
        events = [(table.place, table.events) for table in self.samples]
        yield from time_line(self.revisions, self.children, self.remediations, events)


def explain_finding(kafka: KafkaSettings, clickhouse: ClickHouse, id_prefix: str, *, samples: bool) -> Explanation:
    """Return the explanation of the finding with this id prefix.

    Raises NoSuchFinding, and Retry if neither Kafka nor ClickHouse answers.
    """
    revisions, remediations = _read_finding(kafka, clickhouse, id_prefix)
    latest = latest_revisions(revisions)
    matches = [finding for finding in latest.values() if finding.id.startswith(id_prefix)]
    if len(matches) != 1:
        several = ", ".join(finding.id for finding in matches)
        raise NoSuchFinding(f"several: {several}" if matches else f"no finding {id_prefix}")
    finding = matches[0]
    explanation = Explanation(
        finding,
        tuple(revision for revision in revisions if revision.id == finding.id),
        tuple(child for child in latest.values() if child.parent_id == finding.id),
        tuple(remediations),
    )
    return _with_samples(explanation, clickhouse) if samples else explanation


def _read_finding(
    kafka: KafkaSettings, clickhouse: ClickHouse, id_prefix: str
) -> tuple[list[Finding], list[Remediation]]:
    """Return all revisions of a finding and its children, and its remediations; raises Retry."""
    kafka_error: Retry | None = None
    try:
        revisions = asyncio.run(findings_by_id_prefix(kafka, id_prefix))
        ids = {finding.id for finding in revisions if finding.id.startswith(id_prefix)}
        if ids:
            return revisions, asyncio.run(remediations_of(kafka, next(iter(ids)))) if len(ids) == 1 else []
    except Retry as error:
        kafka_error = error
    try:
        return finding_queries.by_id_prefix(clickhouse, id_prefix)
    except (Retry, Misconfigured) as error:
        if kafka_error is not None:
            raise Retry(f"{kafka_error}\n{error}") from error
        return [], []


def _with_samples(explanation: Explanation, clickhouse: ClickHouse) -> Explanation:
    try:
        return replace(explanation, samples=tuple(evidence_tables(clickhouse, explanation.finding)))
    except (Retry, Misconfigured) as error:
        return replace(explanation, no_samples=str(error).splitlines()[0])


def _plain(message: Finding | Remediation) -> Any:
    return orjson.loads(codec.to_json(message))

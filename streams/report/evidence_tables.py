"""Samples and events behind a finding's evidence, as small tables around the windows that the evidence names."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from streams.fabric.catalogue import BY_NAME, Metric
from streams.instrument.time_format import format_time
from streams.store.clickhouse import QueryClient
from streams.store.queries.finding_queries import EventRow, ReadingRow, group_by_lane, query_events, query_readings
from streams.store.queries.job_history import port_aliases
from streams.wire.models import Condition, Evidence, Finding

_MAX_ROWS = 10
"""Readings of a table inside the window: the first and the last half are printed, those between are counted."""
_MAX_EVENTS = 12
_MAX_TABLES = 8
_DEFAULT_METRIC = {
    Condition.LINK_FLAP: Metric.OPER_UP,
    Condition.LINK_DOWN: Metric.OPER_UP,
}
"""The metric to print where the evidence names none that is sampled."""


@dataclass(frozen=True, slots=True)
class EvidenceTable:
    """The readings or events of one port around one window."""

    device: str
    port: str
    metric: str
    window: tuple[int, int]
    readings: tuple[ReadingRow, ...]
    events: tuple[EventRow, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values, times in Unix ns."""
        return {
            "device": self.device, "port": self.port, "metric": self.metric, "window_ns": list(self.window),
            "readings": [reading._asdict() for reading in self.readings],
            "events": [event._asdict() for event in self.events],
        }  # fmt: skip


def evidence_tables(client: QueryClient, finding: Finding) -> list[EvidenceTable]:
    """Return the tables of a finding's evidence, each port, metric and window once."""
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
    ends = [end for end in (finding.subject.a, finding.subject.z) if end is not None]
    until_ns = finding.resolved_at_ns or finding.observed_at_ns
    for evidence in finding.evidence or (Evidence(""),):
        window = evidence.window_start_ns or finding.started_at_ns, evidence.window_end_ns or until_ns
        metric = BY_NAME.get(evidence.metric, _DEFAULT_METRIC.get(finding.condition))
        for end in (evidence.at,) if evidence.at is not None else ends:
            yield end.device, end.port, metric, (min(window), max(window))


def table_lines(tables: Iterable[EvidenceTable]) -> Iterator[str]:
    """Yield the tables as text."""
    for table in tables:
        at = f"{table.device}/{table.port}" if table.port else table.device
        if table.events:
            yield f"  events of {at}"
            for event in table.events:
                yield f"    {format_time(event.at_ns)}  {event.kind}  {event.detail or event.code or ''}".rstrip()
        for (source, index), readings in group_by_lane(table.readings):
            lane = "" if index < 0 else f"[{index}]"
            yield f"  {table.metric}{lane} of {at}, read by {source} (* in the window)"
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

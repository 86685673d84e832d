"""The samples and events behind a finding's evidence, as small tables around the windows that it names."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from streams.cli import shown
from streams.fabric.catalogue import BY_NAME, CATALOGUE, Metric
from streams.store.queries import evidence_queries
from streams.store.queries.evidence_queries import EventRow, ReadingRow
from streams.store.queries.job_history import port_aliases
from streams.store.query_client import QueryClient
from streams.wire.models import Condition, Evidence, Finding

_ROWS = 10
"""Of a table's readings inside of the window: the first and the last half; what is between is counted."""
_EVENTS = 12
_TABLES = 8
_BY_DEFAULT = {
    Condition.LINK_FLAP: Metric.OPER_UP,
    Condition.LINK_DOWN: Metric.OPER_UP,
}
"""What to look at where the evidence names no metric that is read: of what went down, its state."""


@dataclass(frozen=True, slots=True)
class Behind:
    """What was read, or told, of one port around one window."""

    device: str
    port: str
    metric: str
    span: tuple[int, int]
    readings: tuple[ReadingRow, ...]
    events: tuple[EventRow, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON would have it; times in Unix ns."""
        return {
            "device": self.device, "port": self.port, "metric": self.metric, "window_ns": list(self.span),
            "readings": [reading._asdict() for reading in self.readings],
            "events": [told._asdict() for told in self.events],
        }  # fmt: skip


def behind(asks: QueryClient, finding: Finding) -> list[Behind]:
    """What stands behind the evidence, each port, metric and window once."""
    found: dict[tuple[str, str, str], Behind] = {}
    for device, port, metric, span in _wanted(finding):
        rows = port_aliases(asks, [device]).get((device, port), {port})
        name = metric.name.lower() if metric else ""
        own = tuple(evidence_queries.query_readings(asks, device, rows, metric, span)) if metric else ()
        told = (
            ()
            if (device, port, "") in found
            else tuple(evidence_queries.query_events(asks, device, rows, span, _EVENTS))
        )
        for key, one in (
            ((device, port, name), Behind(device, port, name, span, own, ())),
            ((device, port, ""), Behind(device, port, "", span, (), told)),
        ):
            if (one.readings or one.events) and key not in found and len(found) < _TABLES:
                found[key] = one
    return list(found.values())


def _wanted(finding: Finding) -> Iterator[tuple[str, str, Metric | None, tuple[int, int]]]:
    ends = [end for end in (finding.subject.a, finding.subject.z) if end is not None]
    until_ns = finding.resolved_at_ns or finding.observed_at_ns
    for evidence in finding.evidence or (Evidence(""),):
        span = evidence.window_start_ns or finding.started_at_ns, evidence.window_end_ns or until_ns
        metric = BY_NAME.get(evidence.metric, _BY_DEFAULT.get(finding.condition))
        for end in (evidence.at,) if evidence.at is not None else ends:
            yield end.device, end.port, metric, (min(span), max(span))


def lines(found: Iterable[Behind]) -> Iterator[str]:
    """The tables."""
    for one in found:
        at = f"{one.device}/{one.port}" if one.port else one.device
        if one.events:
            yield f"  events of {at}"
            yield from (f"    {shown.at(e.at_ns)}  {e.kind}  {e.detail or e.code or ''}".rstrip() for e in one.events)
        for (source, index), own in evidence_queries.group_by_lane(one.readings):
            lane = "" if index < 0 else f"[{index}]"
            yield f"  {one.metric}{lane} of {at}, read by {source} (* in the window)"
            yield from _table(own, one)


def _table(own: Sequence[ReadingRow], one: Behind) -> Iterator[str]:
    counter = CATALOGUE[BY_NAME[one.metric]].counter
    inside = [i for i, reading in enumerate(own) if one.span[0] <= reading.at_ns <= one.span[1]]
    left_out = set(inside[_ROWS // 2 : -_ROWS // 2]) if len(inside) > _ROWS else set()
    day = ""
    for i, reading in enumerate(own):
        if i in left_out:
            if i - 1 not in left_out:
                yield f"    … {len(left_out)} more"
            continue
        mark = "*" if i in inside else " "
        grown = f"  {reading.value - own[i - 1].value:+,.10g}" if counter and i else ""
        date, _, clock = shown.at(reading.at_ns).partition(" ")
        if date != day:
            yield f"    {date}"
            day = date
        yield f"    {clock} {mark} {reading.value:,.10g}{grown}"

"""Scores faults from ClickHouse, with the parts of links by time; publishes and renders the scores."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from streams.config.kafka import KafkaSettings
from streams.detect.detector import FaultOf
from streams.detect.detectors import DETECTORS
from streams.fabric.ids import device_id
from streams.report.lemons.score import Fault, FaultKind, Fleet, Part, is_lemon, scores
from streams.runtime.topic_io import publish, read_newest
from streams.store.clickhouse import QueryClient
from streams.store.enum_labels import enum_label
from streams.store.queries.lemon_history import (
    PART_KINDS,
    LinkEnds,
    PartsRow,
    query_faults,
    query_hosts,
    query_links,
    query_newest_parts,
    query_outcomes,
    query_parts,
)
from streams.wire.models import Lemon
from streams.wire.topics import LEMONS, encode, tombstone

_CONDITIONS = [one.condition for one in DETECTORS if one.lemon is not None]
_HOST_LABELS = frozenset(enum_label(one.condition) for one in DETECTORS if one.lemon is FaultOf.HOST)
_OUTCOMES = {"not_qualified": FaultKind.FAILED_REPAIR, "relapsed": FaultKind.RELAPSE}


def query_lemons(client: QueryClient, since_ns: int, until_ns: int) -> list[Lemon]:
    """Return the scores of all subjects with faults in [since, until); raises Retry without ClickHouse."""
    links = {link.id: link for link in query_links(client, until_ns)}
    hosts = {device_id(name) for name in query_hosts(client, until_ns)}
    found: list[tuple[FaultKind, str, int]] = []
    for row in query_faults(client, _CONDITIONS, since_ns, until_ns):
        subject = device_id(row.device) if row.condition in _HOST_LABELS else row.subject_id
        found.append((FaultKind.FINDING, subject, row.at_ns))
    found += [(_OUTCOMES[row.outcome], row.subject_id, row.at_ns) for row in query_outcomes(client, since_ns, until_ns)]
    faulty = [links[subject] for _, subject, _ in found if subject in links]
    history = _by_device(query_parts(client, (d for link in faulty for d in (link.lower, link.upper)), until_ns))
    faults = [
        Fault(kind, subject, parts_of(links[subject], history, at_ns) if subject in links else frozenset())
        for kind, subject, at_ns in found
    ]
    newest = _by_device(query_newest_parts(client, until_ns))
    parts = {link.id: own for link in links.values() if (own := parts_of(link, newest, until_ns))}
    found_scores = scores(faults, Fleet(links.keys(), hosts, parts))
    return [replace(lemon, since_ns=since_ns, until_ns=until_ns) for lemon in found_scores]


_Parts = tuple[int, Mapping[str, Part]]


def _by_device(rows: Iterable[PartsRow]) -> dict[str, dict[str, list[_Parts]]]:
    """Return device -> source -> (since, name -> part), in the order of time."""
    found: dict[str, dict[str, list[_Parts]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row.device][row.source].append((row.since_ns, named_parts(row)))
    return found


def named_parts(row: PartsRow) -> dict[str, Part]:
    """Return the transceivers and NICs of a device by all their names."""
    parts: dict[str, Part] = {}
    for name, kind, number, firmware, aliases in zip(*row[3:], strict=True):
        if kind in PART_KINDS and number:
            parts |= dict.fromkeys((name, *aliases), Part(kind, number, firmware))
    return parts


def parts_of(link: LinkEnds, devices: Mapping[str, Mapping[str, Sequence[_Parts]]], at_ns: int) -> frozenset[Part]:
    """Return the parts at both ends of a link at a time, or the earliest parts if they were first read later."""
    ends = ((link.lower, link.lower_port), (link.upper, link.upper_port))
    found: set[Part] = set()
    for device, port in ends:
        for states in devices.get(device, {}).values():
            before = [named for since_ns, named in states if since_ns <= at_ns]
            if part := (before[-1] if before else states[0][1]).get(port):
                found.add(part)
                break
    return frozenset(found)


async def publish_lemons(kafka: KafkaSettings, lemons: Sequence[Lemon]) -> int:
    """Publish the scores, and remove the scores of subjects without one; return the number of records."""
    records = [encode(LEMONS, lemon) for lemon in lemons]
    current = {record.key for record in records}
    obsolete = sorted((await read_newest(kafka, LEMONS)).keys - current)
    return await publish(kafka, [*records, *(tombstone(LEMONS, key.decode(errors="replace")) for key in obsolete)])


_SUBJECT = 17
"""The characters of a subject with which the widest row of a firmware fits 80 columns."""
LEMON_COLUMNS = ("", "KIND", "SUBJECT", "FAULTS", "REST", "RATIO")


def lemon_cells(lemon: Lemon, *, is_cut: bool) -> list[str]:
    """Return the row of a subject, with a mark for a lemon; `is_cut` omits the middle of a long subject."""
    return [
        "*" if is_lemon(lemon) else "",
        lemon.kind.name.lower(),
        _cut(lemon.subject_id, _SUBJECT) if is_cut else lemon.subject_id,
        f"{lemon.events} of {lemon.exposure}",
        f"{lemon.fleet_events} of {lemon.fleet_exposure}",
        _interval(lemon),
    ]


def count_line(lemons: Sequence[Lemon], days: float) -> str:
    """Return the line below the table."""
    count = sum(map(is_lemon, lemons))
    return f"{count} of {len(lemons)} in {days:g} days are lemons (*): the whole interval is above 1"


def _interval(lemon: Lemon) -> str:
    """Return the bounds of the ratio."""
    low = _short(lemon.ratio_low or 0)
    return f"from {low}" if lemon.ratio_high is None else f"{low} to {_short(lemon.ratio_high)}"


def _short(number: float) -> str:
    return f"{number:.0f}" if 10 <= number < 100_000 else f"{number:.2g}"


def _cut(text: str, width: int) -> str:
    """Return a text without its middle, so that both ends of a link stay recognizable."""
    if len(text) <= width:
        return text
    begin = (width - 1) // 2
    return f"{text[:begin]}…{text[begin + 1 - width :]}"

"""Builds the rows of the terminal's views in their order, without a terminal.

Every state has a letter besides its color, so that a terminal without colors shows the same.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.text import Text

from streams.detect.fabric_side import devices_of
from streams.fabric.inventory import Device
from streams.fabric.topology import Topology
from streams.instrument.text import format_duration, format_time
from streams.report.open_findings import FindingFilter
from streams.report.top.state import SEVERITY_COLORS, TopState
from streams.wire.models import Finding, Severity, Status

HEALTHY, HEALTHY_COLOR = "·", "green"
UNREAD, UNREAD_COLOR = "?", "dim"
MARKS = {Severity.INFO: "i", Severity.WARNING: "w", Severity.CRITICAL: "C"}
ID_CHARACTERS = 12
MAX_ROWS = 500
"""The limit of rows of a view, which shows the worst and counts the rest."""
MAX_MARKS = 64
"""The limit of devices with a mark each in one tier of one pod; more devices are counted by severity."""
TIERS = ("T2", "T1", "T0", "host")
_TIER_NAMES = {"T2": "cores", "T1": "spines", "T0": "leaves", "host": "hosts"}
_STATUS_COLORS = {Status.OPEN: "bold red", Status.UPDATED: "yellow", Status.RESOLVED: "green"}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table: its key, and a cell for each column."""

    key: str
    cells: tuple[str | Text, ...]


FINDING_COLUMNS = ("id", "severity", "age", "condition", "ack", "summary")
CHANGE_COLUMNS = ("at", "id", "status", "severity", "condition", "summary")
LINK_COLUMNS = ("state", "lower end", "upper end", "role", "rail", "condition", "finding")
JOB_COLUMNS = ("state", "job", "hosts", "findings", "worst", "finding")


def legend() -> Text:
    """Return the meaning of each mark."""
    pieces: list[tuple[str, str]] = [(HEALTHY, HEALTHY_COLOR), (" no finding   ", ""), (UNREAD, UNREAD_COLOR)]
    pieces += [(" not read", "")]
    for severity, mark in MARKS.items():
        pieces += [("   ", ""), (mark, SEVERITY_COLORS[severity]), (f" {severity.name}", "")]
    return Text.assemble(*pieces)


def headline(state: TopState, now_ns: int) -> str:
    """Return the line of counts: open findings by severity, the size of the fabric, and the delay of the last stage."""
    found = state.open_findings
    counts = ", ".join(f"{sum(f.severity is s for f in found)} {s.name}" for s in reversed(MARKS))
    fabric = "no inventory" if state.topology is None else (
        f"{len(state.topology.devices)} devices, {len(state.topology.links)} links"
    )  # fmt: skip
    watermark = state.stages["decide"].watermark_ns
    behind = "no data" if watermark is None else f"{max(0, now_ns - watermark) / 1e9:.0f} s behind"
    return f"open: {counts}  |  {fabric}  |  {behind}"


def fabric_lines(state: TopState) -> Iterator[Text]:
    """Yield a line for each tier of each pod, with a mark for each device."""
    if state.topology is None:
        yield Text("no inventory is published yet", "dim")
        return
    worst, read = state.worst_by_device(), state.read_devices()
    for pod, devices in _by_pod(state.topology):
        yield Text(pod or "fabric", "bold")
        for tier in (*TIERS, *sorted({d.tier for d in devices} - set(TIERS))):
            names = sorted(device.name for device in devices if device.tier == tier)
            if names:
                yield Text.assemble(
                    (f"  {_TIER_NAMES.get(tier, tier):<7} {len(names):>5}  ", "dim"), *_marks(names, worst, read)
                )


def finding_rows(state: TopState, wanted: FindingFilter, text: str, now_ns: int) -> list[Row]:
    """Return the open findings that match a filter and the search text, root causes first."""
    acked = state.acknowledged(now_ns)
    return [
        Row(one.id, (
            one.id[:ID_CHARACTERS],
            Text(one.severity.name, SEVERITY_COLORS.get(one.severity, "")),
            format_duration(now_ns - one.started_at_ns),
            one.condition.slug,
            acked[one.id].actor or "yes" if one.id in acked else "-",
            ("↳ " if one.parent_id else "") + _summary(one),
        ))
        for one in state.open_findings
        if wanted.selects(one, one.id in acked) and _contains(one, text)
    ][:MAX_ROWS]  # fmt: skip


def change_rows(state: TopState) -> list[Row]:
    """Return the newest changes of findings, newest first."""
    return [
        Row(f"{one.id}/{one.revision}", (
            format_time(one.observed_at_ns)[11:19],
            one.id[:ID_CHARACTERS],
            Text(one.status.name.lower(), _STATUS_COLORS.get(one.status, "dim")),
            Text(one.severity.name, SEVERITY_COLORS.get(one.severity, "")),
            one.condition.slug,
            ("↳ " if one.parent_id else "") + _summary(one),
        ))
        for one in reversed(state.changes)
    ]  # fmt: skip


def link_rows(state: TopState, text: str) -> list[Row]:
    """Return the links, the worst finding first."""
    if state.topology is None:
        return []
    worst, read = dict[str, Finding](), state.read_devices()
    for finding in state.open_findings:
        for identity in (finding.subject.id, *finding.subject.former_ids):
            if identity not in worst or finding.severity > worst[identity].severity:
                worst[identity] = finding
    links = sorted(state.topology.table, key=lambda link: (-_severity(worst.get(link.id)), link.id))
    return [
        Row(worst[link.id].id if link.id in worst else "", (
            _state(worst.get(link.id), not read.isdisjoint((link.lower.device, link.upper.device))),
            f"{link.lower.device}/{link.lower.port}",
            f"{link.upper.device}/{link.upper.port}",
            link.role,
            "-" if link.rail is None else str(link.rail),
            worst[link.id].condition.slug if link.id in worst else "",
            worst[link.id].id[:ID_CHARACTERS] if link.id in worst else "",
        ))
        for link in links
        if text.lower() in link.id.lower()
    ][:MAX_ROWS]  # fmt: skip


def job_rows(state: TopState, text: str) -> list[Row]:
    """Return the jobs of the inventory, sorted by the worst finding on their hosts."""
    if state.topology is None:
        return []
    hosts, read = dict[str, set[str]](), state.read_devices()
    for job in state.topology.jobs:
        hosts.setdefault(job.job, set()).add(job.device)
    hits = {job: [f for f in state.open_findings if _affects(f, job, names)] for job, names in hosts.items()}
    worst = {job: max(found, key=lambda f: f.severity, default=None) for job, found in hits.items()}
    return [
        Row(one.id if (one := worst[job]) is not None else "", (
            _state(one, not read.isdisjoint(hosts[job])),
            job,
            str(len(hosts[job])),
            str(len(hits[job])),
            one.condition.slug if one is not None else "",
            one.id[:ID_CHARACTERS] if one is not None else "",
        ))
        for job in sorted(hosts, key=lambda name: (-_severity(worst[name]), name))
        if text.lower() in job.lower()
    ][:MAX_ROWS]  # fmt: skip


def _affects(finding: Finding, job: str, hosts: set[str]) -> bool:
    radius = finding.blast_radius
    return (radius is not None and job in radius.jobs) or not hosts.isdisjoint(devices_of(finding))


def _by_pod(topology: Topology) -> list[tuple[str, list[Device]]]:
    pods: dict[str, list[Device]] = {}
    for device in topology.devices.values():
        pods.setdefault(device.pod, []).append(device)
    return sorted(pods.items())


def _marks(names: list[str], worst: dict[str, Finding], read: frozenset[str]) -> Iterator[tuple[str, str]]:
    marks = [_mark(worst.get(name), name in read) for name in names]
    if len(names) <= MAX_MARKS:
        yield from marks
        return
    for mark, count in Counter(marks).most_common():
        yield f"{mark[0]} {count}  ", mark[1]


def _mark(finding: Finding | None, is_read: bool) -> tuple[str, str]:
    if finding is None:
        return (HEALTHY, HEALTHY_COLOR) if is_read else (UNREAD, UNREAD_COLOR)
    return MARKS.get(finding.severity, "?"), SEVERITY_COLORS.get(finding.severity, "")


def _state(finding: Finding | None, is_read: bool) -> Text:
    if finding is None:
        return Text("no finding", HEALTHY_COLOR) if is_read else Text("not read", UNREAD_COLOR)
    return Text(finding.severity.name, SEVERITY_COLORS.get(finding.severity, ""))


def _severity(finding: Finding | None) -> int:
    return 0 if finding is None else finding.severity


def _summary(finding: Finding) -> str:
    return finding.summary or finding.subject.id


def _contains(finding: Finding, text: str) -> bool:
    fields: Iterable[str] = (
        finding.id,
        finding.condition.slug,
        finding.subject.id,
        finding.summary,
        finding.severity.name,
    )
    return all(any(word in field.lower() for field in fields) for word in text.lower().split())

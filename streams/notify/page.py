"""Writes the text of a page for a phone: what, where, who is hit, what to do first, and where to continue.

A page is followed up if its extent has doubled since the last text, and by its end; no other change is one.
"""

import re
from typing import NamedTuple

from streams.instrument.text import format_duration, format_time, in_past
from streams.wire.models import BlastRadius, Cause, Endpoint, Finding, Status, Subject

MAX_NAMES = 5
"""Hosts and jobs by name in one line of a pager."""
_STEP = re.compile(r"^\d+\. (.*)$", re.MULTILINE)
_MARKS = re.compile(r"[*`]")


class Extent(NamedTuple):
    """The number of hosts and jobs that a finding affects, and the capacity that they lost."""

    hosts: int = 0
    jobs: int = 0
    lost: float = 0.0
    """The lost share of the hosts' capacity."""

    def has_doubled(self, now: "Extent") -> bool:
        """Return whether one of the numbers has at least doubled, or was none and is not."""
        return any(new > 0 and new >= 2 * old for old, new in zip(self, now, strict=True))

    def with_largest(self, now: "Extent") -> "Extent":
        """Return the larger of each number, so that an extent that goes back and forth has one follow-up."""
        return Extent(max(self.hosts, now.hosts), max(self.jobs, now.jobs), max(self.lost, now.lost))


def extent_of(finding: Finding) -> Extent:
    """Return the extent of a finding."""
    radius = finding.blast_radius or BlastRadius()
    return Extent(len(radius.hosts), len(radius.jobs), radius.capacity_lost_ratio or 0.0)


def page_text(finding: Finding, steps: str, no_page: str = "") -> str:
    """Return the text; `steps` are those of the runbook, `no_page` the reason why an open finding pages no more."""
    summary = finding.summary or finding.condition.slug
    lines = [
        f"{_state(finding, no_page)}: {in_past(summary) if finding.resolved_at_ns else summary}",
        f"Where: {where(finding.subject)}",
        f"Hit: {who_is_hit(finding.blast_radius) or 'no host is known to be hit'}",
        f"Since: {format_time(finding.started_at_ns)}",
    ]
    if finding.cause not in (Cause.CAUSE_UNSPECIFIED, Cause.UNKNOWN):
        lines.append(f"Cause: {finding.cause.label}")
    if not finding.is_closed and not no_page:
        if first := first_step(finding, steps):
            lines.append(f"First: {first}")
        lines.append(f"Acknowledge: railsight ack {finding.id[:12]}")
    lines.append(f"More: railsight explain {finding.id[:12]}")
    return "\n".join(lines)


def _state(finding: Finding, no_page: str) -> str:
    if finding.status is Status.RETRACTED:
        return "RETRACTED, it was no fault"
    if finding.resolved_at_ns is not None:
        return f"OVER after {format_duration(finding.resolved_at_ns - finding.started_at_ns)}"
    return f"NO PAGE ANY MORE, {no_page}" if no_page else finding.severity.name


def where(subject: Subject) -> str:
    """Return the place of a subject in words."""
    ends = [f"{end.device} {end.port}".rstrip() for end in _ends(subject)]
    place = [
        " to ".join(ends) or subject.id,
        "" if subject.rail is None else f"rail {subject.rail}",
        "" if subject.plane is None else f"plane {subject.plane}",
        "" if any(end.device == subject.pod for end in _ends(subject)) else subject.pod,
        subject.site and f"site {subject.site}",
    ]
    return ", ".join(one for one in place if one)


def _ends(subject: Subject) -> list[Endpoint]:
    return [end for end in (subject.a, subject.z) if end is not None]


def who_is_hit(radius: BlastRadius | None) -> str:
    """Return the affected jobs, hosts and GPUs, and the lost capacity, on one line."""
    if radius is None:
        return ""
    parts = [
        f"{kind} {_join_names(names)}" for kind, names in (("jobs", radius.jobs), ("hosts", radius.hosts)) if names
    ]
    if radius.gpus is not None:
        parts.append("1 GPU" if radius.gpus == 1 else f"{radius.gpus} GPUs")
    if radius.capacity_lost_ratio is not None:
        parts.append(f"{radius.capacity_lost_ratio:.0%} of their capacity lost")
    return "; ".join(parts)


def _join_names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def first_step(finding: Finding, steps: str) -> str:
    """Return the step of a runbook that begins with the finding's cause or role, else its first, without markup."""
    found = _STEP.findall(steps)
    for name in filter(None, (finding.cause.label, finding.subject.role)):
        for step in found:
            if step.startswith(f"`{name}`"):
                own = step.removeprefix(f"`{name}`: ")
                return _MARKS.sub("", own[0].upper() + own[1:])
    return _MARKS.sub("", next(iter(found), ""))

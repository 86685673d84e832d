"""Writes the text of a page for a phone: what, where, who is hit, what to do first, and where to continue.

A page is followed up if its extent has doubled or a finding has joined it since the last text, and by its end; no other
change is one.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from streams.instrument.text import format_duration, format_time, in_past, in_words
from streams.wire.models import UPLINKS, BlastRadius, Cause, Endpoint, Finding, Status, Subject

MAX_NAMES = 5
"""Hosts and jobs by name in one line of a pager."""
_STEP = re.compile(r"^\d+\. (.*)$", re.MULTILINE)
_NAME = re.compile(r"`([^`]+)`")
_MARKS = re.compile(r"[*`]")


class Extent(NamedTuple):
    """The number of hosts and jobs that a page's findings affect, the lost capacity, and how many have joined it."""

    hosts: int = 0
    jobs: int = 0
    lost: float = 0.0
    """The lost share of the hosts' capacity."""
    joins: int = 0

    def has_grown(self, now: "Extent") -> bool:
        """Return whether a finding has joined, or another number has at least doubled, or was none and is not."""
        return now.joins > self.joins or any(new > 0 and new >= 2 * old for old, new in zip(self, now, strict=True))

    def with_largest(self, now: "Extent") -> "Extent":
        """Return the larger of each number, so that an extent that goes back and forth has one follow-up."""
        lost, joins = max(self.lost, now.lost), max(self.joins, now.joins)
        return Extent(max(self.hosts, now.hosts), max(self.jobs, now.jobs), lost, joins)


def extent_of(finding: Finding, joins: int = 0) -> Extent:
    """Return the extent of a page by its own finding and the number of findings that joined it."""
    radius = finding.blast_radius or BlastRadius()
    return Extent(len(radius.hosts), len(radius.jobs), radius.capacity_lost_ratio or 0.0, joins)


def page_text(finding: Finding, steps: str, no_page: str = "", others: Sequence[Finding] = (), joined: int = 0) -> str:
    """Return the text; `steps` are those of the runbook, and `no_page` the reason why an open finding pages no more.

    `others` are the findings that have joined the page, `joined` their number where the page of a closed finding ends.
    """
    summary = finding.summary or finding.condition.slug
    summary = in_past(summary) if finding.resolved_at_ns else summary
    lines = [
        f"{_state(finding, no_page)}{_count(finding, others)}: {summary}",
        f"Where: {where(finding.subject)}",
        f"Hit: {who_is_hit(shared_radius(finding, others)) or 'no host is known to be hit'}",
        f"Since: {format_time(finding.started_at_ns)}",
        *_path_lines((finding, *others)),
        *_also_lines(finding, others),
    ]
    if joined:
        faults = "1 more such fault" if joined == 1 else f"{joined} more such faults"
        lines.append(f"Also: its page had {faults}; each that is still open gets a page of its own")
    if finding.cause not in (Cause.CAUSE_UNSPECIFIED, Cause.UNKNOWN):
        lines.append(f"Cause: {in_words(finding.cause.label)}")
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


def _count(finding: Finding, others: Sequence[Finding]) -> str:
    """Return how many findings a page has, if it has several; they are at the device of its own finding."""
    device = finding.subject.a.device if finding.subject.a is not None else ""
    return f", {1 + len(others)} such faults at {device}" if others else ""


def _path_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield how many uplinks their switch has lost, as the newest of the findings at it states; nothing if none does.

    A finding that was retracted is no loss.
    """
    newest = max(findings, key=lambda one: one.revision)
    if newest.status is not Status.RETRACTED:
        yield from (f"Paths: {one.statement}" for one in newest.evidence if one.metric == UPLINKS)


def _also_lines(finding: Finding, others: Sequence[Finding]) -> Iterator[str]:
    """Yield a line for each finding that has joined the page, with those who are hit if they are others."""
    for other in others[:MAX_NAMES]:
        radius = other.blast_radius or BlastRadius()
        own = finding.blast_radius or BlastRadius()
        if radius.hosts == own.hosts:
            jobs = () if radius.jobs == own.jobs else radius.jobs
            radius = replace(radius, hosts=(), jobs=jobs, gpus=None, capacity_lost_ratio=None)
        yield "; ".join(filter(None, (f"Also: {other.summary or other.condition.slug}", who_is_hit(radius))))
    if len(others) > MAX_NAMES:
        yield f"Also: {len(others) - MAX_NAMES} more; see `railsight findings`"


def where(subject: Subject) -> str:
    """Return the place of a subject in words."""
    ends = [f"{end.device} {end.port}".rstrip() for end in _ends(subject)]
    place = [
        " to ".join(ends) or subject.id,
        "" if subject.rail is None else f"rail {subject.rail}",
        "" if subject.plane is None else f"plane {subject.plane}",
        "" if any(end.device == subject.pod for end in _ends(subject)) else subject.pod,
        subject.site and f"site {subject.site}",
        subject.location,
    ]
    return ", ".join(one for one in place if one)


def _ends(subject: Subject) -> list[Endpoint]:
    return [end for end in (subject.a, subject.z) if end is not None]


def shared_radius(finding: Finding, others: Sequence[Finding]) -> BlastRadius | None:
    """Return who is hit by the own finding of a page, with the capacity that the same hosts lose by all its findings.

    They are links of one device, so that their shares of its capacity add up.
    """
    own = finding.blast_radius
    if own is None or own.capacity_lost_ratio is None:
        return own
    radii = (one.blast_radius for one in others)
    more = sum(radius.capacity_lost_ratio or 0.0 for radius in radii if radius and radius.hosts == own.hosts)
    return replace(own, capacity_lost_ratio=min(1.0, own.capacity_lost_ratio + more))


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
            if name in step_names(step):
                own = step.removeprefix(f"`{name}`: ")
                return _MARKS.sub("", own[0].upper() + own[1:])
    return _MARKS.sub("", next(iter(found), ""))


def step_names(step: str) -> list[str]:
    """Return the causes or roles that a step of a runbook begins with: those before its colon."""
    return _NAME.findall(step.partition(":")[0]) if step.startswith("`") else []

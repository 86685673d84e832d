"""Puts events, revisions, child findings and decisions around one finding into one time line, in order."""

from collections.abc import Iterable, Iterator, Sequence

from streams.instrument.text import format_time
from streams.report.render import decision_reason, revision_moments, state_name, unchanged_line
from streams.store.queries.finding_queries import EventRow
from streams.wire.models import Finding, Remediation

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
        moments += [(row.at_ns, place, f"{row.kind}  {row.detail or row.code or ''}".rstrip()) for row in rows]
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

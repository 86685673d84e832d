"""Renders findings as text for people: one line, the whole finding, and its history."""

from collections.abc import Iterable, Iterator

from streams.instrument.time_format import format_duration, format_time
from streams.wire.models import Cause, Evidence, Finding, Remediation, Severity, Status


def finding_line(finding: Finding) -> str:
    """Return a finding on one line."""
    fields = [finding.status.name, finding.severity.name, finding.condition.slug, finding.subject.id]
    return f"{format_time(finding.observed_at_ns)}  {'  '.join(fields)}  {finding.summary}  [{finding.id[:12]}]"


def finding_report(
    finding: Finding, children: Iterable[Finding], remediations: Iterable[Remediation], revisions: int
) -> Iterator[str]:
    """Yield a finding with its evidence, the findings that it explains, and the decisions on it, line by line."""
    yield from _identity(finding, revisions)
    yield from _impact(finding)
    if (forecast := finding.forecast) is not None:
        range_95 = f" (95 %: {format_time(forecast.earliest_ns)} to {format_time(forecast.latest_ns)})"
        yield f"  forecast     at its limit {format_time(forecast.at_ns)}{range_95}"
    for item in finding.evidence:
        yield from _evidence(item)
    yield from (f"  explains     {child.condition.slug} {child.subject.id} [{child.id[:12]}]" for child in children)
    for remediation in remediations:
        yield f"  remediation  {remediation.action.name} {remediation.verdict.name}{_decision_reason(remediation)}"
        if remediation.repair_hint:
            yield f"  repair       {remediation.repair_hint}"
    if finding.runbook_url:
        yield f"  runbook      {finding.runbook_url}"
    if finding.dashboard_url:
        yield f"  dashboard    {finding.dashboard_url}"


def _identity(finding: Finding, revisions: int) -> Iterator[str]:
    yield f"{finding.summary or finding.condition.slug}"
    yield f"  id           {finding.id} (revision {revisions} of this episode{', final' if finding.final else ''})"
    yield f"  condition    {finding.condition.slug}, {finding.severity.name}, {finding.status.name}"
    yield f"  subject      {finding.subject.id}"
    yield f"  started      {format_time(finding.started_at_ns)}, detected {format_time(finding.detected_at_ns)}"
    if finding.resolved_at_ns is not None:
        duration = format_duration(finding.resolved_at_ns - finding.started_at_ns)
        yield f"  over         {format_time(finding.resolved_at_ns)}, lasted {duration}"
    if finding.cause:
        yield f"  cause        {finding.cause.label}"
    if finding.confidence is not None:
        yield f"  confidence   {finding.confidence:.2f}"
    if finding.parent_id:
        yield f"  explained by {finding.parent_id}"
    if finding.occurrences:
        yield f"  occurrences  {finding.occurrences} in the last 28 days"


def revision_lines(revisions: Iterable[Finding]) -> Iterator[str]:
    """Yield a line for each revision that changes something: its time, its status, and what it changed.

    Revisions that change nothing visible, such as the end of an evidence window that advanced, are counted.
    """
    previous: Finding | None = None
    unchanged = 0
    for finding in revisions:
        changes = [] if previous is None else [f"{name} {value}" for name, value in _changes(previous, finding)]
        if previous is not None and not changes and _state(finding) == _state(previous):
            previous, unchanged = finding, unchanged + 1
            continue
        text = "; ".join(changes) if previous is not None else finding.summary
        final = ", final" if finding.final else ""
        state = f"{finding.status.name:<9} {finding.severity.name}{final}"
        yield f"    {format_time(finding.observed_at_ns)}  {state}  {text}".rstrip()
        previous = finding
    if unchanged:
        yield f"    and {unchanged} revision{'s' if unchanged > 1 else ''} without a visible change"


def _state(finding: Finding) -> tuple[Status, Severity, bool]:
    """Return the visible state; UPDATED is OPEN with other evidence, whose changes are listed."""
    status = Status.OPEN if finding.status is Status.UPDATED else finding.status
    return status, finding.severity, finding.final


def _changes(before: Finding, after: Finding) -> Iterator[tuple[str, str]]:
    for name in ("summary", "severity", "cause", "parent_id", "confidence"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            text = new.label if isinstance(new, Cause) else getattr(new, "name", str(new))
            yield name.removesuffix("_id"), text or "none"
    if len(before.evidence) != len(after.evidence):
        yield "evidence", f"{len(before.evidence)} -> {len(after.evidence)}"


def _decision_reason(remediation: Remediation) -> str:
    """Return the guard that binds, with its numbers; else the reason."""
    if not remediation.constraint:
        return f": {remediation.reason}" if remediation.reason else ""
    numbers = _numbers(("observed", remediation.constraint_observed), ("limit", remediation.constraint_limit))
    reason = f"; {remediation.reason}" if remediation.reason else ""
    return f": {remediation.constraint}{numbers}{reason}"


def _impact(finding: Finding) -> Iterator[str]:
    if (coverage := finding.coverage) is not None and coverage.expected:
        missing = f" (not: {', '.join(coverage.missing)})" if coverage.missing else ""
        yield f"  seen by      {coverage.seen or 0} of {coverage.expected} sources{missing}"
    if (radius := finding.blast_radius) is not None:
        for name, names in (("hosts", radius.hosts), ("jobs", radius.jobs)):
            if names:
                yield f"  {name:<12} {', '.join(names)}"
        if radius.capacity_lost_ratio is not None:
            yield f"  capacity     {radius.capacity_lost_ratio:.1%} lost"


def _evidence(item: Evidence) -> Iterator[str]:
    numbers = _numbers(("observed", item.observed), ("expected", item.expected), ("peers", item.peers))
    yield f"  evidence     {item.statement}{numbers}"
    begin, end = item.window_start_ns, item.window_end_ns
    if begin is not None:
        yield f"               from {format_time(begin)}" + (
            "" if end is None else f" for {format_duration(end - begin)}"
        )


def _numbers(*named: tuple[str, float | None]) -> str:
    numbers = [f"{name} {_with_unit_prefix(value)}" for name, value in named if value is not None]
    return f" ({', '.join(numbers)})" if numbers else ""


def _with_unit_prefix(value: float) -> str:
    """Return a large value with an SI prefix, because 1.4e+11 is hard to read."""
    for letter, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if size <= abs(value) < 1e15:
            return f"{value / size:.4g}{letter}"
    return f"{value:g}"

"""How findings are written for people: times, durations, one line, and the whole of one."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from streams.wire.models import Cause, Evidence, Finding, Remediation


def at(ns: int | None) -> str:
    """A time of the day with its date, UTC."""
    return "-" if ns is None else f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d %H:%M:%S}Z"


def lasting(ns: int) -> str:
    """A duration in its two largest units."""
    seconds = max(0, round(ns / 1e9))
    for unit, size, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // part:02d}{smaller}"
    return f"{seconds}s"


def line(finding: Finding) -> str:
    """A finding on one line."""
    words = [finding.status.name, finding.severity.name, finding.condition.slug, finding.subject.id]
    return f"{at(finding.observed_at_ns)}  {'  '.join(words)}  {finding.summary}  [{finding.id[:12]}]"


def whole(
    finding: Finding, children: Iterable[Finding], remediations: Iterable[Remediation], revisions: int
) -> Iterator[str]:
    """A finding with its evidence, what it explains, and what was decided for it."""
    yield f"{finding.summary or finding.condition.slug}"
    yield f"  id           {finding.id} (revision {revisions} of this episode{', final' if finding.final else ''})"
    yield f"  condition    {finding.condition.slug}, {finding.severity.name}, {finding.status.name}"
    yield f"  subject      {finding.subject.id}"
    yield f"  started      {at(finding.started_at_ns)}, detected {at(finding.detected_at_ns)}"
    if finding.resolved_at_ns is not None:
        yield f"  over         {at(finding.resolved_at_ns)}, lasted {_lasted(finding)}"
    if finding.cause:
        yield f"  cause        {finding.cause.label}"
    if finding.confidence is not None:
        yield f"  confidence   {finding.confidence:.2f}"
    if finding.parent_id:
        yield f"  explained by {finding.parent_id}"
    if finding.occurrences:
        yield f"  occurrences  {finding.occurrences} in the last 28 days"
    yield from _reach(finding)
    if (forecast := finding.forecast) is not None:
        span = f" (95 %: {at(forecast.earliest_ns)} to {at(forecast.latest_ns)})"
        yield f"  forecast     at its limit {at(forecast.at_ns)}{span}"
    for item in finding.evidence:
        yield from _evidence(item)
    yield from (f"  explains     {child.condition.slug} {child.subject.id} [{child.id[:12]}]" for child in children)
    for remediation in remediations:
        yield f"  remediation  {remediation.action.name} {remediation.verdict.name}{_why(remediation)}"
        if remediation.repair_hint:
            yield f"  repair       {remediation.repair_hint}"
    if finding.runbook_url:
        yield f"  runbook      {finding.runbook_url}"
    if finding.dashboard_url:
        yield f"  dashboard    {finding.dashboard_url}"


def history(revisions: Iterable[Finding]) -> Iterator[str]:
    """A line for each revision, lowest first: when, what it says of the state, and what is new in it."""
    before: Finding | None = None
    for finding in revisions:
        new = [] if before is None else [f"{name} {after}" for name, after in _news(before, finding)]
        said = "; ".join(new) if before is not None else finding.summary
        final = ", final" if finding.final else ""
        state = f"{finding.status.name:<9} {finding.severity.name}{final}"
        yield f"    {at(finding.observed_at_ns)}  {state}  {said}".rstrip()
        before = finding


def _news(before: Finding, after: Finding) -> Iterator[tuple[str, str]]:
    for name in ("summary", "severity", "cause", "parent_id", "confidence"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            text = new.label if isinstance(new, Cause) else getattr(new, "name", str(new))
            yield name.removesuffix("_id"), text or "none"
    if len(before.evidence) != len(after.evidence):
        yield "evidence", f"{len(before.evidence)} -> {len(after.evidence)}"


def _why(remediation: Remediation) -> str:
    """The guard that binds, with its numbers; else the reason."""
    if not remediation.constraint:
        return f": {remediation.reason}" if remediation.reason else ""
    numbers = _numbers(("observed", remediation.constraint_observed), ("limit", remediation.constraint_limit))
    reason = f"; {remediation.reason}" if remediation.reason else ""
    return f": {remediation.constraint}{numbers}{reason}"


def _lasted(finding: Finding) -> str:
    assert finding.resolved_at_ns is not None
    return lasting(finding.resolved_at_ns - finding.started_at_ns)


def _reach(finding: Finding) -> Iterator[str]:
    if (seen := finding.coverage) is not None and seen.expected:
        missing = f" (not: {', '.join(seen.missing)})" if seen.missing else ""
        yield f"  seen by      {seen.seen or 0} of {seen.expected} sources{missing}"
    if (hit := finding.blast_radius) is not None:
        for name, names in (("hosts", hit.hosts), ("jobs", hit.jobs)):
            if names:
                yield f"  {name:<12} {', '.join(names)}"
        if hit.capacity_lost_ratio is not None:
            yield f"  capacity     {hit.capacity_lost_ratio:.1%} lost"


def _evidence(item: Evidence) -> Iterator[str]:
    said = _numbers(("observed", item.observed), ("expected", item.expected), ("peers", item.peers))
    yield f"  evidence     {item.statement}{said}"
    begin, end = item.window_start_ns, item.window_end_ns
    if begin is not None:
        yield f"               from {at(begin)}" + ("" if end is None else f" for {lasting(end - begin)}")


def _numbers(*named: tuple[str, float | None]) -> str:
    numbers = [f"{name} {_short(value)}" for name, value in named if value is not None]
    return f" ({', '.join(numbers)})" if numbers else ""


def _short(value: float) -> str:
    """Large ones with a letter: nobody reads 1.4e+11 at night."""
    for letter, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if size <= abs(value) < 1e15:
            return f"{value / size:.4g}{letter}"
    return f"{value:g}"

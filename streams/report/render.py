"""Renders findings and remediations as text for people: one line, the whole record, and its history."""

from collections.abc import Iterable, Iterator, Sequence

from streams.decide.life_cycle import NOT_BEGUN
from streams.instrument.text import format_duration, format_time, in_words
from streams.wire.models import Cause, Evidence, Finding, Remediation, RemediationState, Severity, Status, Verdict


def finding_line(finding: Finding) -> str:
    """Return a finding on one line."""
    fields = [finding.status.name, finding.severity.name, finding.condition.slug, finding.subject.id]
    return f"{format_time(finding.observed_at_ns)}  {'  '.join(fields)}  {finding.summary}  [{finding.id[:12]}]"


def finding_report(
    finding: Finding, children: Iterable[Finding], remediations: Iterable[Remediation], revisions: int
) -> Iterator[str]:
    """Yield a finding with its evidence, its child findings, and the decisions on it, line by line."""
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
    if finding.subject.location:
        yield f"  where        {finding.subject.location}"
    yield f"  started      {format_time(finding.started_at_ns)}, detected {format_time(finding.detected_at_ns)}"
    if finding.resolved_at_ns is not None:
        duration = format_duration(finding.resolved_at_ns - finding.started_at_ns)
        yield f"  over         {format_time(finding.resolved_at_ns)}, lasted {duration}"
    if finding.cause:
        yield f"  cause        {in_words(finding.cause.label)}"
    if finding.confidence is not None:
        yield f"  confidence   {finding.confidence:.2f}"
    if finding.parent_id:
        yield f"  explained by {finding.parent_id}"
    if finding.occurrences:
        yield f"  occurrences  {finding.occurrences} in the last 28 days"


def revision_lines(revisions: Iterable[Finding]) -> Iterator[str]:
    """Yield a line for each revision with a visible change: its time, its status, and the changes.

    Revisions without a visible change, such as an advanced end of an evidence window, are counted.
    """
    changes, unchanged = revision_moments(revisions)
    yield from (f"    {format_time(at_ns)}  {text}" for at_ns, text in changes)
    yield from unchanged_line(unchanged)


def unchanged_line(count: int) -> Iterator[str]:
    """Yield the number of revisions without a visible change, if there are any."""
    if count:
        yield f"    and {count} revision{'s' if count > 1 else ''} without a visible change"


def revision_moments(revisions: Iterable[Finding]) -> tuple[list[tuple[int, str]], int]:
    """Return the time and text of each revision with a visible change, and the number of the others."""
    previous: Finding | None = None
    moments: list[tuple[int, str]] = []
    unchanged = 0
    for finding in revisions:
        changes = [] if previous is None else [f"{name} {value}" for name, value in _changes(previous, finding)]
        if previous is not None and not changes and _state(finding) == _state(previous):
            previous, unchanged = finding, unchanged + 1
            continue
        text = "; ".join(changes) if previous is not None else finding.summary
        final = ", final" if finding.final else ""
        state = f"{finding.status.name:<9} {finding.severity.name}{final}"
        moments.append((finding.observed_at_ns, f"{state}  {text}".rstrip()))
        previous = finding
    return moments, unchanged


def _state(finding: Finding) -> tuple[Status, Severity, bool]:
    """Return the visible state; UPDATED counts as OPEN, because the changes of its evidence are listed."""
    status = Status.OPEN if finding.status is Status.UPDATED else finding.status
    return status, finding.severity, finding.final


def _changes(before: Finding, after: Finding) -> Iterator[tuple[str, str]]:
    for name in ("summary", "severity", "cause", "parent_id", "confidence"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            text = in_words(new.label) if isinstance(new, Cause) else getattr(new, "name", str(new))
            yield name.removesuffix("_id"), text or "none"
    if len(before.evidence) != len(after.evidence):
        yield "evidence", f"{len(before.evidence)} -> {len(after.evidence)}"


def _decision_reason(remediation: Remediation) -> str:
    """Return the binding guard with its numbers, else the reason."""
    if not remediation.constraint:
        return f": {remediation.reason}" if remediation.reason else ""
    return f": {_constraint(remediation)}{f'; {remediation.reason}' if remediation.reason else ''}"


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


WAYS: dict[str, str] = {
    "kill-switch": "`railsight kill-switch off`, once the reason for it is gone",
    "mode": '`[decide] mode = "act"`; every guard is evaluated again before an action is approved',
    "maintenance": "the end of the maintenance: `railsight maintenance list`, `railsight maintenance end SUBJECT`, or"
    " `maintenance_until` in the inventory",
    "exclusion": "the end of the exclusion: `railsight exclude list`, `railsight exclude remove SUBJECT`",
    "confidence": "evidence of both ends, or a person's approval; without any confidence nothing approves it",
    "cabling": "cabling that agrees with the inventory: correct the cable or the inventory",
    "one-sided evidence": "readings from the other end, or a person's approval",
    "contradictory evidence": "sources that agree about the named port, or a person's approval: look at the device",
    "freshness": "a reading of every end within the limit: check the collectors of the named device",
    "inventory": "an inventory that has the target: `railsight inventory apply DIR`",
    "surviving-capacity": "more links of the named group in service; it is evaluated again when one returns",
    "pod cap": "the restore of another isolated target of the pod",
    "fabric cap": "the restore of another isolated target",
    "hourly rate": "time: fewer actions in the last hour",
    "isolation budget": "time, or a repair: the target was isolated too often",
    "reset budget": "time: the NIC was reset too often; replace it",
    "cool-down": "time: the target was changed recently",
    "job": "a person's approval, or the end of the job",
    "rejected": "nothing: a person rejected it; the next attempt has an id of its own",
}
"""Constraint -> the condition under which the guard no longer binds."""

_WAITING = (RemediationState.WAITING, RemediationState.EXPIRED, RemediationState.ESCALATED)
_REPAIRABLE = (
    RemediationState.ACCEPTED, RemediationState.NO_ANSWER, RemediationState.DRAINED, RemediationState.ESCALATED,
)  # fmt: skip


def remediation_line(remediation: Remediation) -> str:
    """Return a remediation on one line, with its state and the binding guard."""
    fields = [
        format_time(remediation.decided_at_ns), f"{state_name(remediation):<14}", f"{remediation.action.name:<16}",
        remediation.target.id,
    ]  # fmt: skip
    return f"{remediation.id[:12]}  {'  '.join(fields)}  {decision_reason(remediation)}".rstrip()


def decision_reason(remediation: Remediation) -> str:
    """Return the binding guard with its numbers, else the reason."""
    return _constraint(remediation) or remediation.reason


def state_name(remediation: Remediation) -> str:
    """Return the state, or the verdict of a revision without one."""
    return remediation.state.name if remediation.state else remediation.verdict.name


def is_waiting(remediation: Remediation) -> bool:
    """Return whether a person may approve it."""
    return remediation.state in _WAITING or (not remediation.state and remediation.verdict is Verdict.NEEDS_APPROVAL)


def is_rejectable(remediation: Remediation) -> bool:
    """Return whether a person may reject it: until automation accepts it, and after it failed or waits for a person."""
    return is_waiting(remediation) or remediation.state in NOT_BEGUN


def is_repairable(remediation: Remediation) -> bool:
    """Return whether a person may report its target as repaired."""
    return remediation.state in _REPAIRABLE or (
        remediation.state is RemediationState.APPROVED and remediation.action.name.startswith("REPAIR")
    )


def explanation(revisions: Sequence[Remediation]) -> Iterator[str]:
    """Yield the last revision with the binding guard, the condition that would satisfy it, and the history."""
    last = revisions[-1]
    yield f"{last.action.name} {last.target.id}: {state_name(last)}"
    yield f"  id           {last.id}" + (f", attempt {last.attempt}" if last.attempt else "")
    yield f"  findings     {', '.join(last.finding_ids)}"
    yield f"  decided      {format_time(last.decided_at_ns)}, expires {format_time(last.expires_at_ns)}"
    if last.reason:
        yield f"  reason       {last.reason}"
    if last.constraint:
        yield f"  guard        {_constraint(last)}"
        yield f"  passes with  {WAYS.get(last.constraint, 'see the guard in docs/remediation.md')}"
    if is_waiting(last):
        yield f"  approve      railsight approve {last.id[:12]}"
    if last.surviving_capacity_ratio is not None:
        yield f"  capacity     {last.surviving_capacity_ratio:.1%} of the smallest group after the action"
    if last.approved_by:
        yield f"  approved by  {last.approved_by}"
    if last.repair_hint:
        yield f"  repair       {last.repair_hint}"
    if last.runbook_url:
        yield f"  runbook      {last.runbook_url}"
    yield "  revisions"
    previous = 0
    for revision in revisions:
        at_ns = revision.decided_at_ns or 0
        later = f"  +{format_duration(at_ns - previous)}" if previous else ""
        actor = f"  by {revision.actor}" if revision.actor else ""
        yield f"    {format_time(at_ns or None)}{later}  {state_name(revision)}{actor}  {revision.reason}".rstrip()
        previous = at_ns


def _constraint(remediation: Remediation) -> str:
    """Return the binding guard's name with its number and values."""
    if not remediation.constraint:
        return ""
    values = [f"guard {remediation.guard}"] if remediation.guard else []
    values += [
        f"{name} {value:g}"
        for name, value in (("observed", remediation.constraint_observed), ("limit", remediation.constraint_limit))
        if value is not None
    ]
    name = "the mode is shadow" if remediation.constraint == "mode" else remediation.constraint
    return name + (f" ({', '.join(values)})" if values else "")

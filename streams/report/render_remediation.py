"""Renders remediations for people: one line, or the guard that binds and the condition that would satisfy it."""

from collections.abc import Iterator, Sequence

from streams.instrument.time_format import format_duration, format_time
from streams.wire.models import Remediation, RemediationState, Verdict

WAYS: dict[str, str] = {
    "kill-switch": "`railsight kill-switch off`, once the reason for it is gone",
    "mode": '`[decide] mode = "act"`; every guard is evaluated again before an action is approved',
    "maintenance": "the end of the maintenance: `railsight maintenance list`, `railsight maintenance end SUBJECT`, or"
    " `maintenance_until` in the inventory",
    "exclusion": "the end of the exclusion: `railsight exclude list`, `railsight exclude remove SUBJECT`",
    "confidence": "evidence of both ends, or a person's approval; without any confidence nothing approves it",
    "cabling": "cabling that agrees with the inventory: correct the cable or the inventory",
    "one-sided evidence": "readings from the other end, or a person's approval",
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
    """Return a remediation on one line, with its state and the guard that binds."""
    fields = [
        format_time(remediation.decided_at_ns), f"{state_name(remediation):<14}", f"{remediation.action.name:<16}",
        remediation.target.id,
    ]  # fmt: skip
    return f"{remediation.id[:12]}  {'  '.join(fields)}  {decision_reason(remediation)}".rstrip()


def decision_reason(remediation: Remediation) -> str:
    """Return the guard that binds with its numbers, else the reason."""
    return _constraint(remediation) or remediation.reason


def state_name(remediation: Remediation) -> str:
    """Return the state, or the verdict of a revision without one."""
    return remediation.state.name if remediation.state else remediation.verdict.name


def is_waiting(remediation: Remediation) -> bool:
    """Return whether a person may approve it."""
    return remediation.state in _WAITING or (not remediation.state and remediation.verdict is Verdict.NEEDS_APPROVAL)


def is_rejectable(remediation: Remediation) -> bool:
    """Return whether a person may reject it: it waits, or is approved and not accepted yet."""
    return is_waiting(remediation) or remediation.state is RemediationState.APPROVED


def is_repairable(remediation: Remediation) -> bool:
    """Return whether a person may report its target as repaired."""
    return remediation.state in _REPAIRABLE or (
        remediation.state is RemediationState.APPROVED and remediation.action.name.startswith("REPAIR")
    )


def explanation(revisions: Sequence[Remediation]) -> Iterator[str]:
    """Yield the last revision with the guard that binds, the condition that would satisfy it, and the history."""
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
    """Return the guard that binds, with its number and values."""
    if not remediation.constraint:
        return ""
    number = f"{remediation.guard} " if remediation.guard else ""
    values = [
        f"{name} {value:g}"
        for name, value in (
            ("observed", remediation.constraint_observed),
            ("limit", remediation.constraint_limit),
        )
        if value is not None
    ]
    return f"{number}{remediation.constraint}" + (f" ({', '.join(values)})" if values else "")

"""Renders what happens to remediations, for a terminal of 80 columns and more."""

from collections.abc import Iterable

from lab.demo.acting import answer_command
from streams.wire.models import Action, Remediation, Verdict
from streams.wire.models import RemediationState as State

_FIRST = (State.WAITING, State.ESCALATED, State.DENIED)
"""These are at the top of the screen: a person can act on them, or wants to know why nothing happens."""


def headline(remediation: Remediation) -> str:
    """Return the id, the action and the target."""
    target = remediation.target
    ends = [f"{end.device}/{end.port}" for end in (target.a, target.z) if end is not None]
    return f"{remediation.id[:12]} {remediation.action.name} {' -- '.join(ends) or target.id}"


def outcome(remediation: Remediation) -> str:
    """Return the state, the guard that bound it with its number and values, and the reason."""
    parts = [part for part in (_guard(remediation), remediation.reason) if part]
    return f"{remediation.state.name}: {'; '.join(parts)}" if parts else remediation.state.name


def answer_lines(remediation: Remediation, bootstrap: str) -> tuple[str, ...]:
    """Return how a person answers a remediation that waits for it; empty for any other."""
    if remediation.state not in (State.WAITING, State.ESCALATED):
        return ()
    # After its last relapse the target is in service; any other escalated one is out of service, or may be.
    if remediation.state is State.WAITING or remediation.verdict is Verdict.NEEDS_APPROVAL:
        return "approve it in a second terminal:", answer_command("approve", remediation.id, bootstrap)
    return "report its repair in a second terminal:", answer_command("repaired", remediation.id, bootstrap)


def shown(remediations: Iterable[Remediation]) -> list[Remediation]:
    """Return the remediations of the screen: what waits or is denied first, then the newest; no observations."""
    acting = [one for one in remediations if one.action is not Action.OBSERVE and one.state is not State.CLOSED]
    closed = [one for one in remediations if one.action is not Action.OBSERVE and one.state is State.CLOSED]
    newest = sorted(acting, key=lambda one: -(one.decided_at_ns or 0))
    first = [one for state in _FIRST for one in newest if one.state is state]
    others = [one for one in newest if one.state not in _FIRST]
    return [*first, *others, *sorted(closed, key=lambda one: -(one.decided_at_ns or 0))]


def _guard(remediation: Remediation) -> str:
    if not remediation.constraint or remediation.state is State.CLOSED:
        return ""
    values = [
        f"{name} {value:g}"
        for name, value in (("observed", remediation.constraint_observed), ("limit", remediation.constraint_limit))
        if value is not None
    ]
    number = f"guard {remediation.guard} " if remediation.guard else ""
    return f"{number}{remediation.constraint}" + (f" ({', '.join(values)})" if values else "")

"""Writes repair steps on remediations: the next step with its counts, and the outcome of a step once it is known."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from streams.decide.guards import ISOLATES, TAKES_HOST_OUT
from streams.decide.life_cycle import Event
from streams.decide.repair_steps import RepairCounts, hint
from streams.decide.state import Remedy
from streams.wire.models import RemediationState as State
from streams.wire.models import RepairOutcome, RepairStep

_OUTCOMES = {
    (State.VERIFYING, Event.TIMEOUT): RepairOutcome.NOT_QUALIFIED,
    (State.VERIFYING, Event.EXHAUST): RepairOutcome.NOT_QUALIFIED,
    (State.PROBATION, Event.TIMEOUT): RepairOutcome.HELPED,
    (State.PROBATION, Event.RELAPSE): RepairOutcome.RELAPSED,
    (State.PROBATION, Event.LAST_RELAPSE): RepairOutcome.RELAPSED,
}
"""The transitions that reveal the outcome of a repair."""


NO_OUTCOME: Mapping[str, Any] = MappingProxyType({
    "repair_outcome": RepairOutcome.REPAIR_OUTCOME_UNSPECIFIED, "outcome_step": RepairStep.STEP_UNSPECIFIED,
})  # fmt: skip
"""The fields of a revision that reveals no outcome."""


def begin(counts: RepairCounts, remedy: Remedy, former: Remedy | None, part_of: Callable[[str], str]) -> None:
    """Set the step of a new proposal: the step of the previous attempt, or the step that helped most.

    `part_of` returns a target's part number, empty if it is unknown.
    """
    record = remedy.record
    if record.action not in ISOLATES or record.action in TAKES_HOST_OUT:
        return
    cause = remedy.finding.cause if remedy.finding is not None else record.cause
    part_number = part_of(record.target.id)
    step: RepairStep | None = None
    if former is not None:
        remedy.tried_steps = list(former.tried_steps)
        cause, step = former.record.cause or cause, former.record.repair_step
        part_number = former.record.part_number or part_number
    step = step or counts.choose(cause, part_number, remedy.tried_steps) or RepairStep.STEP_UNSPECIFIED
    remedy.record = replace(record, cause=cause, part_number=part_number)
    _apply(counts, remedy, step)


def next_step(counts: RepairCounts, remedy: Remedy) -> bool:
    """Change to the step after the present one, which did not help; return False if there is none."""
    record = remedy.record
    if not record.repair_step:
        return True
    if record.repair_step not in remedy.tried_steps:
        remedy.tried_steps.append(record.repair_step)
    step = counts.choose(record.cause, record.part_number, remedy.tried_steps)
    if step is not None:
        remedy.policy_hint = ""
        _apply(counts, remedy, step)
    return step is not None


def outcome_fields(counts: RepairCounts, remedy: Remedy, event: Event) -> dict[str, Any]:
    """Return the fields of the outcome that an event reveals, and count it; call it before the state changes."""
    if event is Event.REPAIRED:
        remedy.done_step = remedy.record.repair_step
    outcome = _OUTCOMES.get((remedy.state, event), RepairOutcome.REPAIR_OUTCOME_UNSPECIFIED)
    step = remedy.done_step if outcome else RepairStep.STEP_UNSPECIFIED
    fields: dict[str, Any] = {"repair_outcome": outcome, "outcome_step": step}
    counts.record(replace(remedy.record, **fields))
    return fields


def _apply(counts: RepairCounts, remedy: Remedy, step: RepairStep) -> None:
    record = remedy.record
    count = counts.count(record.cause, record.part_number, step)
    record = replace(record, repair_step=step, step_helped=count.helped, step_tried=count.tried)
    own, policy = hint(step, record.part_number, count), remedy.policy_hint
    text = f"{policy}; first: {own}" if policy and count.tried else policy or own
    remedy.record = replace(record, repair_hint=text)

"""Processes the answers of automation and of persons: acceptances, results, approvals, rejections and repairs.

Only an answer of the actor that accepted has an effect, and each answer counts once. A late result always counts,
whatever is closed meanwhile.
"""

from dataclasses import replace

from streams.decide import decisions, remedies, repairs
from streams.decide.core import Core
from streams.decide.guards import ISOLATES
from streams.decide.life_cycle import REPAIR_ACTIONS, Event, next_state
from streams.decide.state import PastOrder, Remedy
from streams.wire.models import Action, Control, ControlEffect, ControlKind, Outcome, Remediation, RemediationResult
from streams.wire.models import RemediationState as State

ANSWERS = (ControlKind.APPROVE, ControlKind.REJECT, ControlKind.REPAIRED, ControlKind.CLOSE, ControlKind.RETURNED)
"""Controls that answer one remediation."""

_OF_TARGETS = (ControlKind.REPAIRED, ControlKind.CLOSE, ControlKind.RETURNED)
"""Answers that may name the target instead of the remediation that has it out of service."""

_FINAL = (Outcome.DONE, Outcome.FAILED, Outcome.REJECTED)


def process_result(core: Core, result: RemediationResult) -> None:
    """Process one answer of automation."""
    state = core.state
    if not result.actor:
        return
    if (owner := core.owner_of(result.remediation_id)) is not None:
        if (past := owner.past_orders.get(result.remediation_id)) is not None:
            _on_late_order_result(core, owner, past, result)
        else:
            _on_order_result(core, owner, result)
        return
    remedy = state.remedies.get(result.remediation_id) or state.late.get(result.remediation_id)
    if remedy is None or not remedy.was_approved or remedy.record.action is Action.OBSERVE:
        return
    if result.outcome is Outcome.ACCEPTED:
        _on_acceptance(core, remedy, result)
    elif result.outcome is Outcome.REJECTED and not remedy.accepted_by:
        remedy.refusal = f"{result.actor} rejected it: {result.detail or 'no reason given'}"
    elif not _is_of_acceptor(result, remedy.accepted_by, remedy.record):
        return
    elif result.outcome is Outcome.EXTERNAL:
        if remedy.isolates and remedy.answered:
            decisions.end_external(core, remedy, f"changed by others: {result.detail or 'no detail'}", result.actor)
    elif result.outcome in _FINAL and not remedy.answered:
        _on_final_result(core, remedy, result)


def _is_of_acceptor(result: RemediationResult, accepted_by: str, record: Remediation | PastOrder) -> bool:
    """Return whether a result is of the actor that accepted, and of its instance, if the acceptance had one."""
    return result.actor == accepted_by and (not record.instance or result.instance == record.instance)


def _on_acceptance(core: Core, remedy: Remedy, result: RemediationResult) -> None:
    if remedy.accepted_by:
        return
    actor = result.actor
    if remedy.state is State.APPROVED:
        is_late = core.denial(remedy) is not None
    else:
        is_late = next_state(remedy.state, Event.ACCEPT_LATE) is not None
        if not is_late:
            return
    remedy.accepted_by, remedy.accepted_ns = actor, core.now_ns
    remedy.record = replace(remedy.record, instance=result.instance)
    if is_late:
        reason = "accepted although it must not be carried out any more"
        remedies.move(core, remedy, Event.ACCEPT_LATE, reason, actor)
    else:
        remedies.move(core, remedy, Event.ACCEPT, "accepted", actor)


def _on_final_result(core: Core, remedy: Remedy, result: RemediationResult) -> None:
    action, detail = remedy.record.action, f": {result.detail}" if result.detail else ""
    if result.outcome is not Outcome.DONE:
        event, reason = Event.FAIL, f"failed{detail}"
    elif action in REPAIR_ACTIONS:
        event, reason = Event.REPAIRED, f"repair done{detail}"
    else:
        event, reason = (Event.ISOLATED if action in ISOLATES else Event.DONE), f"done{detail}"
    if next_state(remedy.state, event) is None:
        return
    if remedy.state in (State.DENIED, State.FAILED, State.CLOSED):
        reason = f"carried out late: {reason}" if event is not Event.FAIL else reason
    remedy.answered, remedy.out_ns = True, core.now_ns
    if event is Event.FAIL:
        remedy.failures += 1
        remedy.is_relapse = False  # no answer shortens the cool-down of the next attempt
    core.state.is_changed = True
    remedies.move(core, remedy, event, reason, result.actor)


def _on_order_result(core: Core, remedy: Remedy, result: RemediationResult) -> None:
    """Process an answer to the open order of a remediation: a repair or a restore."""
    own = remedy.order
    assert own is not None
    if result.outcome is Outcome.ACCEPTED:
        if not own.accepted_by and repairs.is_order_allowed(core, remedy):
            own.accepted_by, own.issued_ns = result.actor, core.now_ns
            if own.record.action in REPAIR_ACTIONS:
                remedies.supersede_restores(core, remedy, by_repair=True)
            own.record = core.emit(
                replace(
                    own.record, state=State.ACCEPTED, reason="accepted", actor=result.actor, instance=result.instance
                )
            )  # fmt: skip
        return
    if result.outcome not in _FINAL or not _is_of_acceptor(result, own.accepted_by, own.record):
        return
    action, detail = own.record.action, f": {result.detail}" if result.detail else ""
    remedy.restarts += action is Action.REBOOT_HOST
    if result.outcome is not Outcome.DONE:
        is_repair = action in REPAIR_ACTIONS
        fail = remedies.fail_order if is_repair else repairs.fail_restore
        fail(core, remedy, f"failed{detail}", State.FAILED, result.actor)
        if is_repair:
            remedies.supersede_restores(core, remedy, by_repair=False)
        return
    if action in REPAIR_ACTIONS:  # its guards had passed when it was accepted
        remedy.may_carry = False
    remedies.close_order(core, remedy, f"done{detail}", State.CLOSED, result.actor, answered=True)
    _on_order_done(core, remedy, action, f"done{detail}", result.actor)


def _on_late_order_result(core: Core, remedy: Remedy, past: PastOrder, result: RemediationResult) -> None:
    """Process the result of an order that is not open any more: it changed the target in any state.

    After a repair that was accepted later, the target may be in service or not: it counts as out until the repair
    fails, or until it qualifies.
    """
    if result.outcome not in _FINAL or past.is_done or not _is_of_acceptor(result, past.accepted_by, past):
        return
    detail = f": {result.detail}" if result.detail else ""
    is_repair = past.action in REPAIR_ACTIONS
    past.is_done = result.outcome is Outcome.DONE and past.is_outdated and remedies.has_pending_repair(remedy)
    if not past.is_done:
        del remedy.past_orders[result.remediation_id], core.owners[result.remediation_id]
    if result.outcome is not Outcome.DONE:
        if is_repair:
            remedies.supersede_restores(core, remedy, by_repair=False)
    elif past.is_outdated:
        reason = f"restore done late{detail}; a repair was accepted after it, so that the target must qualify"
        record, is_open = replace(remedy.record, reason=reason, actor=result.actor), remedy.state is not State.CLOSED
        remedy.record = core.emit(record, is_open=is_open)
    elif is_repair or remedy.isolates:
        _on_order_done(core, remedy, past.action, f"done late{detail}", result.actor)


def _on_order_done(core: Core, remedy: Remedy, action: Action, reason: str, actor: str) -> None:
    is_repair = action in REPAIR_ACTIONS
    core.state.is_changed = True
    event = Event.REPAIRED if is_repair else Event.RESTORED
    remedies.move(core, remedy, event, f"{'repair' if is_repair else 'restore'} {reason}", actor)


def process_answer(core: Core, control: Control) -> None:
    """Process a person's answer to one remediation, and answer it: what it did, or why it had no effect."""
    is_taken, reason = _process_answer(core, control)
    core.answer(control, ControlEffect.TAKEN if is_taken else ControlEffect.REFUSED, reason)


def _process_answer(core: Core, control: Control) -> tuple[bool, str]:
    reason = control.reason or f"{control.kind.name.lower()} by {control.actor}"
    if control.until_ns is not None and control.until_ns <= core.now_ns:
        return False, "its end has passed"
    remedy = _remedy(core, control)
    if remedy is None:
        return False, f"no remediation {control.subject_id} is open"
    if control.id in remedy.handled:
        return False, "it has been processed before"
    if control.kind is ControlKind.REPAIRED and _is_before(control, remedy):
        return False, "it may be older than the remediation; name the remediation's id"
    remedy.handled.append(control.id)
    before = remedy.state
    if control.kind is ControlKind.REPAIRED:
        refused = _report_repair(core, remedy, f"repaired: {reason}", control.actor)
        if refused:
            remedy.handled.remove(control.id)
    elif control.kind is ControlKind.RETURNED:
        refused = _return(core, remedy, f"in service again: {reason}", control.actor)
    elif control.kind is ControlKind.CLOSE:
        refused = _close(core, remedy, f"closed: {reason}", control.actor)
    elif control.kind is ControlKind.APPROVE:
        refused = _approve(core, remedy, control, reason)
    else:
        refused = _reject(core, remedy, control, f"rejected: {reason}")
    return not refused, refused or _effect(remedy, control, before)


def lacks_finding(core: Core, control: Control) -> bool:
    """Return whether the finding of a control's remediation is unknown, after a loss of state."""
    remedy = core.state.remedies.get(control.subject_id)
    return remedy is not None and remedy.finding is None


def has_passed(core: Core, control: Control) -> bool:
    """Return whether an answer has no time or is not newer than the last revision of its remediation.

    After a loss of state all answers are read again, and which of them were processed or had no effect is unknown.
    A repair that names the target may belong to an earlier remediation.
    """
    if control.kind not in ANSWERS or (remedy := _remedy(core, control)) is None:
        return False
    return control.effective_ns <= remedy.since_ns or control.subject_id == remedy.target_id


def _effect(remedy: Remedy, control: Control, before: State) -> str:
    record = remedy.record
    if remedy.state is before and control.subject_id not in (remedy.id, remedy.target_id):
        return f"order {control.subject_id} of {record.action.name} {remedy.target_id}: {control.kind.name}"
    return f"{record.action.name} {remedy.target_id} is {record.state.name}: {record.reason}"


def _is_before(control: Control, remedy: Remedy) -> bool:
    """Return whether a repair report may be older than the remediation; a report without a time names its id."""
    at_ns = control.effective_ns
    return at_ns < remedy.since_ns if at_ns else control.subject_id == remedy.target_id


def _remedy(core: Core, control: Control) -> Remedy | None:
    identity = control.subject_id
    remedy = core.state.remedies.get(identity) or core.owner_of(identity)
    if remedy is None and control.kind in _OF_TARGETS:
        late = core.state.late
        left_out = (one for one in late.values() if one.isolates and identity in (one.id, one.target_id))
        remedy = core.holder(identity) or late.get(identity) or next(left_out, None)
    return remedy


def _report_repair(core: Core, remedy: Remedy, reason: str, actor: str) -> str:
    """Process the report that a target that is out of service was repaired."""
    if not remedy.isolates or remedy.state not in (State.DRAINED, State.ESCALATED):
        return f"the target is not out of service for a repair; the remediation is {remedy.state.name}"
    remedies.move(core, remedy, Event.REPAIRED, reason, actor)
    return ""


def _return(core: Core, remedy: Remedy, reason: str, actor: str) -> str:
    """Process the report that a target is in service again."""
    if not remedy.isolates or not remedies.move(core, remedy, Event.RETURNED, reason, actor):
        return f"the target is not out of service; the remediation is {remedy.state.name}"
    return ""


def _close(core: Core, remedy: Remedy, reason: str, actor: str) -> str:
    """End a remediation in any state; a target that is out of service counts as such until it is reported returned."""
    left_out = "left-out" if remedy.isolates and remedy.state is not State.APPROVED else remedy.record.constraint
    if not remedies.move(core, remedy, Event.CLOSE, reason, actor, constraint=left_out):
        return f"the remediation is {remedy.state.name}"
    _hold_rejection(core, remedy)
    return ""


def _reject(core: Core, remedy: Remedy, control: Control, reason: str) -> str:
    actor = control.actor
    if control.subject_id != remedy.id:
        return repairs.reject_order(core, remedy, reason, actor)
    if remedy.state is State.ESCALATED and (not remedy.is_out or not core.fabric.has(remedy.record.target)):
        remedies.move(core, remedy, Event.TAKE_OVER, reason, actor)
        return ""
    if remedy.rejected and remedy.state is State.DENIED:
        return "it has been rejected before"
    if remedy.state in (State.RESTORING, State.ESCALATED) or (
        not remedies.move(core, remedy, Event.REJECT, reason, actor, constraint="rejected")
    ):
        return f"automation has accepted it; the remediation is {remedy.state.name}, close it or report its return"
    remedy.rejected = True
    _hold_rejection(core, remedy)
    return ""


def _hold_rejection(core: Core, remedy: Remedy) -> None:
    """Retain the inputs of a decision that a person ended, so that none of its findings is decided by them again."""
    cases = [case for one in remedy.record.finding_ids if (case := core.state.cases.get(one)) is not None]
    present = [(remedy.record.action, case.finding.severity, case.finding.cause) for case in cases]
    decided = [case.decided for case in cases if case.decided is not None]
    for case in cases:
        case.rejected += [one for one in dict.fromkeys((*decided, *present)) if one not in case.rejected]


def _approve(core: Core, remedy: Remedy, control: Control, reason: str) -> str:
    """Evaluate the guards again with the approval of a person."""
    actor = control.actor
    if not actor:
        return "an approval needs an actor"
    if control.subject_id != remedy.id:
        return repairs.approve_order(core, remedy, reason, actor)
    if remedy.finding is None:
        return "its finding is unknown"
    other = core.holder(remedy.target_id)
    if other is not None and remedy.record.action in ISOLATES:
        denial = f"{other.record.action.name} {other.id} has the target out of service"
        if remedy.state is State.WAITING:
            remedies.move(core, remedy, Event.DENY, denial, actor, constraint="other-remediation")
        return denial
    if remedy.state is State.WAITING:
        remedy.record = replace(remedy.record, approved_by=actor)
        decisions.decide(core, remedy, actor=actor)
        record = remedy.record
        return "" if record.state is State.APPROVED else f"denied by {record.constraint}"
    if remedy.state is State.EXPIRED or (remedy.state is State.ESCALATED and not remedy.is_out):
        remedy.failures = 0
        attempt = decisions.next_attempt(core, remedy, remedy.finding, remedy.record.action, remedy.policy_hint)
        attempt.record = replace(attempt.record, approved_by=actor)
        decisions.decide(core, attempt, actor=actor)
        return "" if attempt.state is State.APPROVED else f"{attempt.id} is denied by {attempt.record.constraint}"
    return f"it does not wait for an approval; the remediation is {remedy.state.name}"

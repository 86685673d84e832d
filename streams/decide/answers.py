"""Processes the answers of automation and of persons: acceptances, results, approvals, rejections and repairs."""

from collections.abc import Callable
from dataclasses import replace

from streams.decide.decisions import Decisions
from streams.decide.guards import ISOLATES
from streams.decide.life_cycle import REPAIR_ACTIONS, Event, next_state
from streams.decide.params import DecideParams
from streams.decide.remedies import Remedies
from streams.decide.repairs import HostRestarts
from streams.decide.state import DecideState, Remedy
from streams.wire.models import Action, Control, ControlKind, Outcome, RemediationResult, Subject
from streams.wire.models import RemediationState as State

_FINAL = (Outcome.DONE, Outcome.FAILED, Outcome.REJECTED)


class AutomationAnswers:
    """Applies the answers of automation; only an answer of the actor that accepted has an effect.

    `is_allowed(remedy)` evaluates the guards again before an acceptance is confirmed; `is_order_allowed(remedy)`
    evaluates the guards of its order.
    """

    def __init__(
        self, params: DecideParams, state: DecideState, remedies: Remedies, is_allowed: Callable[[Remedy], bool],
        is_order_allowed: Callable[[Remedy], bool],
    ) -> None:  # fmt: skip
        self._params, self._state, self._remedies = params, state, remedies
        self._is_allowed, self._is_order_allowed = is_allowed, is_order_allowed

    def process(self, result: RemediationResult) -> None:
        """Process one answer."""
        state = self._state
        if not result.actor:
            return
        if (owner := self._remedies.orders.owner_of(result.remediation_id)) is not None:
            self._on_order_result(owner, result)
            return
        remedy = state.remedies.get(result.remediation_id) or state.late.get(result.remediation_id)
        if remedy is None or not remedy.was_approved or remedy.record.action is Action.OBSERVE:
            return
        if result.outcome is Outcome.ACCEPTED:
            self._on_acceptance(remedy, result.actor)
        elif result.outcome is Outcome.REJECTED and not remedy.accepted_by:
            remedy.refusal = f"{result.actor} rejected it: {result.detail or 'no reason given'}"
        elif result.outcome in _FINAL and result.actor == remedy.accepted_by and not remedy.answered:
            self._on_final_result(remedy, result)

    def _on_acceptance(self, remedy: Remedy, actor: str) -> None:
        if remedy.accepted_by:
            return
        if remedy.state is State.APPROVED:
            is_late = not self._is_allowed(remedy)
        else:
            is_late = next_state(remedy.state, Event.ACCEPT_LATE) is not None
            if not is_late:
                return
        remedy.accepted_by, remedy.accepted_ns = actor, self._state.watermark_ns
        self._open_again(remedy)
        if is_late:
            self._remedies.move(
                remedy, Event.ACCEPT_LATE, "accepted although it must not be carried out any more", actor
            )
        else:
            self._remedies.move(remedy, Event.ACCEPT, "accepted", actor)

    def _on_final_result(self, remedy: Remedy, result: RemediationResult) -> None:
        action, detail = remedy.record.action, f": {result.detail}" if result.detail else ""
        if result.outcome is not Outcome.DONE:
            event, reason = Event.FAIL, f"failed{detail}"
        elif action in REPAIR_ACTIONS:
            event, reason = Event.REPAIRED, f"repair done{detail}"
        else:
            event, reason = (Event.ISOLATED if action in ISOLATES else Event.DONE), f"done{detail}"
        if next_state(remedy.state, event) is None:
            return
        if remedy.state in (State.FAILED, State.CLOSED):
            if not remedy.released:
                return
            reason = f"carried out late: {reason}"
        remedy.answered = True
        self._open_again(remedy)
        if event is Event.FAIL:
            remedy.failures += 1
            remedy.is_relapse = False  # no answer shortens the cool-down of the next attempt
        self._state.is_changed = True
        self._remedies.move(remedy, event, reason, result.actor)

    def _open_again(self, remedy: Remedy) -> None:
        """Return a closed remediation to the open ones, because automation acts or acted on it."""
        if remedy.state is State.CLOSED:
            self._state.late.pop(remedy.id, None)
            self._state.remedies[remedy.id] = remedy

    def _on_order_result(self, remedy: Remedy, result: RemediationResult) -> None:
        """Process an answer to the order of a remediation: a repair or a restore."""
        order, orders = remedy.order, self._remedies.orders
        assert order is not None
        if result.outcome is Outcome.ACCEPTED:
            if not order.accepted_by and self._is_order_allowed(remedy):
                orders.accept(remedy, result.actor)
            return
        if result.outcome not in _FINAL or result.actor != order.accepted_by:
            return
        action, detail = order.record.action, f": {result.detail}" if result.detail else ""
        is_repair = action in REPAIR_ACTIONS
        remedy.restarts += action is Action.REBOOT_HOST
        if result.outcome is not Outcome.DONE:
            orders.close(remedy, f"failed{detail}", State.FAILED, result.actor)
            if is_repair:
                self._remedies.hints.next_step(remedy)
            else:
                remedy.retry_ns = self._state.watermark_ns + round(self._params.restore_retry_s * 1e9)
            return
        orders.close(remedy, f"done{detail}", State.CLOSED, result.actor)
        if is_repair:
            self._remedies.move(remedy, Event.REPAIRED, f"repair done{detail}", result.actor)
        else:
            remedy.restoring = False
            self._state.is_changed = True
            self._remedies.move(remedy, Event.RESTORED, f"restore done{detail}", result.actor)


ANSWERS = (
    ControlKind.APPROVE, ControlKind.REJECT, ControlKind.REPAIRED, ControlKind.CLOSE, ControlKind.RETURNED,
)  # fmt: skip


class PersonAnswers:
    """Applies each answer once; an expired answer has no effect.

    `has(target)` returns whether the inventory has a target; others are left to the person who rejects them.
    """

    def __init__(
        self, state: DecideState, remedies: Remedies, decisions: Decisions, restarts: HostRestarts,
        has: Callable[[Subject], bool],
    ) -> None:  # fmt: skip
        self._state, self._remedies, self._decisions, self._restarts = state, remedies, decisions, restarts
        self._has = has

    def process(self, control: Control) -> None:
        """Process a person's answer to one remediation; a repetition has no effect."""
        state, reason = self._state, control.reason or f"{control.kind.name.lower()} by {control.actor}"
        if control.until_ns is not None and control.until_ns <= state.watermark_ns:
            return
        remedy = self._remedy(control)
        if remedy is None or control.id in remedy.handled or not control.subject_id:
            return
        if control.kind is ControlKind.REPAIRED and self._is_before(control, remedy):
            return
        remedy.handled.append(control.id)
        if control.kind is ControlKind.REPAIRED:
            if not self._report_repair(remedy, f"repaired: {reason}", control.actor):
                remedy.handled.remove(control.id)
        elif control.kind not in (ControlKind.APPROVE, ControlKind.REJECT):
            remedy.handled.remove(control.id)
        elif remedy.id != control.subject_id:
            is_approval = control.kind is ControlKind.APPROVE
            self._restarts.answer(remedy, reason, control.actor, is_approval=is_approval)
        elif control.kind is ControlKind.APPROVE:
            self._approve(remedy, control.actor)
        else:
            self._reject(remedy, f"rejected: {reason}", control.actor)

    def has_passed(self, control: Control) -> bool:
        """Return whether an answer has no time or is not newer than the last revision of its remediation.

        After a loss of state all answers are read again, and which of them were processed or had no effect is unknown.
        A repair that names the target may belong to an earlier remediation, or carry the time of a fast clock.
        """
        if control.kind not in ANSWERS or (remedy := self._remedy(control)) is None:
            return False
        return control.effective_ns <= remedy.since_ns or control.subject_id == remedy.target_id

    @staticmethod
    def _is_before(control: Control, remedy: Remedy) -> bool:
        """Return whether a repair report may be older than the remediation; a report without a time names its id."""
        if not control.effective_ns:
            return control.subject_id == remedy.target_id
        return control.effective_ns < remedy.since_ns

    def _remedy(self, control: Control) -> Remedy | None:
        remedy = self._state.remedies.get(control.subject_id) or self._remedies.orders.owner_of(control.subject_id)
        if remedy is None and control.kind is ControlKind.REPAIRED:
            return self._remedies.isolating(control.subject_id)
        return remedy

    def _report_repair(self, remedy: Remedy, reason: str, actor: str) -> bool:
        """Process the report that a target that is out of service was repaired."""
        if not remedy.isolates or remedy.state not in (State.DRAINED, State.ESCALATED):
            return False
        remedy.restoring = False
        return self._remedies.move(remedy, Event.REPAIRED, reason, actor)

    def _reject(self, remedy: Remedy, reason: str, actor: str) -> None:
        if remedy.state is State.WAITING:
            remedy.rejected = True
            self._remedies.move(remedy, Event.DENY, reason, actor, constraint="rejected")
        elif remedy.state is State.APPROVED:
            remedy.rejected = True
            self._remedies.move(remedy, Event.REVOKE, reason, actor, constraint="rejected")
        elif remedy.state is State.ESCALATED and (not remedy.is_out or not self._has(remedy.record.target)):
            self._remedies.move(remedy, Event.TAKE_OVER, reason, actor)

    def _approve(self, remedy: Remedy, actor: str) -> None:
        """Evaluate the guards again with the approval of a person."""
        if remedy.finding is None or not actor:
            return
        other = self._remedies.isolating(remedy.target_id)
        if other is not None and remedy.record.action in ISOLATES:
            if remedy.state is State.WAITING:
                reason = f"{other.record.action.name} {other.id} has the target out of service"
                self._remedies.move(remedy, Event.DENY, reason, actor, constraint="other-remediation")
            return
        if remedy.state is State.WAITING:
            remedy.record = replace(remedy.record, approved_by=actor)
            self._decisions.decide(remedy, actor=actor)
        elif remedy.state is State.EXPIRED or (remedy.state is State.ESCALATED and not remedy.is_out):
            remedy.failures = 0
            attempt = self._decisions.next_attempt(remedy, remedy.finding, remedy.record.action, remedy.policy_hint)
            attempt.record = replace(attempt.record, approved_by=actor)
            self._decisions.decide(attempt, actor=actor)

"""Processes the answers of persons to remediations: approvals, rejections and reported repairs."""

from collections.abc import Callable
from dataclasses import replace

from streams.decide.decisions import Decisions
from streams.decide.guards import ISOLATES
from streams.decide.host_restarts import HostRestarts
from streams.decide.life_cycle import Event
from streams.decide.remedies import Remedies
from streams.decide.state import DecideState, Remedy
from streams.wire.models import Control, ControlKind, Subject
from streams.wire.models import RemediationState as State

ANSWERS = (ControlKind.APPROVE, ControlKind.REJECT, ControlKind.REPAIRED)


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
        return control.at_ns is None or control.at_ns <= remedy.since_ns or control.subject_id == remedy.target_id

    @staticmethod
    def _is_before(control: Control, remedy: Remedy) -> bool:
        """Return whether a repair report may be older than the remediation; a report without a time names its id."""
        if control.at_ns is None:
            return control.subject_id == remedy.target_id
        return control.at_ns < remedy.since_ns

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

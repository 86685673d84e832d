"""Moves remediations and their orders through their life cycle: transitions, isolations and timeouts.

An order is the repair, restart or restore of a target that is out of service: a remediation with its own id, so that
automation acts on an id at most once. `decisions.py`, `repairs.py` and the guards make the decisions.
"""

import heapq
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from streams.decide.guards import ISOLATES, TAKES_HOST_OUT, Decision
from streams.decide.life_cycle import TIMEOUTS, Event, next_state
from streams.decide.params import DecideParams
from streams.decide.publisher import Publisher
from streams.decide.repair_hints import NO_OUTCOME, RepairHints
from streams.decide.repair_steps import repair_fields
from streams.decide.state import ACTOR, DecideState, Order, Remedy, TargetKind
from streams.fabric.ids import remediation_id
from streams.wire.models import Action, Finding, Remediation, Subject, Verdict
from streams.wire.models import RemediationState as State


class Orders:
    """The open orders; a remediation has at most one."""

    def __init__(
        self,
        params: DecideParams,
        state: DecideState,
        publisher: Publisher,
        reversal_of: Callable[[Action], Action | None],
    ) -> None:
        self._params, self._state, self._publisher, self._reversal_of = params, state, publisher, reversal_of
        self._owners: dict[str, str] = {}
        """Order id -> id of the remediation that it belongs to."""

    def owner_of(self, order_id: str) -> Remedy | None:
        """Return the remediation that issued an order."""
        identity = self._owners.get(order_id)
        return self._state.remedies[identity] if identity else None

    def add(self, remedy: Remedy) -> None:
        """Add the order of a remediation."""
        if remedy.order is not None:
            self._owners[remedy.order.record.id] = remedy.id

    def accept(self, remedy: Remedy, actor: str) -> None:
        """Confirm the acceptance of an approved order; only the first acceptance counts."""
        order = remedy.order
        if order is None or order.accepted_by:
            return
        order.accepted_by, order.issued_ns = actor, self._state.watermark_ns
        order.record = self._publisher.emit(replace(order.record, state=State.ACCEPTED, reason="accepted", actor=actor))

    def close(self, remedy: Remedy, reason: str, last: State = State.CLOSED, actor: str = ACTOR) -> None:
        """Publish the last state of an order, and remove it from the open remediations."""
        order = remedy.order
        if order is None:
            return
        remedy.order = None
        del self._owners[order.record.id]
        verdict = order.record.verdict if order.accepted_by else Verdict.REVOKED
        closed = replace(order.record, state=last, reason=reason, actor=actor, verdict=verdict)
        self._publisher.emit(closed, is_open=False)

    def order_repair(self, remedy: Remedy, is_stopped: bool) -> None:
        """Order the repair of a drained link; a kill switch revokes an order that no automation accepted."""
        order = remedy.order
        if remedy.record.action in TAKES_HOST_OUT:
            return  # `HostRestarts` orders and revokes its repair
        if is_stopped:
            if order is not None and not order.accepted_by:
                self.close(remedy, "kill switch", State.DENIED)
        elif order is None:
            self._issue(remedy, Action.REPAIR_LINK, self._params.repair_s, f"repairs the target of {remedy.id}")

    def close_unanswered(self, remedy: Remedy, now_ns: int) -> None:
        """Close an accepted order that received no result in time."""
        order = remedy.order
        if order is not None and order.accepted_by and now_ns >= order.issued_ns + round(self._params.answer_s * 1e9):
            self.close(remedy, "no answer", State.NO_ANSWER)

    def order_restore(self, remedy: Remedy, now_ns: int) -> None:
        """Order the restore of a qualifying target until it succeeds; a kill switch never stops a restore."""
        if remedy.order is not None:
            self.extend(remedy, now_ns)
        elif now_ns >= remedy.retry_ns:
            is_host = remedy.record.action in TAKES_HOST_OUT
            action = self._reversal_of(remedy.record.action) or (
                Action.UNCORDON_HOST if is_host else Action.RESTORE_LINK
            )
            self._issue(remedy, action, self._params.expires_s, f"repaired and qualified; reverses {remedy.id}")

    def order_restart(self, remedy: Remedy, decision: Decision, reason: str) -> None:
        """Order the restart of a cordoned host; it waits if a guard asks for approval; a denied restart is no order."""
        if decision.verdict is Verdict.APPROVED:
            self._issue(remedy, Action.REBOOT_HOST, self._params.expires_s, reason)
            return
        is_denied = decision.verdict is Verdict.DENIED
        order = replace(
            self._order(remedy, Action.REBOOT_HOST, reason), verdict=decision.verdict,
            state=State.DENIED if is_denied else State.WAITING, guard=decision.guard, constraint=decision.constraint,
            constraint_limit=decision.limit, constraint_observed=decision.observed,
        )  # fmt: skip
        if is_denied:
            self._publisher.emit(order, is_open=False)
        else:
            self._add(remedy, order)

    def approve(self, remedy: Remedy, reason: str, actor: str = ACTOR, approved_by: str = "") -> None:
        """Approve a waiting order."""
        order, now = remedy.order, self._state.watermark_ns
        assert order is not None
        order.issued_ns = now
        order.record = self._publisher.emit(replace(
            order.record, state=State.APPROVED, verdict=Verdict.APPROVED, reason=reason, actor=actor,
            approved_by=approved_by, expires_at_ns=now + round(self._params.expires_s * 1e9), guard=0, constraint="",
            constraint_limit=None, constraint_observed=None,
        ))  # fmt: skip

    def extend(self, remedy: Remedy, now_ns: int) -> None:
        """Publish an order that expired without an acceptance again, with a later expiry."""
        order = remedy.order
        if order is not None and not order.accepted_by and now_ns >= (order.record.expires_at_ns or 0):
            order.issued_ns = now_ns
            expires_ns = now_ns + round(self._params.expires_s * 1e9)
            order.record = self._publisher.emit(replace(order.record, expires_at_ns=expires_ns))

    def _issue(self, remedy: Remedy, action: Action, expires_s: float, reason: str) -> None:
        expires_ns = self._state.watermark_ns + round(expires_s * 1e9)
        self._add(remedy, replace(self._order(remedy, action, reason), expires_at_ns=expires_ns))

    def _order(self, remedy: Remedy, action: Action, reason: str) -> Remediation:
        """Return a new order, unpublished and without an expiry."""
        record = remedy.record
        attempt = self._publisher.next_attempt(record.finding_ids[0], action)
        return Remediation(
            remediation_id(record.finding_ids[0], action.name, attempt), 0, record.finding_ids, action,
            Verdict.APPROVED, record.target, reason, runbook_url=record.runbook_url, state=State.APPROVED,
            attempt=attempt, actor=ACTOR, **(repair_fields(record) if action is Action.REPAIR_LINK else {}),
        )  # fmt: skip

    def _add(self, remedy: Remedy, order: Remediation) -> None:
        remedy.order = Order(self._publisher.emit(order), self._state.watermark_ns)
        self.add(remedy)


_RELEASES = frozenset((Event.REVOKE, Event.FAIL, Event.HAND_OVER, Event.RESTORED, Event.TAKE_OVER))
"""Events after which the target counts as in service."""

_OUT = (State.DRAINED, State.VERIFYING)
"""States that prove that the action was carried out."""

_LATE_NS = 86_400_000_000_000
"""A late answer to a closed remediation is recognised for a day."""


class Remedies:
    """All remediations that are not closed, with their deadlines."""

    def __init__(
        self, params: DecideParams, state: DecideState, publisher: Publisher, orders: Orders, hints: RepairHints
    ) -> None:
        self._params, self._state, self._publisher, self.orders, self.hints = params, state, publisher, orders, hints
        self._deadlines: list[tuple[int, str]] = []
        self._ids: dict[State, dict[str, None]] = {}
        self._isolated: dict[str, str] = {}
        """Target id -> the remediation that isolates it."""
        self._recovered: dict[str, str] = {}
        """Finding id -> the remediation that was recovered without it."""
        for remedy in state.remedies.values():
            self._index(remedy)

    def add(self, remedy: Remedy) -> None:
        """Add a remediation that another module created."""
        self._state.remedies[remedy.id] = remedy
        self._index(remedy)

    def in_state(self, *states: State) -> list[Remedy]:
        """Return the remediations in these states, in the order in which they entered them."""
        found = [self._state.remedies[identity] for state in states for identity in self._ids.get(state, ())]
        return sorted(found, key=lambda remedy: (remedy.since_ns, remedy.id))

    def isolating(self, target_id: str) -> Remedy | None:
        """Return the remediation that has taken a target out of service or is about to."""
        identity = self._isolated.get(target_id)
        return self._state.remedies[identity] if identity else None

    def other_holder(self, remedy: Remedy) -> Remedy | None:
        """Return another remediation that has the same target out of service.

        There is one if automation accepted a revoked attempt late, and also the next attempt.
        """
        same = (one for one in self._state.remedies.values() if one.isolates and one.target_id == remedy.target_id)
        return next((one for one in same if one is not remedy), None)

    def on_probation(self, target_id: str) -> Remedy | None:
        """Return the remediation of a target on probation."""
        return next((remedy for remedy in self.in_state(State.PROBATION) if remedy.target_id == target_id), None)

    def waiting_for_person(self, target_id: str) -> Remedy | None:
        """Return the remediation of a target that waits for a person after its last relapse."""
        escalated = self.in_state(State.ESCALATED)
        return next((one for one in escalated if one.target_id == target_id and one.waits_for_person), None)

    def of_finding(self, finding_id: str) -> str:
        """Return the id of the recovered remediation of a finding; empty if there is none."""
        return self._recovered.get(finding_id, "")

    def propose(
        self, finding: Finding, target: Subject, action: Action, hint: str, penalty: float, former: Remedy | None = None
    ) -> Remedy:
        """Return a new proposal, unpublished; the next attempt after `former`, if given."""
        findings = former.record.finding_ids if former else ()
        findings = findings if finding.id in findings else (*findings, finding.id)
        attempt = self._publisher.next_attempt(findings[0], action)
        record = Remediation(
            remediation_id(findings[0], action.name, attempt), 0, findings, action, Verdict.VERDICT_UNSPECIFIED,
            target, repair_hint=hint, runbook_url=finding.runbook_url, state=State.PROPOSED, attempt=attempt,
            actor=ACTOR, penalty=penalty,
        )  # fmt: skip
        remedy = Remedy(record, finding, self._state.watermark_ns, policy_hint=hint)
        if former is not None:
            remedy.relapses, remedy.failures = former.relapses, former.failures
            remedy.is_relapse, remedy.restarts = former.is_relapse, former.restarts
        self.hints.begin(remedy, former)
        self.add(remedy)
        return remedy

    def decide(self, remedy: Remedy, decision: Decision, reason: str, actor: str = ACTOR) -> None:
        """Publish the guards' decision on a proposal, or on a remediation that waits for approval."""
        event = {
            Verdict.APPROVED: Event.APPROVE, Verdict.NEEDS_APPROVAL: Event.ASK, Verdict.SHADOW: Event.SHADOW,
        }.get(decision.verdict, Event.DENY)  # fmt: skip
        self.move(
            remedy, event, f"{reason}; {decision.group}" if decision.group else reason, actor,
            verdict=decision.verdict, constraint=decision.constraint, constraint_limit=decision.limit,
            constraint_observed=decision.observed, surviving_capacity_ratio=decision.surviving, guard=decision.guard,
        )  # fmt: skip

    def move(self, remedy: Remedy, event: Event, reason: str, actor: str = ACTOR, **changes: Any) -> bool:
        """Apply an event and publish the transition; returns False if it has no effect in this state."""
        before = remedy.state
        after = next_state(before, event)
        if after is None:
            return False
        now = self._state.watermark_ns
        remedy.since_ns = now
        changes = {"verdict": _verdict(remedy, event), **self.hints.outcome_fields(remedy, event), **changes}
        remedy.was_approved = remedy.was_approved or after is State.APPROVED
        remedy.unanswered = after is State.NO_ANSWER or (remedy.unanswered and after is State.ESCALATED)
        if after in (State.APPROVED, State.SHADOW):
            changes["expires_at_ns"] = now + round(self._params.expires_s * 1e9)
        self._unindex(remedy)
        if event in _RELEASES or (before is State.APPROVED and after in (State.EXPIRED, State.CLOSED)):
            self._release(remedy)
        elif after is State.APPROVED or event is Event.ACCEPT_LATE or (after in _OUT and not remedy.isolates):
            self._isolate(remedy)
        if after in (State.CLOSED, State.VERIFYING):
            self.orders.close(remedy, reason)
        remedy.record = replace(remedy.record, state=after, reason=reason, actor=actor, **changes)
        self._publish(remedy)
        return True

    def join(self, remedy: Remedy, finding: Finding) -> None:
        """Add a finding to the remediation that already isolates its target."""
        if finding.id not in remedy.record.finding_ids:
            reason = f"also for {finding.detector}: {finding.summary}"
            ids = (*remedy.record.finding_ids, finding.id)
            remedy.record = replace(remedy.record, finding_ids=ids, reason=reason, actor=ACTOR, **NO_OUTCOME)
            self._publisher.emit(remedy.record)

    def apply_timeouts(self, now_ns: int) -> None:
        """Apply the timeouts up to a time."""
        while self._deadlines and self._deadlines[0][0] <= now_ns:
            _, identity = heapq.heappop(self._deadlines)
            remedy = self._state.remedies.get(identity)
            if remedy is not None and self._deadline_ns(remedy) <= now_ns:
                self._time_out(remedy)
        for identity, late in list(self._state.late.items()):
            if late.since_ns + _LATE_NS > now_ns:
                break
            del self._state.late[identity]

    def _time_out(self, remedy: Remedy) -> None:
        limit_s = getattr(self._params, self._limit(remedy))
        reason, before = f"no change within {limit_s:g} s in {remedy.state.name}", remedy.state
        if before is State.APPROVED and remedy.refusal:
            reason = f"{reason}; {remedy.refusal}"
        event = Event.TIMEOUT
        if before is State.VERIFYING:
            reason = f"the target did not qualify within {limit_s:g} s after the repair"
            if not self.hints.next_step(remedy):
                event, reason = Event.EXHAUST, f"{reason}; no other step is known"
            elif remedy.record.repair_step:
                reason = f"{reason}; next: {remedy.record.repair_hint}"
        if before is State.APPROVED and remedy.record.action is Action.OBSERVE:
            event, reason = Event.WITHDRAW, "observed"
        self.move(remedy, event, reason)

    def _isolate(self, remedy: Remedy) -> None:
        action, target, now = remedy.record.action, remedy.target_id, self._state.watermark_ns
        isolations = self._state.isolations
        if action is Action.RESET_NIC:
            isolations.reset(target, now)
        if action in ISOLATES:
            isolations.isolate(target, kind_of(action), remedy.pod, now)
            remedy.isolates = True
            self._state.is_changed = True
            if (watched := self.on_probation(target)) is not None:
                self.move(watched, Event.HAND_OVER, f"{action.name} {remedy.id} takes the target out of service")

    def _release(self, remedy: Remedy) -> None:
        if not remedy.isolates:
            return
        remedy.isolates, target_id = False, remedy.target_id
        other = self.other_holder(remedy)
        if other is None:
            self._state.isolations.restored(target_id, self._state.watermark_ns)
        else:
            self._isolated[target_id] = other.id
        self._state.is_changed = True

    def _publish(self, remedy: Remedy) -> None:
        """Publish the revision of a transition, and remove a closed remediation."""
        is_closed = remedy.state is State.CLOSED
        remedy.record = self._publisher.emit(remedy.record, is_open=not is_closed)
        if not is_closed:
            self._index(remedy)
            return
        del self._state.remedies[remedy.id]
        may_begin = remedy.was_approved and not remedy.accepted_by and remedy.record.action is not Action.OBSERVE
        if may_begin or remedy.released:
            self._state.late[remedy.id] = remedy

    def _limit(self, remedy: Remedy) -> str:
        if remedy.state is State.ACCEPTED and remedy.record.action is Action.REPAIR_LINK:
            return "repair_s"
        return TIMEOUTS[remedy.state]

    def _deadline_ns(self, remedy: Remedy) -> int:
        limit_s: float = getattr(self._params, self._limit(remedy))
        return remedy.since_ns + round(limit_s * 1e9)

    def _index(self, remedy: Remedy) -> None:
        self._ids.setdefault(remedy.state, {})[remedy.id] = None
        heapq.heappush(self._deadlines, (self._deadline_ns(remedy), remedy.id))
        self.orders.add(remedy)
        if remedy.isolates:
            self._isolated.setdefault(remedy.target_id, remedy.id)
        if remedy.finding is None:
            self._recovered.update(dict.fromkeys(remedy.record.finding_ids, remedy.id))

    def _unindex(self, remedy: Remedy) -> None:
        self._ids.get(remedy.state, {}).pop(remedy.id, None)
        if self._isolated.get(remedy.target_id) == remedy.id:
            del self._isolated[remedy.target_id]


def kind_of(action: Action) -> TargetKind:
    """Return the kind of the targets of an action."""
    return TargetKind.HOST if action in TAKES_HOST_OUT else TargetKind.LINK


def _verdict(remedy: Remedy, event: Event) -> Verdict:
    """Return the verdict of a transition that the guards did not decide."""
    verdict, before = remedy.record.verdict, remedy.state
    if event in (Event.REVOKE, Event.ACCEPT_LATE) or (
        event in (Event.WITHDRAW, Event.CHANGE) and before in (State.APPROVED, State.SHADOW, State.WAITING)
    ):
        return Verdict.REVOKED
    if event is Event.TIMEOUT and before in (State.APPROVED, State.WAITING):
        return Verdict.REVOKED
    if event is Event.DENY or (event is Event.TIMEOUT and before is State.PROPOSED):
        return Verdict.DENIED
    return Verdict.NEEDS_APPROVAL if event is Event.LAST_RELAPSE else verdict

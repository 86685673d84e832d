"""Moves remediations through their life cycle: publishes each transition, counts isolations, and issues orders.

Decides nothing: `stage.py` and the guards do. An order is a repair or a restore of a target that is out of service; it
is a remediation with an id of its own, so that automation acts on an id at most once. A restore is issued only for a
target that qualified after a reported repair, and is retried until it is done.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from streams.decide.guards import ISOLATES, TAKES_HOST_OUT, Decision
from streams.decide.isolations import TargetKind
from streams.decide.life_cycle import REPAIR_ACTIONS, TIMEOUTS, Event, next_state
from streams.decide.params import DecideParams
from streams.decide.state import DecideState, Order, Remedy
from streams.fabric.ids import remediation_id
from streams.wire.models import Action, Finding, Outcome, Remediation, RemediationResult, Subject, Verdict
from streams.wire.models import RemediationState as State
from streams.wire.stage import Output
from streams.wire.topics import REMEDIATIONS, REMEDIATIONS_OPEN

ACTOR = "decide"

HINTS = (
    "clean and reseat both ends",
    "replace the transceiver",
    "replace the cable",
    "replace the port or its line card",
)
"""The repair steps of a link, in the order in which CorrOpt tries them."""

_RELEASES = frozenset((Event.REVOKE, Event.FAIL, Event.RESTORED))
"""Events after which the target counts as in service."""

_OUT = (State.APPROVED, State.ACCEPTED, State.NO_ANSWER, State.DRAINED, State.VERIFYING, State.RESTORING)
"""States in which a target counts as out of service; also ESCALATED, if it was out of service before."""

_ORDERS = (Action.RESTORE_LINK, Action.UNCORDON_HOST)
"""Actions that are always orders; REPAIR_LINK may also be the first action."""

_LATE_NS = 86_400_000_000_000
"""A late acceptance of a closed remediation is recognised for a day."""

_FINAL = (Outcome.DONE, Outcome.FAILED, Outcome.REJECTED)


class Remedies:
    """All remediations that are not closed, with their deadlines."""

    def __init__(
        self,
        params: DecideParams,
        state: DecideState,
        revisions: Iterator[int],
        reversal_of: Callable[[Action], Action | None],
    ) -> None:
        self._params, self._state, self._revisions = params, state, revisions
        self._reversal_of = reversal_of
        self.outputs: list[Output] = []
        self._deadlines: list[tuple[int, str]] = []
        self._ids: dict[State, dict[str, None]] = {}
        self._orders: dict[str, str] = {}
        """Order id -> the remediation that it belongs to."""
        self._isolated: dict[str, str] = {}
        """Target id -> the remediation that isolates it."""
        self._recovered: dict[str, str] = {}
        """Finding id -> the remediation that was recovered without it."""
        for remedy in state.remedies.values():
            self._index(remedy)

    def in_state(self, *states: State) -> list[Remedy]:
        """Return the remediations in these states, in the order in which they entered them."""
        found = [self._state.remedies[identity] for state in states for identity in self._ids.get(state, ())]
        return sorted(found, key=lambda remedy: (remedy.since_ns, remedy.id))

    def isolating(self, target_id: str) -> Remedy | None:
        """Return the remediation that has taken a target out of service, or is about to."""
        identity = self._isolated.get(target_id)
        return self._state.remedies[identity] if identity else None

    def on_probation(self, target_id: str) -> Remedy | None:
        """Return the remediation whose restored target is watched."""
        return next((remedy for remedy in self.in_state(State.PROBATION) if remedy.target_id == target_id), None)

    def of_order(self, order_id: str) -> Remedy | None:
        """Return the remediation that issued an order."""
        identity = self._orders.get(order_id)
        return self._state.remedies[identity] if identity else None

    def recover(self, history: Iterable[Remediation]) -> None:
        """Fold in the own published revisions after the state was lost, oldest first.

        Restores what is out of service, the history that budgets and cool-downs count, and the numbers of attempts. An
        order that was open is adopted with the remediation that it belongs to. The findings are read again.
        """
        records: dict[str, Remediation] = {}
        holders: dict[str, str] = {}
        isolations = self._state.isolations
        for record in history:
            attempts = self._state.attempts.setdefault(record.finding_ids[0] if record.finding_ids else "", {})
            attempts[record.action.name] = max(record.attempt, attempts.get(record.action.name, 0))
            if record.id in records and record.revision <= records[record.id].revision:
                continue
            records[record.id] = record
            at_ns, target = record.decided_at_ns or 0, record.target
            if record.action is Action.RESET_NIC and record.state is State.APPROVED:
                isolations.reset(target.id, at_ns)
            if record.action not in ISOLATES:
                continue
            if record.state in _OUT:
                if holders.setdefault(target.id, record.id) == record.id:
                    isolations.isolate(target.id, _kind(record.action), target.pod, at_ns)
            elif record.state is not State.ESCALATED and holders.get(target.id) == record.id:
                del holders[target.id]
                isolations.restored(target.id, at_ns)
        orders: list[Remediation] = []
        for record in records.values():
            holder = holders.get(record.target.id)
            is_order = record.action in _ORDERS or (record.state in _OUT and holder not in (None, record.id))
            if is_order:
                orders.append(record)
            elif record.state is not State.CLOSED:
                self._adopt(record, isolates=holder == record.id)
        for order in orders:
            self._adopt_order(order)

    def _adopt(self, record: Remediation, *, isolates: bool) -> None:
        remedy = Remedy(
            record, None, record.decided_at_ns or 0,
            accepted_by=record.actor if record.state in (State.ACCEPTED, State.NO_ANSWER) else "",
            was_approved=record.state in _OUT, isolates=isolates, pod=record.target.pod,
            restoring=record.state is State.RESTORING,
            hint=HINTS.index(record.repair_hint) if record.repair_hint in HINTS else 0,
        )  # fmt: skip
        self._state.remedies[record.id] = remedy
        self._index(remedy)

    def _adopt_order(self, record: Remediation) -> None:
        remedy = self.isolating(record.target.id)
        if remedy is None or record.state not in (State.APPROVED, State.ACCEPTED):
            return
        is_repair = record.action is Action.REPAIR_LINK
        if is_repair != (remedy.state is State.DRAINED) or (not is_repair and remedy.state is State.VERIFYING):
            return
        remedy.restoring = remedy.restoring or not is_repair
        accepted_by = record.actor if record.state is State.ACCEPTED else ""
        remedy.order = Order(record, record.decided_at_ns or 0, accepted_by)
        self._orders[record.id] = remedy.id

    def of_finding(self, finding_id: str) -> str:
        """Return the id of the recovered remediation of a finding; empty if there is none."""
        return self._recovered.get(finding_id, "")

    def propose(
        self, finding: Finding, target: Subject, action: Action, hint: str, penalty: float, former: Remedy | None = None
    ) -> Remedy:
        """Return a new proposal, the next attempt after `former` where there is one; nothing is published yet."""
        findings = former.record.finding_ids if former else ()
        findings = findings if finding.id in findings else (*findings, finding.id)
        attempt = self._next_attempt(findings[0], action)
        record = Remediation(
            remediation_id(findings[0], action.name, attempt), 0, findings, action, Verdict.VERDICT_UNSPECIFIED,
            target, repair_hint=hint, runbook_url=finding.runbook_url, state=State.PROPOSED, attempt=attempt,
            actor=ACTOR, penalty=penalty,
        )  # fmt: skip
        remedy = Remedy(record, finding, self._state.watermark_ns)
        if former is not None:
            remedy.relapses, remedy.failures, remedy.hint = former.relapses, former.failures, former.hint
            remedy.is_relapse = former.is_relapse
        self._state.remedies[remedy.id] = remedy
        self._index(remedy)
        return remedy

    def decide(self, remedy: Remedy, decision: Decision, reason: str, actor: str = ACTOR) -> None:
        """Publish the decision of the guards on a proposal, or on one that waits for approval."""
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
        changes = {"verdict": _verdict(remedy, event), **changes}
        remedy.was_approved = remedy.was_approved or after is State.APPROVED
        if after in (State.APPROVED, State.SHADOW):
            changes["expires_at_ns"] = now + round(self._params.expires_s * 1e9)
        self._unindex(remedy)
        if event in _RELEASES or (before is State.APPROVED and after in (State.EXPIRED, State.CLOSED)):
            self._release(remedy)
        elif after is State.APPROVED or event is Event.ACCEPT_LATE:
            self._isolate(remedy)
        if after in (State.CLOSED, State.VERIFYING):
            self._close_order(remedy, reason)
        remedy.record = replace(remedy.record, state=after, reason=reason, actor=actor, **changes)
        self._publish(remedy)
        return True

    def join(self, remedy: Remedy, finding: Finding) -> None:
        """Add a finding to the remediation that isolates its target already."""
        if finding.id not in remedy.record.finding_ids:
            reason = f"also for {finding.detector}: {finding.summary}"
            ids = (*remedy.record.finding_ids, finding.id)
            remedy.record = replace(remedy.record, finding_ids=ids, reason=reason, actor=ACTOR)
            self._emit(remedy.record)

    def on_result(self, result: RemediationResult, is_allowed: Callable[[Remedy], bool]) -> None:
        """Process an answer of automation: an acceptance, or the final result of the actor that accepted.

        `is_allowed(remedy)` evaluates the guards again before an acceptance is confirmed.
        """
        state = self._state
        if not result.actor:
            return
        if (owner := self._orders.get(result.remediation_id)) is not None:
            self._on_order_result(state.remedies[owner], result)
            return
        remedy = state.remedies.get(result.remediation_id) or state.late.get(result.remediation_id)
        if remedy is None or not remedy.was_approved or remedy.record.action is Action.OBSERVE:
            return
        if result.outcome is Outcome.ACCEPTED:
            self._on_acceptance(remedy, result.actor, is_allowed)
        elif result.outcome in _FINAL and result.actor == remedy.accepted_by and not remedy.answered:
            self._on_final_result(remedy, result)

    def _on_acceptance(self, remedy: Remedy, actor: str, is_allowed: Callable[[Remedy], bool]) -> None:
        if remedy.accepted_by:
            return
        if remedy.state is State.APPROVED:
            is_late = not is_allowed(remedy)
        else:
            is_late = next_state(remedy.state, Event.ACCEPT_LATE) is not None
            if not is_late:
                return
        remedy.accepted_by = actor
        if remedy.state is State.CLOSED:
            self._state.late.pop(remedy.id, None)
            self._state.remedies[remedy.id] = remedy
        if is_late:
            self.move(remedy, Event.ACCEPT_LATE, "accepted although it must not be carried out any more", actor)
        else:
            self.move(remedy, Event.ACCEPT, "accepted", actor)

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
        remedy.answered = True
        if event is Event.FAIL:
            remedy.failures += 1
        self._state.is_changed = True
        self.move(remedy, event, reason, result.actor)

    def _on_order_result(self, remedy: Remedy, result: RemediationResult) -> None:
        order = remedy.order
        assert order is not None
        if result.outcome is Outcome.ACCEPTED:
            if not order.accepted_by:
                order.accepted_by, order.issued_ns = result.actor, self._state.watermark_ns
                order.record = self._emit(
                    replace(order.record, state=State.ACCEPTED, reason="accepted", actor=result.actor)
                )
            return
        if result.outcome not in _FINAL or result.actor != order.accepted_by:
            return
        is_repair, detail = order.record.action is Action.REPAIR_LINK, f": {result.detail}" if result.detail else ""
        if result.outcome is not Outcome.DONE:
            self._close_order(remedy, f"failed{detail}", State.FAILED, result.actor)
            if is_repair:
                remedy.hint = min(remedy.hint + 1, len(HINTS) - 1)
            else:
                remedy.retry_ns = self._state.watermark_ns + round(self._params.restore_retry_s * 1e9)
            return
        self._close_order(remedy, f"done{detail}", State.CLOSED, result.actor)
        if is_repair:
            self.move(remedy, Event.REPAIRED, f"repair done{detail}", result.actor)
        else:
            remedy.restoring = False
            self._state.is_changed = True
            self.move(remedy, Event.RESTORED, f"restore done{detail}", result.actor)

    def report_repair(self, remedy: Remedy, reason: str, actor: str) -> bool:
        """Process the report of a person that a target that is out of service was repaired."""
        if not remedy.isolates or remedy.state not in (State.DRAINED, State.ESCALATED):
            return False
        remedy.restoring = False
        return self.move(remedy, Event.REPAIRED, reason, actor)

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

    def issue_orders(self, now_ns: int, is_stopped: bool) -> None:
        """Issue the repairs and restores that are due; a kill switch never stops a restore."""
        for remedy in self.in_state(State.DRAINED):
            self._order_repair(remedy, is_stopped)
        for remedy in self.in_state(State.RESTORING, State.ESCALATED):
            if remedy.restoring:
                self._order_restore(remedy, now_ns)

    def _time_out(self, remedy: Remedy) -> None:
        limit_s = getattr(self._params, self._limit(remedy))
        reason, before = f"no change within {limit_s:g} s in {remedy.state.name}", remedy.state
        event = Event.TIMEOUT
        if before is State.VERIFYING:
            remedy.hint += 1
            if remedy.hint >= len(HINTS):
                remedy.hint, event = len(HINTS) - 1, Event.EXHAUST
            reason = f"the target did not qualify within {limit_s:g} s; next: {HINTS[remedy.hint]}"
        if before is State.APPROVED and remedy.record.action is Action.OBSERVE:
            event, reason = Event.WITHDRAW, "observed"
        hint = {"repair_hint": HINTS[remedy.hint]} if before is State.VERIFYING else {}
        self.move(remedy, event, reason, **hint)

    def _order_repair(self, remedy: Remedy, is_stopped: bool) -> None:
        """Order the repair of a drained link; a kill switch revokes an order that no automation accepted."""
        order = remedy.order
        if is_stopped:
            if order is not None and not order.accepted_by:
                self._close_order(remedy, "kill switch", State.DENIED)
        elif order is None and remedy.record.action not in TAKES_HOST_OUT:
            self._issue(remedy, Action.REPAIR_LINK, self._params.repair_s, f"repairs the target of {remedy.id}")

    def _order_restore(self, remedy: Remedy, now_ns: int) -> None:
        """Order the restore of a target that qualified, until it is done."""
        order = remedy.order
        if order is not None and order.accepted_by and now_ns >= order.issued_ns + round(self._params.answer_s * 1e9):
            self._close_order(remedy, "no answer", State.NO_ANSWER)
            order = None
        if order is not None:
            if not order.accepted_by and now_ns >= (order.record.expires_at_ns or 0):
                order.issued_ns = now_ns
                order.record = self._emit(
                    replace(order.record, expires_at_ns=now_ns + round(self._params.expires_s * 1e9))
                )
        elif now_ns >= remedy.retry_ns:
            is_host = remedy.record.action in TAKES_HOST_OUT
            action = self._reversal_of(remedy.record.action) or (
                Action.UNCORDON_HOST if is_host else Action.RESTORE_LINK
            )
            self._issue(remedy, action, self._params.expires_s, f"repaired and qualified; reverses {remedy.id}")

    def _issue(self, remedy: Remedy, action: Action, expires_s: float, reason: str) -> None:
        record, now = remedy.record, self._state.watermark_ns
        attempt = self._next_attempt(record.finding_ids[0], action)
        order = Remediation(
            remediation_id(record.finding_ids[0], action.name, attempt), 0, record.finding_ids, action,
            Verdict.APPROVED, record.target, reason, expires_at_ns=now + round(expires_s * 1e9),
            repair_hint=HINTS[remedy.hint] if action is Action.REPAIR_LINK else "", runbook_url=record.runbook_url,
            state=State.APPROVED, attempt=attempt, actor=ACTOR,
        )  # fmt: skip
        remedy.order = Order(self._emit(order), now)
        self._orders[order.id] = remedy.id

    def _close_order(self, remedy: Remedy, reason: str, last: State = State.CLOSED, actor: str = ACTOR) -> None:
        """Publish the last state of an order, and remove it from the open remediations."""
        order = remedy.order
        if order is None:
            return
        remedy.order = None
        del self._orders[order.record.id]
        verdict = order.record.verdict if order.accepted_by else Verdict.REVOKED
        closed = replace(order.record, state=last, reason=reason, actor=actor, verdict=verdict)
        self._emit(closed, is_open=False)

    def _isolate(self, remedy: Remedy) -> None:
        action, target, now = remedy.record.action, remedy.target_id, self._state.watermark_ns
        isolations = self._state.isolations
        if action is Action.RESET_NIC:
            isolations.reset(target, now)
        if action in ISOLATES:
            isolations.isolate(target, _kind(action), remedy.pod, now)
            remedy.isolates = True
            self._state.is_changed = True

    def _release(self, remedy: Remedy) -> None:
        if remedy.isolates:
            remedy.isolates = False
            self._state.isolations.restored(remedy.target_id, self._state.watermark_ns)
            self._state.is_changed = True

    def _next_attempt(self, finding_id: str, action: Action) -> int:
        attempts = self._state.attempts.setdefault(finding_id, {})
        attempts[action.name] = attempts.get(action.name, 0) + 1
        return attempts[action.name]

    def _publish(self, remedy: Remedy) -> None:
        """Publish the revision of a transition, and remove a remediation that it closed."""
        is_closed = remedy.state is State.CLOSED
        remedy.record = self._emit(remedy.record, is_open=not is_closed)
        if not is_closed:
            self._index(remedy)
            return
        del self._state.remedies[remedy.id]
        if remedy.was_approved and not remedy.accepted_by and remedy.record.action is not Action.OBSERVE:
            self._state.late[remedy.id] = remedy

    def _emit(self, record: Remediation, *, is_open: bool = True) -> Remediation:
        record = replace(record, revision=next(self._revisions), decided_at_ns=self._state.watermark_ns)
        self.outputs.append(Output(REMEDIATIONS, record))
        self.outputs.append(Output(REMEDIATIONS_OPEN, record if is_open else None, key=record.id))
        return record

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
        if remedy.order is not None:
            self._orders[remedy.order.record.id] = remedy.id
        if remedy.isolates:
            self._isolated[remedy.target_id] = remedy.id
        if remedy.finding is None:
            self._recovered.update(dict.fromkeys(remedy.record.finding_ids, remedy.id))

    def _unindex(self, remedy: Remedy) -> None:
        self._ids.get(remedy.state, {}).pop(remedy.id, None)
        if self._isolated.get(remedy.target_id) == remedy.id:
            del self._isolated[remedy.target_id]


def _kind(action: Action) -> TargetKind:
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

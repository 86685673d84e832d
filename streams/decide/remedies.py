"""Moves remediations and their orders through their life cycle: transitions, isolations, timeouts and attempts.

An order is the repair, restart or restore of a target that is out of service: a remediation with its own id, so that
automation acts on an id at most once. `decisions.py`, `repairs.py` and the guards make the decisions.
"""

import heapq
from dataclasses import replace
from typing import Any

from streams.decide import repair_hints
from streams.decide.core import Core
from streams.decide.guards import ISOLATES, TAKES_HOST_OUT, Decision
from streams.decide.life_cycle import REPAIR_ACTIONS, TIMEOUTS, Event, next_state
from streams.decide.repair_steps import repair_fields
from streams.decide.state import ACTOR, Order, PastOrder, Remedy, TargetKind
from streams.fabric.ids import remediation_id
from streams.wire.models import Action, Finding, Remediation, Subject, Verdict
from streams.wire.models import RemediationState as State

_BACK = frozenset((Event.RESTORED, Event.RETURNED, Event.OVERRIDDEN, Event.TAKE_OVER))
"""Events that prove or report that the target is in service."""

_RELEASES = _BACK | {Event.REVOKE, Event.FAIL, Event.HAND_OVER}
"""Events after which the target counts as in service."""

_OUT = (State.DRAINED, State.VERIFYING)
"""States that prove that the action was carried out."""

_ENDS_ORDER = (State.CLOSED, State.VERIFYING, State.PROBATION)

_LATE_NS = 86_400_000_000_000
"""A late answer to a closed remediation is recognised for a day."""

_LONGEST_PAUSE_S = 86_400.0


def add(core: Core, remedy: Remedy) -> None:
    """Add a remediation that another module created."""
    core.state.remedies[remedy.id] = remedy
    index(core, remedy)


def index(core: Core, remedy: Remedy) -> None:
    """Add an open remediation to the indexes."""
    core.by_state.setdefault(remedy.state, {})[remedy.id] = None
    heapq.heappush(core.deadlines, (_deadline_ns(core, remedy), remedy.id))
    index_orders(core, remedy)
    if remedy.isolates:
        core.holders.setdefault(remedy.target_id, remedy.id)
    if remedy.finding is None:
        core.recovered.update(dict.fromkeys(remedy.record.finding_ids, remedy.id))


def index_orders(core: Core, remedy: Remedy) -> None:
    """Add the orders of a remediation to the indexes."""
    if remedy.order is not None:
        core.owners[remedy.order.record.id] = remedy.id
    core.owners.update(dict.fromkeys(remedy.past_orders, remedy.id))


def propose(
    core: Core, finding: Finding, target: Subject, action: Action, hint: str, penalty: float,
    former: Remedy | None = None,
) -> Remedy:  # fmt: skip
    """Return a new proposal, unpublished; the next attempt after `former`, if given."""
    findings = former.record.finding_ids if former else ()
    findings = findings if finding.id in findings else (*findings, finding.id)
    attempt = core.next_attempt(findings[0], action)
    record = Remediation(
        remediation_id(findings[0], action.name, attempt), 0, findings, action, Verdict.VERDICT_UNSPECIFIED,
        target, repair_hint=hint, runbook_url=finding.runbook_url, state=State.PROPOSED, attempt=attempt,
        actor=ACTOR, penalty=penalty,
    )  # fmt: skip
    remedy = Remedy(record, finding, core.now_ns, policy_hint=hint)
    if former is not None:
        remedy.relapses, remedy.failures = former.relapses, former.failures
        remedy.is_relapse, remedy.restarts = former.is_relapse, former.restarts
    repair_hints.begin(core.state.repairs, remedy, former, core.fabric.part_number)
    add(core, remedy)
    return remedy


def decide(core: Core, remedy: Remedy, decision: Decision, reason: str, actor: str = ACTOR) -> None:
    """Publish the guards' decision on a proposal, or on a remediation that waits for approval."""
    event = {
        Verdict.APPROVED: Event.APPROVE, Verdict.NEEDS_APPROVAL: Event.ASK, Verdict.SHADOW: Event.SHADOW,
    }.get(decision.verdict, Event.DENY)  # fmt: skip
    move(
        core, remedy, event, f"{reason}; {decision.group}" if decision.group else reason, actor,
        verdict=decision.verdict, constraint=decision.constraint, constraint_limit=decision.limit,
        constraint_observed=decision.observed, surviving_capacity_ratio=decision.surviving, guard=decision.guard,
    )  # fmt: skip


def move(core: Core, remedy: Remedy, event: Event, reason: str, actor: str = ACTOR, **changes: Any) -> bool:
    """Apply an event and publish the transition; returns False if it has no effect in this state."""
    before, state = remedy.state, core.state
    after = next_state(before, event)
    if after is None:
        return False
    if before is State.CLOSED:  # automation acts or acted on it
        state.late.pop(remedy.id, None)
        state.remedies[remedy.id] = remedy
        changes.setdefault("constraint", "")
    remedy.since_ns = core.now_ns
    outcome = repair_hints.outcome_fields(state.repairs, remedy, event)
    changes = {"verdict": _verdict(remedy, event), **outcome, **changes}
    remedy.was_approved = remedy.was_approved or after is State.APPROVED
    remedy.unanswered = after is State.NO_ANSWER or (remedy.unanswered and after is State.ESCALATED)
    remedy.restoring = remedy.restoring and after in (State.RESTORING, State.ESCALATED)
    if event in (Event.REPAIRED, Event.RESTORED):
        remedy.order_failures = 0
    if event is Event.REPAIRED:
        remedy.repaired_ns = core.now_ns
    if after in (State.APPROVED, State.SHADOW):
        changes["expires_at_ns"] = core.now_ns + round(core.params.expires_s * 1e9)
    _change_isolation(core, remedy, event, after)
    if after in _ENDS_ORDER or event is Event.OVERRIDDEN:
        remedy.restoring = False
        close_order(core, remedy, reason)
    remedy.record = replace(remedy.record, state=after, reason=reason, actor=actor, **changes)
    remedy.record = core.emit(remedy.record, is_open=after is not State.CLOSED)
    if after is State.CLOSED:
        _close(core, remedy, before)
    else:
        index(core, remedy)
    return True


def _change_isolation(core: Core, remedy: Remedy, event: Event, after: State) -> None:
    """Take the target out of service, or return it, as a transition implies."""
    before = remedy.state
    core.by_state.get(before, {}).pop(remedy.id, None)
    if core.holders.get(remedy.target_id) == remedy.id:
        del core.holders[remedy.target_id]
    if event in _RELEASES or (before is State.APPROVED and after in (State.EXPIRED, State.CLOSED, State.DENIED)):
        _release(core, remedy, event)
    elif after is State.APPROVED or event is Event.ACCEPT_LATE or (after in _OUT and not remedy.isolates):
        remedy.may_carry = after in _OUT
        _isolate(core, remedy)


def _close(core: Core, remedy: Remedy, before: State) -> None:
    """Remove a closed remediation from the open ones; it is retained while automation may act on it or answer."""
    if before is State.PROBATION:  # a finding that was open before the return was not decided meanwhile
        for identity in remedy.record.finding_ids:
            core.schedule(identity, core.now_ns)
    del core.state.remedies[remedy.id]
    may_begin = remedy.was_approved and not remedy.accepted_by and remedy.record.action is not Action.OBSERVE
    may_answer = bool(remedy.accepted_by and not remedy.answered) or bool(remedy.past_orders)
    if may_begin or may_answer or remedy.isolates:
        core.state.late[remedy.id] = remedy


def join(core: Core, remedy: Remedy, finding: Finding) -> None:
    """Add a finding to the remediation that already isolates its target."""
    if finding.id not in remedy.record.finding_ids:
        reason = f"also for {finding.detector}: {finding.summary}"
        ids = (*remedy.record.finding_ids, finding.id)
        remedy.record = core.emit(replace(
            remedy.record, finding_ids=ids, reason=reason, actor=ACTOR, **repair_hints.NO_OUTCOME
        ))  # fmt: skip


def apply_timeouts(core: Core) -> None:
    """Apply the timeouts up to the watermark."""
    now_ns, state = core.now_ns, core.state
    while core.deadlines and core.deadlines[0][0] <= now_ns:
        _, identity = heapq.heappop(core.deadlines)
        remedy = state.remedies.get(identity)
        if remedy is not None and _deadline_ns(core, remedy) <= now_ns:
            _time_out(core, remedy)
    for identity, late in list(state.late.items()):
        if late.since_ns + _LATE_NS <= now_ns and not late.isolates:
            del state.late[identity]


def pause_ns(core: Core, failures: int) -> int:
    """Return the pause after a number of failures in a row: it doubles with each, up to a day."""
    pause_s = core.params.restore_retry_s * 2.0 ** max(0, min(failures - 1, 20))
    return round(min(pause_s, _LONGEST_PAUSE_S) * 1e9)


def revoke(core: Core, remedy: Remedy, decision: Decision) -> None:
    """Revoke an approval that the guards deny now."""
    move(
        core, remedy, Event.REVOKE, f"revoked by {decision.constraint}", constraint=decision.constraint,
        constraint_limit=decision.limit, constraint_observed=decision.observed, guard=decision.guard,
    )  # fmt: skip


def _time_out(core: Core, remedy: Remedy) -> None:
    limit_s = getattr(core.params, _limit(remedy))
    reason, before = f"no change within {limit_s:g} s in {remedy.state.name}", remedy.state
    if before is State.APPROVED and remedy.refusal:
        reason = f"{reason}; {remedy.refusal}"
    event = Event.TIMEOUT
    if before is State.VERIFYING:
        reason = f"the target did not qualify within {limit_s:g} s after the repair"
        if not next_step(core, remedy):
            event, reason = Event.EXHAUST, f"{reason}; no other step is known"
        elif remedy.record.repair_step:
            reason = f"{reason}; next: {remedy.record.repair_hint}"
    if before is State.APPROVED and remedy.record.action is Action.OBSERVE:
        event, reason = Event.WITHDRAW, "observed"
    move(core, remedy, event, reason)


def next_step(core: Core, remedy: Remedy) -> bool:
    """Change to the next step after one that did not help; False if there is none, or too many without a step."""
    if not remedy.record.repair_step:
        remedy.unhelpful += 1
        return remedy.unhelpful < core.params.max_attempts
    return repair_hints.next_step(core.state.repairs, remedy)


def _isolate(core: Core, remedy: Remedy) -> None:
    action, target, now = remedy.record.action, remedy.target_id, core.now_ns
    isolations = core.state.isolations
    if action is Action.RESET_NIC:
        isolations.reset(target, now)
    if action in ISOLATES:
        isolations.isolate(target, kind_of(action), remedy.pod, now)
        remedy.isolates = True
        core.state.is_changed = True
        if (watched := core.on_probation(target)) is not None:
            move(core, watched, Event.HAND_OVER, f"{action.name} {remedy.id} takes the target out of service")


def _release(core: Core, remedy: Remedy, event: Event) -> None:
    """Return the target, unless another remediation has it out.

    A person or a restore also returns a target that closed remediations left out. But the late result of a restore does
    not return what a newer remediation took out: no restore is accepted after its remediation was closed.
    """
    if not remedy.isolates:
        return
    remedy.isolates, target_id = False, remedy.target_id
    other = core.other_holder(remedy)
    left_out = [one for one in core.state.late.values() if one.isolates and one.target_id == target_id]
    is_newer = event is Event.RESTORED and any(one.accepted_ns >= remedy.accepted_ns for one in left_out)
    if other is not None:
        core.holders[target_id] = other.id
    elif not left_out or (event in _BACK and not is_newer):
        core.state.isolations.restored(target_id, core.now_ns)
        for late in left_out:
            late.isolates = False
    core.state.is_changed = True


def _limit(remedy: Remedy) -> str:
    if remedy.state is State.ACCEPTED and remedy.record.action is Action.REPAIR_LINK:
        return "repair_s"
    return TIMEOUTS[remedy.state]


def _deadline_ns(core: Core, remedy: Remedy) -> int:
    limit_s: float = getattr(core.params, _limit(remedy))
    return remedy.since_ns + round(limit_s * 1e9)


def kind_of(action: Action) -> TargetKind:
    """Return the kind of the targets of an action."""
    return TargetKind.HOST if action in TAKES_HOST_OUT else TargetKind.LINK


def _verdict(remedy: Remedy, event: Event) -> Verdict:
    """Return the verdict of a transition that the guards did not decide."""
    verdict, before = remedy.record.verdict, remedy.state
    is_open = before in (State.APPROVED, State.SHADOW, State.WAITING)
    if event in (Event.REVOKE, Event.ACCEPT_LATE) or (
        event in (Event.WITHDRAW, Event.CHANGE, Event.CLOSE) and is_open
    ):  # fmt: skip
        return Verdict.REVOKED
    if before is State.APPROVED and event in (Event.TIMEOUT, Event.REJECT):
        return Verdict.REVOKED
    if event is Event.TIMEOUT and before is State.WAITING:
        return Verdict.REVOKED
    if before is State.ESCALATED and event in (Event.ISOLATED, Event.REPAIRED):
        return Verdict.APPROVED  # the target is out of service, and no approval is awaited
    if event in (Event.DENY, Event.REJECT) or (event is Event.TIMEOUT and before is State.PROPOSED):
        return Verdict.DENIED
    return Verdict.NEEDS_APPROVAL if event in (Event.LAST_RELAPSE, Event.OVERRIDDEN) else verdict


def order(core: Core, remedy: Remedy, action: Action, decision: Decision, reason: str) -> None:
    """Issue an order; it waits if a guard asks for approval, and a denied one is published and not issued."""
    record, now = remedy.record, core.now_ns
    if action is Action.REPAIR_LINK and (also := core.fabric.interrupted_with(remedy.target_id)):
        reason = f"{reason}; {also}"
    attempt = core.next_attempt(record.finding_ids[0], action)
    own = Remediation(
        remediation_id(record.finding_ids[0], action.name, attempt), 0, record.finding_ids, action,
        Verdict.APPROVED, record.target, reason, runbook_url=record.runbook_url, state=State.APPROVED,
        attempt=attempt, actor=ACTOR, **(repair_fields(record) if action is Action.REPAIR_LINK else {}),
    )  # fmt: skip
    if decision.verdict is Verdict.APPROVED:
        own = replace(own, expires_at_ns=now + _expires_ns(core, action))
    else:
        is_denied = decision.verdict is Verdict.DENIED
        own = replace(
            own, verdict=decision.verdict, state=State.DENIED if is_denied else State.WAITING, guard=decision.guard,
            constraint=decision.constraint, constraint_limit=decision.limit, constraint_observed=decision.observed,
        )  # fmt: skip
        if is_denied:
            core.emit(own, is_open=False)
            return
    remedy.order = Order(core.emit(own), now)
    core.owners[remedy.order.record.id] = remedy.id


def approve_order(core: Core, remedy: Remedy, reason: str, actor: str = ACTOR, approved_by: str = "") -> None:
    """Approve a waiting order."""
    own, now = remedy.order, core.now_ns
    assert own is not None
    own.issued_ns = now
    own.record = core.emit(replace(
        own.record, state=State.APPROVED, verdict=Verdict.APPROVED, reason=reason, actor=actor,
        approved_by=approved_by, expires_at_ns=now + _expires_ns(core, own.record.action), guard=0, constraint="",
        constraint_limit=None, constraint_observed=None,
    ))  # fmt: skip


def extend_order(core: Core, remedy: Remedy) -> None:
    """Publish an order that expired without an acceptance again, with a later expiry."""
    own, now = remedy.order, core.now_ns
    if own is not None and not own.accepted_by and now >= (own.record.expires_at_ns or 0):
        own.issued_ns = now
        own.record = core.emit(replace(own.record, expires_at_ns=now + _expires_ns(core, own.record.action)))


def close_order(
    core: Core, remedy: Remedy, reason: str, last: State = State.CLOSED, actor: str = ACTOR, *,
    answered: bool = False, **changes: Any,
) -> None:  # fmt: skip
    """Publish the last state of an order; a late result of an accepted order without one still counts."""
    own = remedy.order
    if own is None:
        return
    remedy.order = None
    if own.accepted_by and not answered:
        remedy.past_orders[own.record.id] = PastOrder(own.record.action, own.accepted_by, own.record.instance)
    else:
        core.owners.pop(own.record.id, None)
    verdict = own.record.verdict if own.accepted_by else Verdict.REVOKED
    core.emit(replace(own.record, state=last, reason=reason, actor=actor, verdict=verdict, **changes), is_open=False)


def supersede_restores(core: Core, remedy: Remedy, *, by_repair: bool) -> None:
    """Process that automation accepted a repair after the restores without a result, or that this repair failed.

    A failed repair changed nothing, so that a restore that was done meanwhile counts, unless another repair is pending.
    """
    if not by_repair and has_pending_repair(remedy):
        return
    done = [identity for identity, past in remedy.past_orders.items() if past.is_done]
    for past in remedy.past_orders.values():
        past.is_outdated = by_repair and past.action not in REPAIR_ACTIONS
    for identity in done:
        del remedy.past_orders[identity], core.owners[identity]
    if done and not by_repair:
        move(core, remedy, Event.RESTORED, "restore done late; the repair after it failed")


def has_pending_repair(remedy: Remedy) -> bool:
    """Return whether automation accepted a repair and has not answered."""
    own = remedy.order
    pending = [own.record.action] if own is not None and own.accepted_by else []
    pending += [past.action for past in remedy.past_orders.values()]
    return any(action in REPAIR_ACTIONS for action in pending)


def fail_order(core: Core, remedy: Remedy, reason: str, last: State, actor: str = ACTOR) -> None:
    """Close an order that failed or had no answer; the next waits longer, and after the last one a person decides."""
    own = remedy.order
    assert own is not None
    is_link = own.record.action is Action.REPAIR_LINK
    close_order(core, remedy, reason, last, actor, answered=last is State.FAILED)
    remedy.order_failures += 1
    remedy.retry_ns = core.now_ns + pause_ns(core, remedy.order_failures)
    is_last = remedy.order_failures >= core.params.max_attempts
    has_step = not is_link or last is not State.FAILED or next_step(core, remedy)
    if is_last or not has_step:
        move(core, remedy, Event.EXHAUST, f"{remedy.order_failures} orders in a row without success; last: {reason}")


def _expires_ns(core: Core, action: Action) -> int:
    return round((core.params.repair_s if action is Action.REPAIR_LINK else core.params.expires_s) * 1e9)

"""Returns targets to service: orders repairs and restarts, verifies the repaired targets, and orders their restores.

A target is restored only after a reported repair, and only if it qualified in all the time since, while it was out of
service; silence is no proof. It must still qualify when automation accepts a restore, and for each retry. An order
passes the guards when it is issued, while it is open, and when it is accepted. Its target is out of service already, so
capacity, caps, rate, budget and cool-down do not count it again. After the last attempt a person decides.

The ports of a link also show whether automation carried out an action that it accepted and never answered. They prove
that the link is out of service, if an end is administratively down, or if the traffic stopped at both ends since the
acceptance; and that it is in service, if both ends are up and carried traffic in all of `not_drained_s` after the
answer was due. Without proof the result stays unknown, and a person decides. A port does not show the state of its
host, so actions on hosts stay unknown.
"""

from streams.decide import decisions, remedies
from streams.decide.core import Core
from streams.decide.fabric_view import TrafficRun
from streams.decide.guards import TAKES_HOST_OUT, Decision
from streams.decide.life_cycle import RESTORES, Event
from streams.decide.link_states import Block
from streams.decide.state import ACTOR, Order, Remedy
from streams.wire.models import Action, Finding, Verdict
from streams.wire.models import RemediationState as State

_MAX_RESTORES = 10
"""Restores in a row without success; with pauses that double they take 17 hours (choice). Then only a person acts."""

_REQUEST_NS = 3_600_000_000_000
"""Readings are requested again after an hour, half of the time for which `measure` sends them."""

_UNANSWERED = (Action.DRAIN_LINK, Action.REPAIR_LINK)
"""Actions whose result the ports of a link show."""

_IDLE_NS = 120_000_000_000
"""The length of two one-minute readings without traffic (choice): longer than the pause after one transfer."""

_BEFORE_NS = 600_000_000_000
"""Traffic counts as stopped only if the link carried some in the ten minutes before the acceptance (choice)."""


def advance(core: Core) -> None:
    """Verify the repaired targets, and issue, revoke and end orders."""
    _return_hosts_with_jobs(core)
    _escalate_removed(core)
    _request_readings(core)
    _verify(core)
    for remedy in core.in_state(State.DRAINED):
        _advance_repair(core, remedy)
    for remedy in core.in_state(State.RESTORING, State.ESCALATED):
        if remedy.restoring and not _hand_over(core, remedy):
            _advance_restore(core, remedy)
        elif remedy.state is State.ESCALATED and (own := open_repair(remedy)) is not None:
            _end(core, remedy, own, "a person decides")


def conclude_unanswered(core: Core) -> None:
    """Move the remediations whose ports prove the result that automation did not send."""
    for remedy in core.in_state(State.NO_ANSWER, State.ESCALATED):
        if remedy.unanswered and remedy.record.action in _UNANSWERED and _answer_due_ns(core, remedy) <= core.now_ns:
            _conclude(core, remedy)


def is_order_allowed(core: Core, remedy: Remedy) -> bool:
    """Return whether the order of a remediation may be accepted now; ends an order that may not."""
    own = remedy.order
    if own is None:
        return False
    if own.record.action in RESTORES:
        if not _is_proven(core, remedy):
            _disqualify(core, remedy)
            return False
    elif _step(core, remedy, remedy.finding) is not own.record.action:
        _end(core, remedy, own, "not due any more")
        return False
    decision = core.evaluate_order(remedy, own.record.action, own.record.approved_by)
    if decision.verdict is Verdict.APPROVED:
        return own.record.state is State.APPROVED
    if own.record.state is State.APPROVED:
        _revoke(core, remedy, own, decision)
    return False


def open_repair(remedy: Remedy) -> Order | None:
    """Return the open repair or restart of a target that no automation accepted, or None."""
    own = remedy.order
    is_open = own is not None and not own.accepted_by and own.record.action not in RESTORES
    return own if is_open else None


def approve_order(core: Core, remedy: Remedy, reason: str, actor: str) -> str:
    """Process a person's approval of an order; return the reason if it has no effect."""
    own = remedy.order
    if own is None or own.record.state is not State.WAITING:
        return "the order does not wait for an approval"
    decision = core.evaluate_order(remedy, own.record.action, actor)
    if decision.verdict is Verdict.APPROVED:
        remedies.approve_order(core, remedy, reason, actor, approved_by=actor)
        return ""
    _revoke(core, remedy, own, decision)
    return f"denied by {decision.constraint}"


def reject_order(core: Core, remedy: Remedy, reason: str, actor: str) -> str:
    """Process a person's rejection of an order; return the reason if it has no effect."""
    own = remedy.order
    if own is None or own.accepted_by:
        return "automation has accepted the order" if own is not None else "the order has ended"
    remedies.close_order(core, remedy, reason, State.DENIED, actor, constraint="rejected")
    if own.record.action in RESTORES:
        remedy.restoring = False
        remedies.move(core, remedy, Event.REJECT, f"the restore is {reason}", actor)
    else:
        remedy.rejected = True
    return ""


def check_orders(core: Core) -> None:
    """End the repairs that no automation accepted and that the guards deny now."""
    for remedy in core.in_state(State.DRAINED):
        if open_repair(remedy) is not None:
            _advance_repair(core, remedy)


def _advance_repair(core: Core, remedy: Remedy) -> None:
    """Order a due repair or restart, or evaluate the open one again."""
    own, finding = remedy.order, remedy.finding
    if own is not None and own.accepted_by:
        return
    step = _step(core, remedy, finding)
    if step is None or step is Action.OBSERVE:
        if own is not None:
            _end(core, remedy, own, "not due any more")
        if step is None and _tried(remedy):
            remedies.move(core, remedy, Event.EXHAUST, "the restart did not help; no other step is known")
        return
    if own is None:
        if core.now_ns >= remedy.retry_ns:
            _issue(core, remedy, step, core.evaluate_order(remedy, step))
        return
    decision = core.evaluate_order(remedy, step, own.record.approved_by)
    if decision.verdict in (Verdict.DENIED, Verdict.SHADOW):
        _revoke(core, remedy, own, decision)
    elif own.record.state is State.WAITING:
        if decision.verdict is Verdict.APPROVED:
            is_host = remedy.record.action in TAKES_HOST_OUT
            remedies.approve_order(
                core, remedy, "no job runs on the host any more" if is_host else "no guard asks for approval any more"
            )
    elif decision.verdict is Verdict.NEEDS_APPROVAL:
        _revoke(core, remedy, own, decision)
    else:
        remedies.extend_order(core, remedy)


def _issue(core: Core, remedy: Remedy, action: Action, decision: Decision) -> None:
    """Order a repair or restart, or publish its denial; a guard's denial is published once."""
    denied_by = decision.constraint if decision.verdict is Verdict.DENIED else ""
    if decision.verdict is Verdict.SHADOW or (denied_by and denied_by == remedy.restart_denied_by):
        return
    remedy.restart_denied_by = denied_by
    reason = f"repairs the target of {remedy.id}"
    remedies.order(core, remedy, action, decision, f"{reason}; {decision.group}" if decision.group else reason)


def _step(core: Core, remedy: Remedy, finding: Finding | None) -> Action | None:
    """Return the repair of a target that is out of service: REPAIR_LINK, or the action of the policy for a host.

    Returns None if no step is left; OBSERVE if a person rejected a repair, or if the finding of a host is unknown or
    ended.
    """
    if remedy.rejected:
        return Action.OBSERVE
    if remedy.record.action not in TAKES_HOST_OUT:
        return Action.REPAIR_LINK
    if finding is None or finding.is_closed or finding.parent_id or core.policy.rule_for(finding) is None:
        return Action.OBSERVE
    attempts = {
        Action.CORDON_HOST: remedy.failures + remedy.relapses, Action.REBOOT_HOST: _tried(remedy),
    }  # fmt: skip
    proposed = core.policy.action_for(finding, core.now_ns, attempts)
    if proposed is None:
        return None
    return proposed.action if proposed.action is Action.REBOOT_HOST else Action.OBSERVE


def _tried(remedy: Remedy) -> int:
    """Return the number of restarts that had no effect, including a restart as the first action."""
    return remedy.restarts + (remedy.record.action is Action.REBOOT_HOST)


def _revoke(core: Core, remedy: Remedy, own: Order, decision: Decision) -> None:
    """Close an order that a guard no longer permits; the same denial is not published again."""
    if decision.verdict is Verdict.DENIED:
        remedy.restart_denied_by = decision.constraint
    _end(core, remedy, own, f"revoked by {decision.constraint}")


def _end(core: Core, remedy: Remedy, own: Order, reason: str) -> None:
    last = State.EXPIRED if own.record.state is State.WAITING else State.DENIED
    remedies.close_order(core, remedy, reason, last, ACTOR)


def _return_hosts_with_jobs(core: Core) -> None:
    """Return hosts on which a job started while they were out of service: a person resumed them in the scheduler."""
    topology = core.fabric.topology
    if not topology.jobs:
        return
    for remedy in core.in_state(State.NO_ANSWER, State.DRAINED, State.VERIFYING, State.RESTORING, State.ESCALATED):
        end = remedy.record.target.a
        if not remedy.isolates or not remedy.out_ns or end is None or remedy.record.action not in TAKES_HOST_OUT:
            continue
        before = topology.jobs_on([end.device], remedy.out_ns)
        started = [job for job in topology.jobs_on([end.device], core.now_ns) if job not in before]
        if started:
            decisions.end_external(core, remedy, f"job {started[0]} started on the host: it is in service")


def _request_readings(core: Core) -> None:
    """Request readings of the targets that are out of service from `measure`, also of ports that never had a fault."""
    for remedy in core.in_state(State.DRAINED, State.VERIFYING, State.RESTORING, State.ESCALATED):
        if not remedy.isolates or core.now_ns < remedy.requested_ns + _REQUEST_NS:
            continue
        remedy.requested_ns = core.now_ns
        for link in core.fabric.links_of(remedy.record.target):
            for end in (link.lower, link.upper):
                core.request_readings(end)


def _escalate_removed(core: Core) -> None:
    """Escalate targets that the inventory no longer has: they can neither qualify nor be restored."""
    if not core.fabric.topology.devices:
        return  # no version has been read
    for remedy in core.in_state(State.NO_ANSWER, State.DRAINED, State.VERIFYING, State.RESTORING):
        if remedy.isolates and not core.fabric.has(remedy.record.target):
            remedies.move(core, remedy, Event.REMOVED, Event.REMOVED)
            remedies.close_order(core, remedy, Event.REMOVED)
            remedy.restoring = False


def _advance_restore(core: Core, remedy: Remedy) -> None:
    """Order the restore of a qualifying target until it succeeds; a kill switch never stops a restore."""
    own, now_ns = remedy.order, core.now_ns
    answer_ns = round(core.params.answer_s * 1e9)
    if own is not None and own.accepted_by:
        if now_ns >= own.issued_ns + answer_ns:
            fail_restore(core, remedy, "no answer", State.NO_ANSWER)
        else:
            return
    if not remedy.restoring:
        return
    if not _is_proven(core, remedy):
        _disqualify(core, remedy)
    elif remedy.order is not None:
        remedies.extend_order(core, remedy)
    elif now_ns >= remedy.retry_ns:
        is_host = remedy.record.action in TAKES_HOST_OUT
        action = core.policy.reversals.get(remedy.record.action) or (
            Action.UNCORDON_HOST if is_host else Action.RESTORE_LINK
        )
        decision = core.evaluate_order(remedy, action)
        if decision.verdict is Verdict.APPROVED:
            remedies.order(core, remedy, action, decision, f"repaired and qualified; reverses {remedy.id}")


def fail_restore(core: Core, remedy: Remedy, reason: str, last: State, actor: str = ACTOR) -> None:
    """Close a restore that failed or had no answer; after the last retry only a person acts."""
    remedies.fail_order(core, remedy, reason, last, actor)
    if remedy.order_failures >= _MAX_RESTORES:
        remedy.restoring = False


def _disqualify(core: Core, remedy: Remedy) -> None:
    """Revoke the restore of a target that no longer qualifies; it must qualify again."""
    if not remedies.move(core, remedy, Event.DISQUALIFY, Event.DISQUALIFY):
        remedies.close_order(core, remedy, Event.DISQUALIFY)
        remedy.restoring = remedy.state is State.ESCALATED


def _is_proven(core: Core, remedy: Remedy) -> bool:
    """Return whether a target qualifies; the findings of a host must also have ended."""
    is_link = remedy.target_id in core.fabric.topology.links
    is_sound = core.fabric.qualifies(remedy.record.target, remedy.repaired_ns)
    return is_sound and (is_link or not decisions.has_open_finding(core, remedy))


def _verify(core: Core) -> None:
    """Restore the targets that qualified since their repair."""
    qualify_ns = round(core.params.qualification.qualify_s * 1e9)
    for remedy in core.in_state(State.VERIFYING):
        is_due = core.now_ns - remedy.since_ns >= qualify_ns
        if not is_due or not core.fabric.qualifies(remedy.record.target, remedy.repaired_ns):
            continue
        if not _hand_over(core, remedy) and _is_proven(core, remedy):
            remedy.restoring, remedy.retry_ns = True, 0
            remedies.move(core, remedy, Event.QUALIFY, "qualified since the repair")


def _hand_over(core: Core, remedy: Remedy) -> bool:
    """Leave the restore to another remediation that may be acting on the target; return False if none does."""
    own, other = remedy.order, core.other_holder(remedy)
    if other is None or (own is not None and own.accepted_by):
        return False
    reason = f"{other.record.action.name} {other.id} restores the target"
    return remedies.move(core, remedy, Event.HAND_OVER, reason)


def _answer_due_ns(core: Core, remedy: Remedy) -> int:
    """Return the time at which an answer was due."""
    is_repair = remedy.record.action is Action.REPAIR_LINK
    return remedy.accepted_ns + round((core.params.repair_s if is_repair else core.params.answer_s) * 1e9)


def _conclude(core: Core, remedy: Remedy) -> None:
    if reason := _why_out(core, remedy):
        remedy.answered = True
        core.state.is_changed = True
        remedies.move(core, remedy, Event.ISOLATED, f"no answer, but {reason}")
    elif _is_in_service(core, remedy):
        remedy.released, remedy.failures = True, remedy.failures + 1
        core.state.is_changed = True
        within = f"{core.params.not_drained_s:g} s after the answer was due"
        remedies.move(
            core, remedy, Event.FAIL, f"not carried out: both ends are up and carried traffic for {within}"
        )  # fmt: skip


def _why_out(core: Core, remedy: Remedy) -> str:
    """Return the proof that the link is out of service; empty if there is none."""
    links, accepted_ns = core.fabric.links, remedy.accepted_ns
    block = links.blocked.get(remedy.target_id, Block.NONE)
    if block is Block.ADMIN_DOWN:
        return links.why_not(remedy.target_id)
    runs = _runs(core, remedy, accepted_ns)
    has_stopped = all(
        not run.is_busy
        and run.first_end_ns > accepted_ns
        and run.busy_ns >= accepted_ns - _BEFORE_NS
        and run.end_ns - max(run.begin_ns, accepted_ns) >= _IDLE_NS
        for run in runs
    )
    return "both ends are up and their traffic stopped" if runs and has_stopped else ""


def _is_in_service(core: Core, remedy: Remedy) -> bool:
    due_ns = _answer_due_ns(core, remedy)
    runs, needed_ns = _runs(core, remedy, due_ns), round(core.params.not_drained_s * 1e9)
    return bool(runs) and all(run.is_busy and run.end_ns - max(run.begin_ns, due_ns) >= needed_ns for run in runs)


def _runs(core: Core, remedy: Remedy, after_ns: int) -> list[TrafficRun]:
    """Return the traffic of both ends after a time; empty unless both ends are up, fresh, and read for traffic."""
    fabric = core.fabric
    link = fabric.topology.links.get(remedy.target_id)
    if link is None or not fabric.links.carries(link.id):
        return []
    ends = [fabric.traffic.runs(end, fabric.topology, after_ns) for end in (link.lower, link.upper)]
    return [run for runs in ends for run in runs] if all(ends) else []

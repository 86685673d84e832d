"""Returns targets to service: orders repairs, verifies the repaired targets, and orders their restores.

A target is restored only after a reported repair, and only if it qualified in all the time since, while it was out of
service; silence is no proof. It must still qualify when automation accepts a restore, and for each retry.
"""

from dataclasses import replace

from streams.decide.controls import Controls
from streams.decide.decisions import Cases
from streams.decide.evaluation import Evaluation
from streams.decide.fabric_view import FabricView, TrafficRun
from streams.decide.guards import TAKES_HOST_OUT, Decision
from streams.decide.life_cycle import Event
from streams.decide.link_states import Block
from streams.decide.params import DecideParams
from streams.decide.policy import Policy
from streams.decide.remedies import Orders, Remedies
from streams.decide.state import ACTOR, DecideState, Order, Remedy
from streams.wire.models import Action, Finding, Verdict
from streams.wire.models import RemediationState as State


class Repairs:
    """Returns drained targets to service."""

    def __init__(
        self, params: DecideParams, fabric: FabricView, controls: Controls, remedies: Remedies, cases: Cases
    ) -> None:
        self._params, self._fabric, self._controls = params, fabric, controls
        self._remedies, self._cases = remedies, cases

    def advance(self, now_ns: int) -> None:
        """Verify the repaired targets, and issue due repairs and restores."""
        self._escalate_removed()
        self._verify(now_ns)
        is_stopped = self._is_stopped(now_ns)
        for remedy in self._remedies.in_state(State.DRAINED):
            self._remedies.orders.order_repair(remedy, is_stopped)
        for remedy in self._remedies.in_state(State.RESTORING, State.ESCALATED):
            if remedy.restoring and not self._hand_over(remedy):
                self._restore(remedy, now_ns)

    def _escalate_removed(self) -> None:
        """Escalate targets that the inventory no longer has: they can neither qualify nor be restored."""
        if not self._fabric.topology.devices:
            return  # no version has been read
        for remedy in self._remedies.in_state(State.NO_ANSWER, State.DRAINED, State.VERIFYING, State.RESTORING):
            if remedy.isolates and not self._fabric.has(remedy.record.target):
                self._remedies.move(remedy, Event.REMOVED, Event.REMOVED)
                self._remedies.orders.close(remedy, Event.REMOVED)
                remedy.restoring = False

    def is_allowed(self, remedy: Remedy, now_ns: int) -> bool:
        """Return whether the order of a remediation may be accepted now.

        A restore is allowed only while its target qualifies, a repair of a link only without a kill switch.
        """
        if not remedy.restoring:
            self._remedies.orders.order_repair(remedy, self._is_stopped(now_ns))
            return remedy.order is not None
        if self._is_proven(remedy):
            return True
        self._withdraw(remedy)
        return False

    def _is_stopped(self, now_ns: int) -> bool:
        return not self._controls.loaded or self._controls.kill_switch(now_ns) is not None

    def _restore(self, remedy: Remedy, now_ns: int) -> None:
        orders = self._remedies.orders
        orders.close_unanswered(remedy, now_ns)
        if remedy.order is not None and remedy.order.accepted_by:
            return
        if self._is_proven(remedy):
            orders.order_restore(remedy, now_ns)
        else:
            self._withdraw(remedy)

    def _withdraw(self, remedy: Remedy) -> None:
        """Revoke the restore of a target that no longer qualifies; it must qualify again."""
        if not self._remedies.move(remedy, Event.DISQUALIFY, Event.DISQUALIFY):
            self._remedies.orders.close(remedy, Event.DISQUALIFY)
        remedy.restoring = remedy.state is State.ESCALATED

    def _is_proven(self, remedy: Remedy) -> bool:
        """Return whether a target qualifies; the findings of a host must also have ended."""
        is_link = remedy.target_id in self._fabric.topology.links
        return self._fabric.qualifies(remedy.record.target) and (is_link or not self._cases.has_open(remedy))

    def _verify(self, now_ns: int) -> None:
        """Restore the targets that qualified since their repair."""
        qualify_ns = round(self._params.qualification.qualify_s * 1e9)
        for remedy in self._remedies.in_state(State.VERIFYING):
            if now_ns - remedy.since_ns < qualify_ns or not self._fabric.qualifies(remedy.record.target):
                continue
            if not self._hand_over(remedy) and self._is_proven(remedy):
                remedy.restoring, remedy.retry_ns = True, 0
                self._remedies.move(remedy, Event.QUALIFY, "qualified since the repair")

    def _hand_over(self, remedy: Remedy) -> bool:
        """Leave the restore to another remediation that may be acting on the target; return False if none does."""
        order, other = remedy.order, self._remedies.other_holder(remedy)
        if other is None or (order is not None and order.accepted_by):
            return False
        return self._remedies.move(
            remedy, Event.HAND_OVER, f"{other.record.action.name} {other.id} restores the target"
        )


class HostRestarts:
    """The restarts of cordoned hosts."""

    def __init__(self, policy: Policy, evaluation: Evaluation, state: DecideState, remedies: Remedies) -> None:
        self._policy, self._evaluation, self._state, self._remedies = policy, evaluation, state, remedies

    @property
    def _orders(self) -> Orders:
        return self._remedies.orders

    def advance(self, now_ns: int) -> None:
        """Order due restarts, evaluate again those that no automation accepted, and end the others."""
        for remedy in self._remedies.in_state(State.DRAINED):
            if remedy.record.action in TAKES_HOST_OUT:
                self._decide(remedy, now_ns)
        for remedy in self._remedies.in_state(State.ESCALATED):
            if (order := self._open(remedy)) is not None:
                self._close(remedy, order, "a person decides")

    def is_allowed(self, remedy: Remedy) -> bool:
        """Return whether the order of a remediation may be carried out now; True for all orders but restarts."""
        order = self._open(remedy)
        if order is None:
            return True
        if order.record.state is not State.APPROVED:
            return False
        if self._step(remedy, remedy.finding) is not Action.REBOOT_HOST:
            self._close(remedy, order, "not due any more")
            return False
        decision = self._evaluate(remedy, order.record.approved_by)
        if decision.verdict is Verdict.APPROVED:
            return True
        self._revoke(remedy, order, decision)
        return False

    def answer(self, remedy: Remedy, reason: str, actor: str, *, is_approval: bool) -> None:
        """Process a person's answer to a restart that no automation accepted."""
        order = self._open(remedy)
        if order is None:
            return
        if not is_approval:
            remedy.rejected = True
            self._orders.close(remedy, reason, State.DENIED, actor)
        elif actor and order.record.state is State.WAITING and remedy.finding is not None:
            decision = self._evaluate(remedy, actor)
            if decision.verdict is Verdict.APPROVED:
                self._orders.approve(remedy, reason, actor, approved_by=actor)
            else:
                self._revoke(remedy, order, decision)

    def _decide(self, remedy: Remedy, now_ns: int) -> None:
        order, finding = remedy.order, remedy.finding
        if order is not None and order.accepted_by:
            return
        step = self._step(remedy, finding)
        if step is not Action.REBOOT_HOST:
            if order is not None:
                self._close(remedy, order, "not due any more")
            if step is None and self._tried(remedy):
                self._remedies.move(remedy, Event.EXHAUST, "the restart did not help; no other step is known")
            return
        decision = self._evaluate(remedy, order.record.approved_by if order is not None else "")
        if order is None:
            self._issue(remedy, decision)
        elif decision.verdict in (Verdict.DENIED, Verdict.SHADOW):
            self._revoke(remedy, order, decision)
        elif order.record.state is State.WAITING:
            if decision.verdict is Verdict.APPROVED:
                self._orders.approve(remedy, "no job runs on the host any more")
        elif decision.verdict is Verdict.NEEDS_APPROVAL:
            self._revoke(remedy, order, decision)
        else:
            self._orders.extend(remedy, now_ns)

    def _issue(self, remedy: Remedy, decision: Decision) -> None:
        """Order a restart, or publish its denial; a guard's denial is published once."""
        denied_by = decision.constraint if decision.verdict is Verdict.DENIED else ""
        if decision.verdict is Verdict.SHADOW or (denied_by and denied_by == remedy.restart_denied_by):
            return
        remedy.restart_denied_by = denied_by
        reason = f"repairs the target of {remedy.id}"
        self._orders.order_restart(remedy, decision, f"{reason}; {decision.group}" if decision.group else reason)

    def _step(self, remedy: Remedy, finding: Finding | None) -> Action | None:
        """Return the action of the policy for the host now; None if no step is left.

        Returns OBSERVE if the finding is unknown or ended, or if a person rejected a restart.
        """
        if finding is None or finding.is_closed or finding.parent_id or remedy.rejected:
            return Action.OBSERVE
        if self._policy.rule_for(finding) is None:
            return Action.OBSERVE
        attempts = {
            Action.CORDON_HOST: remedy.failures + remedy.relapses, Action.REBOOT_HOST: self._tried(remedy),
        }  # fmt: skip
        proposed = self._policy.action_for(finding, self._state.watermark_ns, attempts)
        return proposed.action if proposed is not None else None

    @staticmethod
    def _tried(remedy: Remedy) -> int:
        """Return the number of restarts that had no effect, including a restart as the first action."""
        return remedy.restarts + (remedy.record.action is Action.REBOOT_HOST)

    def _evaluate(self, remedy: Remedy, approved_by: str) -> Decision:
        """Return the guards' decision on a restart; the approval of the cordon does not apply to it."""
        record = replace(remedy.record, action=Action.REBOOT_HOST, approved_by=approved_by)
        return self._evaluation.evaluate(replace(remedy, record=record), is_counted=True)

    @staticmethod
    def _open(remedy: Remedy) -> Order | None:
        """Return the open restart of a host that no automation accepted, or None."""
        order = remedy.order
        is_restart = order is not None and order.record.action is Action.REBOOT_HOST and not order.accepted_by
        return order if is_restart else None

    def _revoke(self, remedy: Remedy, order: Order, decision: Decision) -> None:
        """Close an order that a guard no longer permits; the same denial is not published again."""
        if decision.verdict is Verdict.DENIED:
            remedy.restart_denied_by = decision.constraint
        self._close(remedy, order, f"revoked by {decision.constraint}")

    def _close(self, remedy: Remedy, order: Order, reason: str) -> None:
        last = State.EXPIRED if order.record.state is State.WAITING else State.DENIED
        self._orders.close(remedy, reason, last, ACTOR)


_ACTIONS = (Action.DRAIN_LINK, Action.REPAIR_LINK)

_IDLE_NS = 120_000_000_000
"""The length of two one-minute readings without traffic (choice): longer than the pause after one transfer."""

_BEFORE_NS = 600_000_000_000
"""Traffic counts as stopped only if the link carried some in the ten minutes before the acceptance (choice)."""


class Unanswered:
    """The remediations of links with an unknown result."""

    def __init__(self, params: DecideParams, fabric: FabricView, state: DecideState, remedies: Remedies) -> None:
        self._params, self._fabric, self._state, self._remedies = params, fabric, state, remedies

    def advance(self, now_ns: int) -> None:
        """Move the remediations whose ports prove the result."""
        for remedy in self._remedies.in_state(State.NO_ANSWER, State.ESCALATED):
            if remedy.unanswered and remedy.record.action in _ACTIONS and self._due_ns(remedy) <= now_ns:
                self._conclude(remedy)

    def _due_ns(self, remedy: Remedy) -> int:
        """Return the time at which an answer was due."""
        is_repair = remedy.record.action is Action.REPAIR_LINK
        return remedy.accepted_ns + round((self._params.repair_s if is_repair else self._params.answer_s) * 1e9)

    def _conclude(self, remedy: Remedy) -> None:
        if reason := self._why_out(remedy):
            remedy.answered = True
            self._state.is_changed = True
            self._remedies.move(remedy, Event.ISOLATED, f"no answer, but {reason}")
        elif self._is_in_service(remedy):
            remedy.released, remedy.failures = True, remedy.failures + 1
            self._state.is_changed = True
            within = f"{self._params.not_drained_s:g} s after the answer was due"
            self._remedies.move(
                remedy, Event.FAIL, f"not carried out: both ends are up and carried traffic for {within}"
            )

    def _why_out(self, remedy: Remedy) -> str:
        """Return the proof that the link is out of service; empty if there is none."""
        links, accepted_ns = self._fabric.links, remedy.accepted_ns
        block = links.blocked.get(remedy.target_id, Block.NONE)
        if block is Block.ADMIN_DOWN:
            return links.why_not(remedy.target_id)
        runs = self._runs(remedy, accepted_ns)
        has_stopped = all(
            not run.is_busy
            and run.first_end_ns > accepted_ns
            and run.busy_ns >= accepted_ns - _BEFORE_NS
            and run.end_ns - max(run.begin_ns, accepted_ns) >= _IDLE_NS
            for run in runs
        )
        return "both ends are up and their traffic stopped" if runs and has_stopped else ""

    def _is_in_service(self, remedy: Remedy) -> bool:
        due_ns = self._due_ns(remedy)
        runs, needed_ns = self._runs(remedy, due_ns), round(self._params.not_drained_s * 1e9)
        return bool(runs) and all(run.is_busy and run.end_ns - max(run.begin_ns, due_ns) >= needed_ns for run in runs)

    def _runs(self, remedy: Remedy, after_ns: int) -> list[TrafficRun]:
        """Return the traffic of both ends after a time; empty unless both ends are up, fresh, and read for traffic."""
        fabric = self._fabric
        link = fabric.topology.links.get(remedy.target_id)
        if link is None or not fabric.links.carries(link.id):
            return []
        ends = [fabric.traffic.runs(end, fabric.topology, after_ns) for end in (link.lower, link.upper)]
        return [run for runs in ends for run in runs] if all(ends) else []

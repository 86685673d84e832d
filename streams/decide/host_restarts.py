"""Orders the restart of a cordoned host, if the policy has REBOOT_HOST as the step after the cordon.

The host is out of service already, so caps, rate, budget and cool-down do not count it again. All other guards apply;
the job guard asks for approval, because a restart interrupts jobs that still run on the host. After the last restart
without effect a person decides.
"""

from dataclasses import replace

from streams.decide.evaluation import Evaluation
from streams.decide.guards import TAKES_HOST_OUT, Decision
from streams.decide.life_cycle import Event
from streams.decide.orders import Orders
from streams.decide.policy import Policy
from streams.decide.remedies import Remedies
from streams.decide.state import ACTOR, DecideState, Order, Remedy
from streams.wire.models import Action, Finding, Verdict
from streams.wire.models import RemediationState as State


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

"""Issues the repairs, restarts and restores of targets that are out of service.

An order is a remediation with its own id, so that automation acts on an id at most once. A restore is issued only if
the target qualifies after a reported repair, and is issued again until it succeeds.
"""

from collections.abc import Callable
from dataclasses import replace

from streams.decide.guards import TAKES_HOST_OUT, Decision
from streams.decide.params import DecideParams
from streams.decide.publisher import Publisher
from streams.decide.repair_steps import repair_fields
from streams.decide.state import ACTOR, DecideState, Order, Remedy
from streams.fabric.ids import remediation_id
from streams.wire.models import Action, Remediation, Verdict
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
            return  # host_restarts.py orders and revokes its repair
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

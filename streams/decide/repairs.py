"""Returns targets to service: orders repairs, verifies the repaired targets, and orders their restores.

A target is restored only after a reported repair, and only if it qualified in all the time since, while it was out of
service; silence is no proof. It must still qualify when automation accepts a restore, and for each retry.
"""

from streams.decide.cases import Cases
from streams.decide.controls import Controls
from streams.decide.fabric_view import FabricView
from streams.decide.life_cycle import Event
from streams.decide.params import DecideParams
from streams.decide.remedies import Remedies
from streams.decide.state import Remedy
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

"""Recovers the remediations from their published revisions, where the snapshot of `decide` was lost."""

from collections.abc import Sequence

from streams.decide.guards import ISOLATES
from streams.decide.remedies import Remedies, kind_of
from streams.decide.state import DecideState, Order, Remedy
from streams.wire.models import Action, Remediation
from streams.wire.models import RemediationState as State

_OUT = (State.APPROVED, State.ACCEPTED, State.NO_ANSWER, State.DRAINED, State.VERIFYING, State.RESTORING)
"""States in which a target counts as out of service; also ESCALATED, if it was out of service before."""

_ORDERS = (Action.RESTORE_LINK, Action.UNCORDON_HOST)
"""Actions that are always orders; REPAIR_LINK may also be the first action."""


def recover(history: Sequence[Remediation], state: DecideState, remedies: Remedies) -> None:
    """Fold in the own published revisions after the state was lost, oldest first.

    Restores what is out of service, the history that budgets and cool-downs count, and the numbers of attempts. An
    order that was open is adopted with the remediation that it belongs to. The findings are read again.
    """
    records: dict[str, Remediation] = {}
    holders: dict[str, str] = {}
    isolations = state.isolations
    state.repairs.recover(history)
    for record in history:
        attempts = state.attempts.setdefault(record.finding_ids[0] if record.finding_ids else "", {})
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
                isolations.isolate(target.id, kind_of(record.action), target.pod, at_ns)
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
            remedies.add(_remedy(record, isolates=holder == record.id))
    for order in orders:
        _adopt_order(order, remedies)


def _remedy(record: Remediation, *, isolates: bool) -> Remedy:
    return Remedy(
        record, None, record.decided_at_ns or 0,
        accepted_by=record.actor if record.state in (State.ACCEPTED, State.NO_ANSWER) else "",
        was_approved=record.state in _OUT, isolates=isolates, pod=record.target.pod,
        restoring=record.state is State.RESTORING,
        done_step=record.repair_step,
    )  # fmt: skip


def _adopt_order(record: Remediation, remedies: Remedies) -> None:
    remedy = remedies.isolating(record.target.id)
    if remedy is None or record.state not in (State.APPROVED, State.ACCEPTED):
        return
    is_repair = record.action is Action.REPAIR_LINK
    if is_repair != (remedy.state is State.DRAINED) or (not is_repair and remedy.state is State.VERIFYING):
        return
    remedy.restoring = remedy.restoring or not is_repair
    accepted_by = record.actor if record.state is State.ACCEPTED else ""
    remedy.order = Order(record, record.decided_at_ns or 0, accepted_by)
    remedies.orders.add(remedy)

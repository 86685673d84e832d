"""Recovers the remediations from their published revisions after a loss of the `decide` snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from streams.decide import memory, remedies
from streams.decide.core import Core
from streams.decide.guards import ISOLATES
from streams.decide.life_cycle import REPAIR_ACTIONS, RESTORES
from streams.decide.memory import Memory
from streams.decide.remedies import kind_of
from streams.decide.state import ACTOR, DecideState, Order, Remedy
from streams.wire.models import Action, Remediation, Verdict
from streams.wire.models import RemediationState as State

_log = structlog.get_logger("railsight.decide")

_OUT = (State.APPROVED, State.ACCEPTED, State.NO_ANSWER, State.DRAINED, State.VERIFYING, State.RESTORING)
"""States in which a target counts as out of service; ESCALATED counts too, if it was out of service before."""

_ANSWERED = (State.DRAINED, State.VERIFYING, State.RESTORING, State.PROBATION, State.FAILED)
"""States that require a result of automation, or the evidence of a link's ports."""


@dataclass(slots=True)
class _Past:
    """The revisions of one remediation: the last one, and the relevant values of the earlier ones."""

    record: Remediation
    was_approved: bool = False
    accepted_by: str = ""
    accepted_ns: int = 0
    answered: bool = False
    unanswered: bool = False
    released: bool = False
    repaired_ns: int = 0

    def add(self, record: Remediation) -> None:
        self.record = record
        self.was_approved = self.was_approved or record.state is State.APPROVED
        is_released = record.state is State.FAILED and record.actor == ACTOR
        self.released = self.released or is_released
        self.answered = self.answered or (record.state in _ANSWERED and not is_released)
        self.unanswered = record.state is State.NO_ANSWER or (self.unanswered and record.state is State.ESCALATED)
        if record.state is State.VERIFYING:
            self.repaired_ns = record.decided_at_ns or 0
        if record.state in (State.ACCEPTED, State.NO_ANSWER) and record.actor != ACTOR:
            self.accepted_by, self.accepted_ns = record.actor, record.decided_at_ns or 0


def recover(core: Core, history: Sequence[Remediation]) -> None:
    """Recover from the published revisions, oldest first, after a loss of state.

    Restores the isolated targets, the history of budgets and cool-downs, the attempt numbers, and the time. The other
    state of each remediation is in the memory of its records; that of records of earlier versions is derived. An open
    order is adopted together with its remediation. The findings are read again.
    """
    state = core.state
    memories = memory.gather(history, state)
    state.repairs.recover(history)
    past, holders = _read(history, state)
    orders = []
    restored = _restore(core, {identity: replace(one.record, memory="") for identity, one in past.items()}, memories)
    for one in past.values():
        record, holding = one.record, holders[one.record.target.id]
        if record.id in restored or (record.memory and record.state is State.CLOSED):
            continue
        if record.state is State.STATE_UNSPECIFIED:
            # A version without states published it. Its state is unknown, so it is not continued.
            _log.warning("remediation without a state is not continued", remediation=record.id, target=record.target.id)
            continue
        if _is_order(record):
            orders.append(record)
        elif record.state is not State.CLOSED:
            remedies.add(core, _remedy(one, holding))
        elif record.id in holding or (one.was_approved and not one.answered and record.action is not Action.OBSERVE):
            state.late[record.id] = _remedy(one, holding)
    for order in orders:
        remedy = core.holder(order.target.id)
        if remedy is not None and remedy.id not in restored:
            _adopt_order(core, remedy, order)


def _read(
    history: Sequence[Remediation], state: DecideState
) -> tuple[dict[str, _Past], dict[str, dict[str, None]]]:  # fmt: skip
    """Return the revisions of each remediation, and of each target those that have it out; fill the isolations."""
    past: dict[str, _Past] = {}
    holders: dict[str, dict[str, None]] = {}
    for record in history:
        state.watermark_ns = max(state.watermark_ns, record.decided_at_ns or 0)
        attempts = state.attempts.setdefault(record.finding_ids[0] if record.finding_ids else "", {})
        attempts[record.action.name] = max(record.attempt, attempts.get(record.action.name, 0))
        known = past.get(record.id)
        if known is not None and known.record.target.id != record.target.id:
            _rename(known.record, record, state, holders)
        if known is None or record.revision > known.record.revision:
            past.setdefault(record.id, _Past(record)).add(record)
            _follow(record, state, holders.setdefault(record.target.id, {}))
    return past, holders


def _restore(core: Core, last: Mapping[str, Remediation], memories: Mapping[str, Memory]) -> set[str]:
    """Restore the remediations whose records have a memory, and return their ids."""
    restored = set()
    for identity, own in memories.items():
        if (remedy := own.restore(last)) is None or remedy.state is State.STATE_UNSPECIFIED:
            continue
        restored.add(identity)
        if remedy.state is State.CLOSED:
            core.state.late[identity] = remedy
            remedies.index_orders(core, remedy)
        else:
            remedies.add(core, remedy)
    return restored


def _is_order(record: Remediation) -> bool:
    """Return whether it is an order for a target that is out of service; only a decision on a finding has a penalty."""
    return record.action in RESTORES or (record.action in REPAIR_ACTIONS and record.penalty is None)


def _rename(before: Remediation, after: Remediation, state: DecideState, holders: dict[str, dict[str, None]]) -> None:
    """Move what a remediation has out of service to the name that the inventory gave to its target meanwhile."""
    former, present, isolations = before.target.id, after.target.id, state.isolations
    holding = holders.get(former, {})
    if before.id in holding:
        del holding[before.id]
        holders.setdefault(present, {})[before.id] = None
        isolations.active.setdefault(present, isolations.active[former])
        if not holding:
            del isolations.active[former]


def _follow(record: Remediation, state: DecideState, holding: dict[str, None]) -> None:
    """Record the effect of one revision on its target: its isolation and its history."""
    at_ns, target, isolations = record.decided_at_ns or 0, record.target, state.isolations
    if record.action is Action.RESET_NIC and record.state is State.APPROVED:
        isolations.reset(target.id, at_ns)
    if record.action not in ISOLATES:
        return
    if record.state in _OUT:
        if not _is_order(record):
            holding[record.id] = None
            isolations.isolate(target.id, kind_of(record.action), target.pod, at_ns)
    elif record.id in holding and not _is_left_out(record):
        del holding[record.id]
        if not holding:
            isolations.restored(target.id, at_ns)


def _is_left_out(record: Remediation) -> bool:
    """Return whether a target that was out of service still is: a person closed its remediation, or must act.

    ESCALATED with NEEDS_APPROVAL waits for an approval, because the target is in service.
    """
    if record.state is State.ESCALATED:
        return record.verdict is not Verdict.NEEDS_APPROVAL
    return record.constraint == "left-out"


def _remedy(past: _Past, holding: Mapping[str, None]) -> Remedy:
    record = past.record
    return Remedy(
        record, None, record.decided_at_ns or 0, accepted_by=past.accepted_by,
        accepted_ns=past.accepted_ns, answered=past.answered, unanswered=past.unanswered, released=past.released,
        was_approved=past.was_approved, isolates=record.id in holding, pod=record.target.pod,
        restoring=record.state is State.RESTORING, done_step=record.repair_step,
        repaired_ns=past.repaired_ns,
    )  # fmt: skip


def _adopt_order(core: Core, remedy: Remedy, record: Remediation) -> None:
    if record.finding_ids[:1] != remedy.record.finding_ids[:1]:
        return
    if record.action is Action.REBOOT_HOST and record.verdict is Verdict.APPROVED:
        remedy.restarts += record.state in (State.CLOSED, State.FAILED)
    if record.action is Action.REBOOT_HOST and record.state is State.DENIED:
        remedy.rejected = remedy.rejected or record.actor != ACTOR
        remedy.restart_denied_by = record.constraint
    if record.state not in (State.WAITING, State.APPROVED, State.ACCEPTED):
        return
    is_repair = record.action in REPAIR_ACTIONS
    if is_repair != (remedy.state is State.DRAINED) or (not is_repair and remedy.state is State.VERIFYING):
        return
    remedy.restoring = remedy.restoring or not is_repair
    accepted_by = record.actor if record.state is State.ACCEPTED else ""
    remedy.order = Order(record, record.decided_at_ns or 0, accepted_by)
    remedies.index_orders(core, remedy)

"""Follows the targets of remediations and the subjects of controls through versions of the inventory.

A name is no identity. A device is identified by `devices.id`, or by its name without one; a link by `links.id`, or by
its ends: of a link whose end was renamed, the other end shows its new name. A target that has another name remains out
of service, and what is open for it is revoked. A name that now belongs to another target is not confused with it. The
answer to a control has the identity of its subject, so that it is known after a loss of state.
"""

from dataclasses import replace

from streams.decide import remedies
from streams.decide.controls import Identity
from streams.decide.core import Core
from streams.decide.fabric_view import DEVICE, PORT, RAIL
from streams.decide.life_cycle import NOT_BEGUN, Event
from streams.decide.state import Remedy
from streams.fabric.ids import Port, device_id
from streams.fabric.topology import Topology
from streams.wire.models import ControlEffect, Endpoint, Subject
from streams.wire.models import RemediationState as State


def record(core: Core) -> None:
    """Record the identities of all targets and subjects in use, while the inventory that names them is in effect."""
    state, identity_of = core.state, core.fabric.identity
    isolations, known = state.isolations, state.identities
    used = {*isolations.active, *isolations.changed_ns, *isolations.started_ns, *isolations.resets_ns}
    used |= {one.target_id for own in (state.remedies, state.late) for one in own.values()}
    for name in known.keys() - used:
        del known[name]
    for name in used - known.keys():
        if identity := identity_of(name):
            known[name] = identity
    for control in core.controls.in_effect():  # those that arrived before the inventory
        if control.id not in core.controls.identities and (identity := identity_of(control.subject_id)):
            core.controls.identities[control.id] = identity


def follow(core: Core) -> None:
    """Move everything that is known of a target to its present name, after a change of the inventory."""
    topology, state = core.fabric.topology, core.state
    if not topology.devices:
        return  # no version has been read
    finder = _Finder(topology)
    found = {name: finder.name(name, identity) for name, identity in state.identities.items()}
    moved = {old: new for old, new in found.items() if new != old}
    if moved:
        state.identities = {found[name]: identity for name, identity in state.identities.items()}
        state.isolations.rename(moved)
        state.is_changed = True
        for remedy in [*state.late.values(), *state.remedies.values()]:
            if remedy.target_id in moved:
                _move(core, remedy, moved[remedy.target_id])
        core.holders = {}
        for remedy in state.remedies.values():
            if remedy.isolates:
                core.holders.setdefault(remedy.target_id, remedy.id)
    for control in core.controls.follow(finder.name):
        core.answer(control, ControlEffect.TAKEN, f"the inventory names its subject {control.subject_id}")
    core.expire()


class _Finder:
    """Finds the present names of identities in one version of the inventory."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._by_id = {device.id: device.name for device in topology.devices.values() if device.id}
        self._by_row_id = {row_id: link for link, row_id in topology.link_row_ids.items()}

    def name(self, old: str, identity: Identity) -> str:
        """Return the present name of a subject; its old one, marked if that names another subject now, if it is gone.

        A subject that is gone and returns later is found again. One without a readable identity retains its name.
        """
        if len(identity) not in (3, 7):
            return old
        mark = f"#{next(filter(None, identity), '')}"
        plain = old.removesuffix(mark)
        if len(identity) == 7:
            found = self._link(identity)
            is_reused = plain in self._topology.links
        else:
            found = self._device(plain, *identity)
            is_reused = plain in (identity[1], device_id(identity[1])) and identity[1] in self._topology.devices
        return found or (f"{plain}{mark}" if is_reused else plain)

    def _device(self, plain: str, own_id: str, device: str, part: str) -> str:
        name = self._device_name(own_id, device)
        if name is None:
            return ""
        kind = next((kind for kind in (DEVICE, PORT, RAIL) if plain.startswith(kind)), "")
        return f"{kind}{name}/{part}" if part else f"{kind}{name}"

    def _device_name(self, own_id: str, device: str) -> str | None:
        if own_id and own_id in self._by_id:
            return self._by_id[own_id]
        found = self._topology.devices.get(device)
        is_same = found is not None and (not own_id or not found.id or found.id == own_id)
        return device if is_same else None

    def _link(self, identity: Identity) -> str:
        row_id, *ends = identity
        if row_id in self._by_row_id:
            return self._by_row_id[row_id]
        for own_id, device, port in (ends[:3], ends[3:]):
            name = self._device_name(own_id, device)
            link = self._topology.link_at(Port(name, port)) if name is not None else None
            if link is not None and not (row_id and self._topology.link_row_ids.get(link.id)):
                return link.id
        return ""


def _subject(topology: Topology, former: Subject, now: str) -> Subject:
    """Return a subject under its present name, with the former one in `former_ids`."""
    former_ids = tuple(one for one in dict.fromkeys((*former.former_ids, former.id)) if one != now)
    link = topology.links.get(now)
    if link is not None:
        ends = Endpoint(*link.lower), Endpoint(*link.upper)
        return Subject(now, *ends, link.role, link.rail, link.plane, link.pod, former_ids=former_ids)
    device = now.removeprefix(DEVICE)
    if now.startswith(DEVICE) and device in topology.devices:
        return replace(former, id=now, a=Endpoint(device), pod=topology.pod_of(device), former_ids=former_ids)
    return replace(former, id=now, former_ids=former_ids)


def _move(core: Core, remedy: Remedy, now: str) -> None:
    """Move a remediation to the present name of its target; revoke what no automation accepted."""
    former = remedy.record.target
    reason = f"the inventory names {former.id} {now}"
    remedy.record = replace(remedy.record, target=_subject(core.fabric.topology, former, now))
    if remedy.state is State.CLOSED:
        if remedy.isolates:
            remedy.record = core.emit(replace(remedy.record, reason=reason), is_open=False)
        return
    if remedy.order is not None and not remedy.order.accepted_by:
        remedies.close_order(core, remedy, reason, State.DENIED)
    elif remedy.order is not None:
        order = replace(remedy.order.record, target=remedy.record.target, reason=reason)
        remedy.order.record = core.emit(order)
    if remedy.state is State.APPROVED:
        remedies.move(core, remedy, Event.REVOKE, reason, constraint="inventory")
    elif remedy.state not in NOT_BEGUN:
        remedy.record = core.emit(replace(remedy.record, reason=reason))
    if remedy.state in NOT_BEGUN:
        remedies.move(core, remedy, Event.WITHDRAW, reason)
        for identity in remedy.record.finding_ids:
            case = core.state.cases.get(identity)
            if case is not None and case.remedy == remedy.id:
                case.remedy, case.decided = "", None
                core.schedule(identity, case.due_ns)

"""Applies the controls of operators to decisions: kill switches, maintenances, exclusions, answers and repairs.

Fails closed: until the topic is read to its end, a kill switch counts as on. A control applies from its arrival at the
broker; its sender's clock counts only for a planned begin and end. Only a maintenance can be planned; it applies from
shortly before its begin. A control has no effect after its end, and a tombstone lifts it. A refused control changes
nothing, and its answer has the reason. A control belongs to the device or link that had its subject's name when it
arrived; it follows the name, and never holds for another one that has the name now.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING

from streams.wire.control_scope import has_ended, subject_names
from streams.wire.models import Control, ControlKind, Subject

if TYPE_CHECKING:
    from streams.fabric.topology import Topology

SCOPED = (ControlKind.KILL_SWITCH, ControlKind.MAINTENANCE, ControlKind.EXCLUDE)
"""Kinds that apply to subjects of the inventory for a time; the others answer one remediation."""

MUST_END = (ControlKind.APPROVE, ControlKind.MAINTENANCE, ControlKind.EXCLUDE)
"""Kinds that are refused without an end unless they are marked endless, because a forgotten control would apply forever
(NVSentinel issue 1577)."""

BEGIN_MARGIN_NS = 600_000_000_000
"""A planned maintenance applies from this time before its start (choice): an action decided earlier is complete when
the work begins, although event time may lag."""

RETENTION_NS = 30 * 86_400_000_000_000
"""An answer is retained for 30 days, as long as its remediation."""

ENDED_NS = 86_400_000_000_000
"""An ended control is removed after a day, when the signature of an older record with its id has expired."""

CLOCK_NS = 60_000_000_000
"""The longest difference between the time of sending and the arrival of a control (choice)."""

PRUNE_NS = 3_600_000_000_000
"""The interval of eviction; event time advances ten times a second."""

_UNREAD = Control("unread", ControlKind.KILL_SWITCH, reason="the controls have not been read to their end")

NEVER_EMPTY = "has no subject; only a kill switch applies to everything"


def refusal(control: Control) -> str:
    """Return the reason why a control is refused; empty if it is valid."""
    if control.kind is ControlKind.KIND_UNSPECIFIED:
        return "has no kind"
    name = control.kind.name
    if control.kind is not ControlKind.KILL_SWITCH and not control.subject_id:
        return f"{name} {NEVER_EMPTY}"
    if control.kind in MUST_END and control.until_ns is None and not control.endless:
        return f"{name} has no end; set until, or endless"
    return ""


Identity = tuple[str, ...]
"""Of a device, a port or a rail of a host: `devices.id`, device, port or rail. Of a link: `links.id`, and `devices.id`,
device and port of each end."""


class Controls:
    """The valid controls by id, with the present names of their subjects; with `strict`, only a newer one replaces."""

    def __init__(self, *, strict: bool = False) -> None:
        self.loaded = False
        """True once the owner has read the topic to its end."""
        self.topology: Topology | None = None
        """The inventory, which has the rails and jobs of a target."""
        self.identities: dict[str, Identity] = {}
        """Control id -> the identity of its subject, if the inventory has one."""
        self._strict = strict
        self._pruned_ns = 0
        self._clear()

    def _clear(self) -> None:
        self._controls: dict[str, Control] = {}
        self._in_effect: dict[ControlKind, dict[str, dict[str, Control]]] = {kind: {} for kind in SCOPED}
        """Kind -> subject -> id -> a control that applies at `_now_ns`."""
        self._now_ns = 0
        self._begins: list[tuple[int, str]] = []
        self._ends: list[tuple[int, str]] = []
        self._changes: list[tuple[str, int]] = []

    def update(self, control: Control, identity: Identity = ()) -> str:
        """Apply a record of the topic, whose subject has an identity; return the reason if it is refused, or "".

        A control without a kind is a tombstone and lifts the control with its id; with `strict` it has no effect,
        because a tombstone has no signature.
        """
        if control.kind is ControlKind.KIND_UNSPECIFIED:
            if self._strict:
                return "a tombstone has no signature"
            self._remove(control.id)
            return ""
        if reason := refusal(control):
            return reason
        known = self._controls.get(control.id)
        sent_ns, arrived_ns = control.sent_at_ns, control.arrived_at_ns
        if sent_ns is not None and arrived_ns is not None:
            if abs(arrived_ns - sent_ns) > CLOCK_NS:
                behind_s = (arrived_ns - sent_ns) / 1e9
                side = "behind" if behind_s > 0 else "ahead of"
                return f"it was sent {abs(behind_s):.0f} s {side} its arrival; correct the clock of its sender"
            if known is None and sent_ns < (control.until_ns or arrived_ns + 1) <= arrived_ns:
                return "its end had passed when it arrived"
        if self._strict and known is not None and not _is_newer(control, known):
            return f"{known.kind.name} of {known.actor or 'unknown'} was sent later; it stays in effect"
        own = self.identities.get(control.id, ())
        if known is not None and own and identity and own != identity and not has_ended(known, control.effective_ns):
            return f"{control.id} is in effect for {known.subject_id}, which had that name; end it first"
        self._remove(control.id)
        self._add(control)
        if identity or own:
            self.identities[control.id] = identity or own
        return ""

    def follow(self, name: Callable[[str, Identity], str]) -> list[Control]:
        """Give each subject its present name, and return the controls whose subject has another one than before."""
        moved = []
        for identity, known in self.identities.items():
            control = self._controls[identity]
            if (now := name(control.subject_id, known)) != control.subject_id:
                moved.append(replace(control, subject_id=now))
        for control in moved:
            self._withdraw(self._controls[control.id])
            self._add(control)
        return moved

    def is_known(self, control: Control) -> bool:
        """Return whether exactly this record was applied before; a new owner reads all controls again.

        Its subject may have another name now, or another subject its name.
        """
        known = self._controls.get(control.id)
        if known is None or control.arrived_at_ns is None:
            return known == control
        return (known.arrived_at_ns, known.offset) == (control.arrived_at_ns, control.offset)

    def get(self, control_id: str) -> Control | None:
        """Return the control with this id."""
        return self._controls.get(control_id)

    def kill_switch(self, now_ns: int) -> Control | None:
        """Return an active kill switch; a kill switch with a subject also stops everything."""
        return self._active(ControlKind.KILL_SWITCH, ("",), now_ns) if self.loaded else _UNREAD

    def maintenance(self, target: Subject, now_ns: int) -> Control | None:
        """Return an active maintenance of a target: of its id, its device, its pod or its plane."""
        return self._active(ControlKind.MAINTENANCE, subject_names(target, self.topology, now_ns), now_ns)

    def exclusion(self, target: Subject, now_ns: int) -> Control | None:
        """Return an active exclusion of a target, addressed as in a maintenance."""
        return self._active(ControlKind.EXCLUDE, subject_names(target, self.topology, now_ns), now_ns)

    def maintained(self, now_ns: int) -> AbstractSet[str]:
        """Return the subjects of all active maintenances."""
        self._advance(now_ns)
        return self._in_effect[ControlKind.MAINTENANCE].keys()

    def maintenance_changes(self, now_ns: int) -> list[tuple[str, int]]:
        """Return the subjects whose maintenance began (1) or ended (-1) since the last call."""
        self._advance(now_ns)
        changes, self._changes = self._changes, []
        return changes

    def in_effect(self) -> list[Control]:
        """Return the controls that apply to subjects of the inventory."""
        return [control for control in self._controls.values() if control.kind in SCOPED]

    def prune(self, now_ns: int) -> list[str]:
        """Evict ended controls and old answers, at most once an hour; return their ids."""
        if now_ns - self._pruned_ns < PRUNE_NS:
            return []
        self._pruned_ns = now_ns
        over = [
            control.id
            for control in self._controls.values()
            if (control.kind not in SCOPED and control.effective_ns <= now_ns - RETENTION_NS)
            or has_ended(control, now_ns - (ENDED_NS if control.kind in SCOPED else RETENTION_NS))
        ]
        for identity in over:
            self._remove(identity)
        return over

    def dump(self) -> list[Control]:
        """Return all controls, for the snapshot."""
        return list(self._controls.values())

    def load(self, controls: Iterable[Control], identities: Mapping[str, Identity]) -> None:
        """Replace all controls by those of a snapshot, and reset `loaded`, because newer controls may exist.

        Earlier versions recorded the identities by subject.
        """
        self._clear()
        self.identities, self.loaded = {}, False
        for control in controls:
            self._add(control)
            known = identities.get(control.id) or identities.get(control.subject_id)
            if known and control.kind in SCOPED:
                self.identities[control.id] = known

    @staticmethod
    def _subject_of(control: Control) -> str:
        return "" if control.kind is ControlKind.KILL_SWITCH else control.subject_id

    def _add(self, control: Control) -> None:
        self._controls[control.id] = control
        if control.kind in SCOPED:
            heapq.heappush(self._begins, (_begin_ns(control), control.id))

    def _remove(self, identity: str) -> None:
        if (control := self._controls.pop(identity, None)) is not None:
            self._withdraw(control)
        self.identities.pop(identity, None)

    def _withdraw(self, control: Control) -> None:
        """Remove a control from those in effect, if it is one."""
        subjects, subject = self._in_effect.get(control.kind, {}), self._subject_of(control)
        own = subjects.get(subject, {})
        if own.pop(control.id, None) is not None and not own:
            del subjects[subject]
            if control.kind is ControlKind.MAINTENANCE:
                self._changes.append((subject, -1))

    def _advance(self, now_ns: int) -> None:
        """Apply the begins and the ends up to a time, so that the cost of a question has no share of other controls."""
        if now_ns < self._now_ns:  # time returns to an earlier watermark after a restart
            for known in self.in_effect():
                self._withdraw(known)
                self._add(known)
        self._now_ns = now_ns
        while self._begins and self._begins[0][0] <= now_ns:
            control = self._controls.get(heapq.heappop(self._begins)[1])
            if control is None or _begin_ns(control) > now_ns or has_ended(control, now_ns):
                continue
            subject = self._subject_of(control)
            own = self._in_effect[control.kind].setdefault(subject, {})
            if not own and control.kind is ControlKind.MAINTENANCE:
                self._changes.append((subject, 1))
            own[control.id] = control
            if control.until_ns is not None:
                heapq.heappush(self._ends, (control.until_ns, control.id))
        while self._ends and self._ends[0][0] <= now_ns:
            control = self._controls.get(heapq.heappop(self._ends)[1])
            if control is not None and has_ended(control, now_ns):
                self._withdraw(control)

    def _active(self, kind: ControlKind, names: Iterable[str], now_ns: int) -> Control | None:
        self._advance(now_ns)
        subjects = self._in_effect[kind]
        found = (control for name in names for control in subjects.get(name, {}).values())
        return min(found, key=lambda control: control.id, default=None)  # a successor has them in another order


def _is_newer(control: Control, known: Control) -> bool:
    """Return whether a control was sent after another; earlier versions have no time of sending."""
    if control.sent_at_ns is not None:
        return known.sent_at_ns is None or control.sent_at_ns > known.sent_at_ns
    return known.sent_at_ns is None and (control.at_ns or 0) > (known.at_ns or 0)


def _begin_ns(control: Control) -> int:
    """Return the time from which a control applies: only a maintenance can be planned."""
    is_planned = control.kind is ControlKind.MAINTENANCE and control.at_ns
    return (control.at_ns or 0) - BEGIN_MARGIN_NS if is_planned else 0

"""Tracks the state of every port of a partition, and publishes the states of a source when one of them changes.

Symptoms drive it, so that a healthy fabric costs nothing here: a port without a change has no symptom. First readings
have no symptom either; `MessageBatch.appeared` marks them. A ReadingsHeartbeat every 10 s of event time confirms the
sent states, because the watermark does not pass the newest reading of a source that is not silent.

Which ports a source does not read, with counters, goes to `attribute` too, when that changes.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from streams.detect.evidence.link_history import LINK_KINDS
from streams.detect.measure.liveness import Liveness, SourceState
from streams.detect.measure.routing import route
from streams.detect.measure.storage.column_store import Cells, Column, ColumnStore
from streams.detect.measure.storage.message_batch import DeviceSlot
from streams.detect.measure.storage.reading_store import ReadingStore
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import (
    ABSENT_COUNTER,
    IDLE_NS,
    NO_INDEX,
    Event,
    PortReaders,
    PortState,
    PortStates,
    ReadingsHeartbeat,
    RowKind,
    Source,
    Symptom,
    Window,
)
from streams.wire.stage import Output
from streams.wire.symptoms import SymptomKind
from streams.wire.topics import PORT_STATES

HEARTBEAT_NS = ns(10)
"""A third of the shortest limit of a silent source, so that a reader with that limit may miss two."""

_SWEEP_NS = ns(60)
"""The interval of the check for ports that a live source no longer reads."""

_MAX_UNREAD = 1 << 14
"""The ports of a message from which on no more sources are added to it."""

_OPER: Column = (Metric.OPER_UP, NO_INDEX)
_ADMIN: Column = (Metric.ADMIN_UP, NO_INDEX)
_SILENCES = (SymptomKind.SOURCE_SILENT, SymptomKind.SOURCE_RESUMED)
_BY_EVENT = {
    SymptomKind.WENT_DOWN: PortState.DOWN,
    SymptomKind.ADMIN_DISABLED: PortState.ADMIN_DOWN,
    SymptomKind.CAME_UP: PortState.NOT_OBSERVED,
    SymptomKind.ADMIN_ENABLED: PortState.NOT_OBSERVED,
}
"""The state that an event shows until the next reading; NOT_OBSERVED means the state of the last reading."""

_ASCII = bytes.maketrans(bytes(range(len(PortState))), b"0123")
_STATES = bytes.maketrans(b"0123", bytes(range(len(PortState))))
"""Converts between states and the digits of a snapshot."""

SourceKey = tuple[str, Source]


@dataclass(slots=True)
class SourcePorts:
    """The ports of one source of a device, as last sent."""

    first_ns: int
    changed_ns: int
    silent_since_ns: int = 0
    ports: tuple[str, ...] = ()
    states: bytes = b""
    since_ns: dict[str, int] = field(default_factory=dict)
    """Port -> its newest transition after `first_ns`."""
    events: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Port -> the time and the state of an event that no reading has confirmed yet."""
    has_moved: bool = False
    """True if a time changed that was not sent yet."""
    dated: dict[str, None] = field(default_factory=dict)
    """Ports with a symptom that dates the unsent change."""


class _Unread(NamedTuple):
    """The ports of the inventory's links that a source does not read with counters, as last sent to `attribute`."""

    first_ns: int
    silent_since_ns: int
    ports: tuple[str, ...]
    found_in: tuple[tuple[str, ...], bytes, bytes] | None = None
    """The rows from which they follow, their states, and whether each has counters; None: to be found again."""


class PortStateTracker:
    """The states of the ports of one partition of `measure`."""

    def __init__(self, shard: int, readings: ReadingStore, liveness: Liveness) -> None:
        self._shard, self._readings, self.liveness = shard, readings, liveness
        self._topology = Topology(Inventory())
        self.sources: dict[SourceKey, SourcePorts] = {}
        self.unsent: dict[SourceKey, int] = {}
        """Sources to compare with the sent states -> the time of a first reading, else 0."""
        self.unconfirmed: dict[SourceKey, None] = {}
        """Sources with events that no reading has confirmed yet."""
        self.next_heartbeat_ns = 0
        self._swept_ns = 0
        self._unread: dict[SourceKey, _Unread] = {}
        self._links_changed = False

    def set_topology(self, topology: Topology) -> None:
        """Replace the topology; if links changed, the next outputs compare the ports of all sources with it."""
        if topology.table is not self._topology.table:
            self._unread = {key: sent._replace(found_in=None) for key, sent in self._unread.items()}
            self._links_changed = bool(self.sources)
        self._topology = topology

    def _slot(self, key: SourceKey) -> DeviceSlot | None:
        return self._readings.slots.get((*key, RowKind.ROW_KIND_PORT))

    def first_read(self, key: SourceKey, at_ns: int) -> None:
        """Record that a state of a port of a source was read for the first time.

        The time of a source is rounded up to whole 10 s, so that the times of thousands compress in the snapshots of
        `decide`; a state never counts as older than it is.
        """
        if key not in self.sources:
            first_ns = -(-at_ns // HEARTBEAT_NS) * HEARTBEAT_NS
            self.sources[key] = SourcePorts(first_ns, first_ns)
        self.unsent[key] = min(self.unsent.get(key) or at_ns, at_ns)

    def since_ns(self, key: SourceKey, port: str) -> int:
        """Return the newest transition of a port, or the time of the first reading of its source."""
        known = self.sources[key]
        return known.since_ns.get(port, known.first_ns)

    def ports_of(self, symptom: Symptom | Window | Event) -> Iterator[tuple[SourceKey, str]]:
        """Yield the sources that read a symptom's port, and its name there; only its own source if that reads ports."""
        device, own = symptom.device, (symptom.device, symptom.source)
        for key in [own] if own in self.sources else [(device, s) for s in Source if (device, s) in self.sources]:
            slot = self._slot(key)
            if slot is not None and (row := slot.row_of(symptom.port, self._topology)):
                yield key, row

    def process(self, symptom: Symptom) -> None:
        """Process a symptom; a repetition changes nothing."""
        kind, at_ns = symptom.kind, symptom.at_ns
        if kind in LINK_KINDS:
            if symptom.since_ns or symptom.by_event:
                for key, port in self.ports_of(symptom):
                    self._on_transition(key, port, symptom)
        elif kind is SymptomKind.RESTARTED:
            for source in Source:
                if (known := self.sources.get((symptom.device, source))) is not None and at_ns > known.first_ns:
                    known.first_ns, known.changed_ns = at_ns, max(known.changed_ns, at_ns)
                    known.since_ns = {port: since for port, since in known.since_ns.items() if since > at_ns}
                    known.has_moved = True
                    self.unsent.setdefault((symptom.device, source), 0)
        elif kind in _SILENCES and (known := self.sources.get((symptom.device, symptom.source))) is not None:
            known.changed_ns = max(known.changed_ns, at_ns)
            self.unsent.setdefault((symptom.device, symptom.source), 0)

    def _on_transition(self, key: SourceKey, port: str, symptom: Symptom) -> None:
        known, at_ns = self.sources[key], symptom.at_ns
        state = _BY_EVENT.get(symptom.kind) if symptom.by_event else None
        if state is not None and at_ns >= known.events.get(port, (0, 0))[0]:
            known.events[port] = at_ns, state
            self.unconfirmed[key] = None
        self._date(known, port, at_ns)
        self.unsent.setdefault(key, 0)

    @staticmethod
    def _date(known: SourcePorts, port: str, at_ns: int) -> None:
        """Date the state of a port, unless a later transition is known."""
        if at_ns > known.since_ns.get(port, known.first_ns):
            known.since_ns[port] = at_ns
            known.changed_ns = max(known.changed_ns, at_ns)
            known.has_moved, known.dated[port] = True, None

    def outputs(self, watermark_ns: int) -> list[Output]:
        """Return the states of sources that changed, and a due heartbeat."""
        is_due = self.next_heartbeat_ns <= watermark_ns != IDLE_NS
        if has_swept := is_due and watermark_ns >= self._swept_ns + _SWEEP_NS:
            self._swept_ns = watermark_ns // _SWEEP_NS * _SWEEP_NS
            self.unsent = dict.fromkeys(self._find_unread(), 0) | self.unsent
        for key in self.unconfirmed:
            if self._is_confirmed(key):
                self.unsent.setdefault(key, 0)
        touched = self.sources if has_swept or self._links_changed else self.unsent
        outputs = [
            Output(PORT_STATES, message)
            for key, first_ns in self.unsent.items()
            if (message := self._update(key, first_ns)) is not None
        ]
        if touched:
            outputs += route(self._topology, self._find_unread_ports(touched))
            self._links_changed = False
        self.unsent = {}
        if is_due:
            heartbeat_ns = watermark_ns // HEARTBEAT_NS * HEARTBEAT_NS
            self.next_heartbeat_ns = heartbeat_ns + HEARTBEAT_NS
            outputs.append(Output(PORT_STATES, ReadingsHeartbeat(self._shard, heartbeat_ns)))
        return outputs

    def _find_unread_ports(self, keys: Iterable[SourceKey]) -> Iterator[PortReaders]:
        """Yield the sources of which the ports changed that they read."""
        of_block: dict[int, list[tuple[SourceKey, DeviceSlot, SourceState]]] = defaultdict(list)
        for key in keys:
            slot, source = self._slot(key), self.liveness.sources.get(key)
            if slot is not None and source is not None and self.sources[key].ports:
                of_block[id(slot.block)].append((key, slot, source))
        changed = [
            key
            for members in of_block.values()
            for (key, _, _), has_counters in zip(members, _have_counters(members), strict=True)
            if self._update_unread(key, has_counters)
        ]
        while changed:
            ports, own = 0, []
            while changed and ports < _MAX_UNREAD:
                own.append(changed.pop())
                ports += len(self._unread[own[-1]].ports)
            sent = [self._unread[key] for key in own]
            unread = [(place, port) for place, one in enumerate(sent) for port in one.ports]
            yield PortReaders(
                self._shard, tuple(device for device, _ in own), tuple(source for _, source in own),
                tuple(one.first_ns for one in sent), tuple(one.silent_since_ns for one in sent),
                tuple(place for place, _ in unread), tuple(port for _, port in unread),
            )  # fmt: skip

    def _update_unread(self, key: SourceKey, has_counters: bytes) -> bool:
        """Find the linked ports that a source does not read; return whether it differs from what was sent."""
        known, sent, device = self.sources[key], self._unread.get(key), key[0]
        found_in = known.ports, known.states, has_counters
        if sent is not None and (sent.silent_since_ns, sent.found_in) == (known.silent_since_ns, found_in):
            return False
        linked = self._topology.table.ports_of(device)
        if not linked:
            return False
        is_read = (state and counted for state, counted in zip(known.states, has_counters, strict=False))
        read = set(compress(self._topology.resolve_ports(device, known.ports), is_read))
        ports = () if read.issuperset(linked) else tuple(port for port in linked if port not in read)
        # A restart begins its states again, not the source.
        first_ns = known.first_ns if sent is None else sent.first_ns
        found = self._unread[key] = _Unread(first_ns, known.silent_since_ns, ports, found_in)
        return sent is None or sent[:3] != found[:3]

    def _is_confirmed(self, key: SourceKey) -> bool:
        """Return whether a source was read after one of its events, so that its states may have changed."""
        slot = self._slot(key)
        return slot is not None and any(at_ns < slot.newest_ns for at_ns, _ in self.sources[key].events.values())

    def _update(self, key: SourceKey, first_ns: int) -> PortStates | None:
        """Return the states of a source; None if they equal the sent states."""
        slot, source = self._slot(key), self.liveness.sources.get(key)
        if slot is None or source is None:
            return None
        known = self.sources[key]
        states = _read_states(slot, source)
        if known.events:
            states = self._with_events(key, slot, states)
        silent_since_ns = source.last_ns if source.silent else 0
        if not known.has_moved and (slot.rows, states, silent_since_ns) == (
            known.ports, known.states, known.silent_since_ns,
        ):  # fmt: skip
            return None
        if known.ports:
            before = dict(zip(known.ports, known.states, strict=True))
            for port, state in zip(slot.rows, states, strict=True):
                if before.get(port, PortState.NOT_OBSERVED) != state and port not in known.dated:
                    # No symptom dates it: a first reading, or a port that is no longer read.
                    known.since_ns[port] = first_ns or slot.newest_ns
                    known.changed_ns = max(known.changed_ns, known.since_ns[port])
        known.ports, known.states, known.silent_since_ns = slot.rows, states, silent_since_ns
        known.has_moved, known.dated = False, {}
        changed = [(i, known.since_ns[port]) for i, port in enumerate(slot.rows) if port in known.since_ns]
        return PortStates(
            *key, self._shard, known.changed_ns, silent_since_ns, known.first_ns, slot.rows, states,
            tuple(i for i, _ in changed), tuple(since for _, since in changed),
        )  # fmt: skip

    def _with_events(self, key: SourceKey, slot: DeviceSlot, states: bytes) -> bytes:
        """Return the states with those of events that are newer than the readings; drops older events."""
        known, changed, rows = self.sources[key], bytearray(states), slot.rows
        events = known.events
        for port, (at_ns, state) in list(events.items()):
            if port in rows and slot.newest_ns <= at_ns:
                changed[rows.index(port)] = state or changed[rows.index(port)]
                continue
            del events[port]
            if state and port in rows and states[rows.index(port)] != state:
                # If the next reading differs, it dates the state; the newest reading does if the history lacks it.
                later = (read[0] for read in slot.history.reads if read[0] > at_ns)
                self._date(known, port, next(later, slot.newest_ns))
        if not events:
            self.unconfirmed.pop(key, None)
        return bytes(changed)

    def _find_unread(self) -> Iterator[SourceKey]:
        """Yield live sources that may no longer read one of their ports."""
        for key in self.sources:
            slot, source = self._slot(key), self.liveness.sources.get(key)
            if slot is None or source is None or source.silent:
                continue
            store, place = slot.block.gauges, slot.block.gauges.index_of.get(_OPER)
            has_times_of_cells = place is None or slot.block.layout.has_per_cell_times or place in store.per_cell_times
            if has_times_of_cells or store.at_ns[slot.index, place] < source.last_ns - source.limit_ns:
                yield key

    def dump(self) -> dict[str, Any]:
        return {
            "next_heartbeat_ns": self.next_heartbeat_ns, "swept_ns": self._swept_ns,
            "sources": [
                [*key, known.first_ns, known.changed_ns, known.silent_since_ns, known.states.translate(_ASCII).decode(),
                 known.since_ns, known.events]
                for key, known in self.sources.items()
            ],
            "unread": [
                [*key, first_ns, silent_since_ns, ports]
                for key, (first_ns, silent_since_ns, ports, _) in self._unread.items()
            ],
        }  # fmt: skip

    def load(self, data: dict[str, Any]) -> None:
        """Restore the state that `dump` returned; the readings of the same snapshot must be restored before."""
        self.next_heartbeat_ns, self._swept_ns = data["next_heartbeat_ns"], data["swept_ns"]
        for device, number, first_ns, changed_ns, silent_since_ns, digits, since_ns, events in data["sources"]:
            key = device, Source(number)
            slot = self._slot(key)
            ports = slot.rows[: len(digits)] if slot is not None else ()
            self.sources[key] = SourcePorts(
                first_ns, changed_ns, silent_since_ns, ports, digits.encode().translate(_STATES), since_ns,
                {port: (at_ns, state) for port, (at_ns, state) in events.items()},
            )  # fmt: skip
            if events:
                self.unconfirmed[key] = None
        for device, number, first_ns, silent_since_ns, unread in data.get("unread", ()):
            self._unread[device, Source(number)] = _Unread(first_ns, silent_since_ns, tuple(unread))


def _read_states(slot: DeviceSlot, source: SourceState) -> bytes:
    """Return the PortState of each row, from last readings that are not older than the limit of the source."""
    store, since_ns = slot.block.gauges, source.last_ns - source.limit_ns
    oper, admin = (_column(store, slot.index, column, since_ns) for column in (_OPER, _ADMIN))
    states = np.where(oper > 0, PortState.UP, np.where(oper <= 0, PortState.DOWN, PortState.NOT_OBSERVED))
    return np.where(admin <= 0, PortState.ADMIN_DOWN, states).astype(np.uint8).tobytes()


def _have_counters(members: Sequence[tuple[SourceKey, DeviceSlot, SourceState]]) -> Iterator[bytes]:
    """Yield, for each source of one block, whether each row has a counter that is not older than the source's limit."""
    store, devices = members[0][1].block.counters, np.array([slot.index for _, slot, _ in members])
    since_ns = np.array([source.last_ns - source.limit_ns for _, _, source in members])
    found = np.zeros((len(members), store.rows), np.bool_)
    for place in range(store.values.shape[1]):
        times = store.per_cell_times.get(place)
        is_fresh = store.at_ns[devices, place, None] if times is None else times[devices]
        found |= (is_fresh >= since_ns[:, None]) & (store.values[devices, place] != ABSENT_COUNTER)
        if found.all():
            break
    flags = found.tobytes()
    yield from (flags[begin : begin + store.rows] for begin in range(0, len(flags), store.rows))


def _column(store: ColumnStore, device: int, column: Column, since_ns: int) -> Cells:
    """Return the readings of a device's column that are not older than a time; NaN for others."""
    place = store.index_of.get(column)
    if place is None:
        return np.full(store.values.shape[2], np.nan)
    cells = store.per_cell_times.get(place)
    times = store.at_ns[device, place] if cells is None else cells[device]
    return np.where(times >= since_ns, store.values[device, place], np.nan)

"""One partition of a peer's topic: its records in, readings and happenings out, each under a number of its own. Pure.

A partition is cut into units, and of each unit a device has one reading at most: its messages' sequence is the unit's
number. Where a unit ends is decided by the records from the unit's beginning on and by nothing else, but for cuts
that are made because nobody came any more: those are declared, in what is committed, before their readings go out.
So whoever reads from a committed position again makes the same messages under the same identities.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from collectors.bridge import records
from collectors.bridge.devices import FULL, OTHERS, UNKNOWN, Device, Devices, other
from collectors.bridge.line_protocol import Heads
from collectors.bridge.params import Format, Params
from collectors.bridge.points import Point, Scalar
from collectors.bridge.records import Source
from collectors.bridge.sample_window import AHEAD_NS, SampleWindow
from collectors.bridge.series import Input, Series
from collectors.bridge.signals import Kind, Signal
from collectors.bridge.tables import telegraf_snmp
from collectors.core.columns import Reading
from collectors.core.emitter import DeviceEvent
from streams.wire.errors import Reject

_MOST_RECORDS = 5_000
"""Of a unit: one that only a cut inside a record would end could never be committed."""
_PLAIN = 2**63 - 1
"""Below it an integer is a counter as it is; from it on values.counter says what it is."""
_SHORT = 19
"""Digits that are surely below it."""
_LONGEST_LABEL = 64
_MOST_LABELS = 1_000
_ORDINALS = 2**16


@dataclass(frozen=True, slots=True)
class Position:
    """The next record that is not read, with nothing gathered before it, and the number of the unit it begins."""

    offset: int
    number: int


@dataclass(frozen=True, slots=True)
class Gathered:
    """A reading of a device, and its number."""

    device: str
    number: int
    reading: Reading


@dataclass(frozen=True, slots=True)
class NumberedEvent:
    """What happened at a device, and its number."""

    device: str
    number: int
    happening: DeviceEvent
    received_ns: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A record, or part of one, that could not be read."""

    offset: int
    reason: str
    value: bytes


Output = Gathered | NumberedEvent | Refused

_Unnamed = tuple[Signal, str, Scalar]
"""A value of a port that its path does not name: what it is, the list item that it is in, and what it says."""
_SeriesOwner = tuple[str, int, str]
"""(device, time, list item): of one record, what has these equal is of one port."""


class PartitionFold:
    """The fold. `declared` are the offsets at which a cut was declared; they are made again as they were."""

    def __init__(
        self, devices: Devices, params: Params, form: Format, start: Position, declared: Iterable[int] = ()
    ) -> None:
        self._devices = devices
        self._metrics = devices.metrics
        self._form = form
        self._gap_ns = int(params.gap_s * 1e9)
        self._span_ns = int(params.span_s * 1e9)
        self.safe = start
        self.next_offset = start.offset
        self.declared = sorted(declared)
        self._number = start.number
        self._windows: dict[str, SampleWindow] = {}
        self._records = 0
        self._heads = Heads()
        self._out: list[Output] = []
        self._labels: set[str] = set()
        self._offset = start.offset
        self._ordinal = 0
        self._began = False
        self._received_ns = 0
        self._unnamed: list[_Unnamed] = []
        self._names: dict[str, str] = {}
        self._pending: dict[_SeriesOwner, list[_Unnamed]] = {}
        self._said: dict[_SeriesOwner, str] = {}

    @property
    def is_gathering(self) -> bool:
        """Whether anything waits for the end of its unit."""
        return bool(self._windows)

    @property
    def gathering(self) -> frozenset[str]:
        """The devices of which something waits."""
        return frozenset(self._windows)

    def add(self, record: Source, received_ns: int) -> list[Output]:
        """Take the next record; answer what there is to hand on now."""
        self._out = []
        self._received_ns = received_ns
        if record.offset < self.next_offset:  # the topic was made anew
            self.declared = []
        while self.declared and self.declared[0] <= record.offset:
            self._cut_before(self.declared.pop(0))
        if self._records >= _MOST_RECORDS:
            self._cut_before(record.offset)
        self._offset, self._ordinal, self._began = record.offset, 0, False
        self._records += 1
        points, is_gnmic, refused = records.read(self._form, record.value, self._heads)
        unknown: Counter[str] = Counter()
        for point in points:
            self._point(point, point.at_ns or record.at_ns or received_ns, unknown, is_gnmic=is_gnmic)
        if self._pending or self._said:
            self._resolve_remaining()
        for label, count in unknown.items():
            self._metrics.add("unknown", self._label(label), count)
        if refused:
            self._metrics.add("poisoned", count=len(refused))
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            self._out.append(Refused(record.offset, f"{refused[0]}{more}", record.value))
        self.next_offset = record.offset + 1
        if not self._windows:
            self.safe = Position(self.next_offset, self._number)
            self._records = 0
        return self._out

    def cut(self) -> list[Output]:
        """End the unit here; declare `next_offset` before what this answers goes out."""
        self._out = []
        self._cut_before(self.next_offset)
        return self._out

    def _point(self, point: Point, at_ns: int, unknown: Counter[str], *, is_gnmic: bool) -> None:
        series = self._devices.series(point, is_gnmic=is_gnmic)
        device = self._devices.device(series.device) if series.device else None
        if device is None:
            unknown[point.name] += len(point.fields)
            return
        found, strange = self._values(series, device, point, at_ns)
        if strange:
            unknown[point.name] += strange
        if self._unnamed or self._names:
            found += self._resolve_names(device, at_ns)
        if found:
            self._put(device, found, at_ns)

    def _values(self, series: Series, device: Device, point: Point, at_ns: int) -> tuple[list[tuple[int, float]], int]:
        """(slot, value) of the plain values, and how many fields mean nothing to us; the rest is seen to."""
        targets, board = series.targets, device.columns
        plain, reads = board.plain, board.signals
        found: list[tuple[int, float]] = []
        strange, unreadable = point.skipped, 0
        for name, value in telegraf_snmp.with_sums(point.fields) if series.input is Input.SNMP else point.fields:
            slot = targets.get(name)
            if slot is None:
                slot = self._devices.target(series, device, name, keeps=point.skip is None)
            if slot >= 0:
                if plain[slot]:
                    if type(value) is int and 0 <= value < _PLAIN:
                        found.append((slot, value))
                        continue
                    if type(value) is str and len(value) < _SHORT and value.isascii() and value.isdecimal():
                        found.append((slot, int(value)))
                        continue
                try:
                    read = reads[slot].read(value)
                except Reject:
                    unreadable += 1
                    continue
                if read is not None:
                    found.append((slot, read))
            elif slot == UNKNOWN:
                strange += 1
                if point.skip is not None:
                    point.skip.add(name)
            elif slot != FULL:
                unreadable += not self._other(series, device, slot, value, at_ns)
        self._metrics.add("updates", device.name, len(point.fields) + point.skipped - strange)
        if unreadable:
            self._metrics.add("unreadable", device.name, unreadable)
        return found, strange

    def _other(self, series: Series, device: Device, slot: int, value: Scalar, at_ns: int) -> bool:
        """A field that is no plain value of a named port; False where it makes no sense."""
        signal, scope = series.others[OTHERS - slot]
        if signal.kind is Kind.NAME:
            self._names[scope] = str(value)[:256]
            return True
        if signal.kind is Kind.VALUE:
            self._unnamed.append((signal, scope, value))
            return True
        try:
            self._emit_event(device, other(device, signal, value, at_ns))
        except Reject:
            return False
        return True

    def _resolve_names(self, device: Device, at_ns: int) -> list[tuple[int, float]]:
        """Values of ports whose names came among the values; those without wait for the record's end."""
        unnamed, self._unnamed = self._unnamed, []
        names, self._names = self._names, {}
        found: list[tuple[int, float]] = []
        for one in unnamed:
            if row := names.get(one[1]):
                found += self._of_port(device, row, one)
            else:
                self._pending.setdefault((device.name, at_ns, one[1]), []).append(one)
        if not unnamed:
            self._said |= {(device.name, at_ns, scope): row for scope, row in names.items()}
        return found

    def _resolve_remaining(self) -> None:
        """Gnmic makes an event of each leaf of a notification: the name then stands in another than the values."""
        pending, self._pending = self._pending, {}
        said, self._said = self._said, {}
        for whose, unnamed in pending.items():
            device, row = self._devices.known[whose[0]], said.get(whose)
            if not row:
                self._metrics.add("unnamed", device.name, len(unnamed))
                continue
            found = [value for one in unnamed for value in self._of_port(device, row, one)]
            if found:
                self._put(device, found, whose[1])

    def _of_port(self, device: Device, row: str, one: _Unnamed) -> list[tuple[int, float]]:
        signal, _, value = one
        slot = device.columns.slot(row, signal)
        if slot is None:
            self._metrics.add("out_of_bounds", device.name)
            return []
        try:
            read = signal.read(value)
        except Reject:
            self._metrics.add("unreadable", device.name)
            return []
        return [] if read is None else [(slot, read)]

    def _put(self, device: Device, found: list[tuple[int, float]], at_ns: int) -> None:
        window = self._windows.get(device.name)
        if window is not None and (window.is_apart(at_ns, self._gap_ns, self._span_ns) or window.repeats(found, at_ns)):
            self._end_unit()
            if not self._began:
                self.safe = Position(self._offset, self._number)
                self._records = 1
            window = None
        if window is None:
            window = self._windows[device.name] = SampleWindow(device, at_ns, at_ns, self._received_ns)
        self._began = True
        window.put(found, at_ns, self._received_ns)
        device.last_received_ns = self._received_ns
        states = device.columns.states
        for slot, value in found:
            if states[slot]:
                self._emit_event(device, device.state(slot, value, at_ns))

    def _emit_event(self, device: Device, happening: DeviceEvent | None) -> None:
        if happening is not None and self._ordinal < _ORDINALS - 1:
            self._ordinal += 1
            number = self._offset * _ORDINALS + self._ordinal
            if happening.at_ns > self._received_ns + AHEAD_NS:
                happening = replace(happening, at_ns=self._received_ns)
            self._out.append(NumberedEvent(device.name, number, happening, self._received_ns))

    def _cut_before(self, offset: int) -> None:
        self._end_unit()
        self.safe = Position(offset, self._number)
        self._records = 0

    def _end_unit(self) -> None:
        windows, self._windows = self._windows, {}
        for window in windows.values():
            found = window.reading()
            if found is None:
                continue
            reading, is_ahead = found
            device = window.device
            if is_ahead:
                self._metrics.add("clock_replaced", device.name)
            device.last_sample_at_ns = max(device.last_sample_at_ns, reading.sampled_at_ns)
            self._out.append(Gathered(device.name, self._number, reading))
        self._number += bool(windows)

    def _label(self, measurement: str) -> str:
        """A measurement's name as the label of a count, of which there are not without end."""
        label = measurement[:_LONGEST_LABEL]
        if label not in self._labels:
            if len(self._labels) >= _MOST_LABELS:
                return "(others)"
            self._labels.add(label)
        return label

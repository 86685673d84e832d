"""Converts the records of one source topic's partition to numbered readings and events. Pure.

A partition is cut into units. A unit has at most one reading per device; its number is the sequence of the reading's
message. The end of a unit depends only on the records since its beginning. Cuts of quiet units are the exception: they
are declared in the committed metadata before their readings are published. So a process that starts again at a
committed position makes the same messages with the same identities.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from collectors.bridge import json_points, line_protocol
from collectors.bridge.devices import (
    FULL,
    NO_ENTRY,
    NOT_EXAMINED,
    OTHERS,
    UNKNOWN,
    Device,
    Devices,
    SampleWindow,
    other,
)  # fmt: skip
from collectors.bridge.left_out import Reason
from collectors.bridge.params import Format, Params
from collectors.bridge.points import Point, Scalar, Source, TooManyInvalid
from collectors.bridge.series import Input, Series
from collectors.bridge.tables import Kind, Signal, with_sums
from collectors.core.clock import AHEAD_NS
from collectors.core.columns import Reading
from collectors.core.context import DeviceEvent
from collectors.core.device_share import json_elements
from streams.wire.errors import Reject

_REGISTRY = b"\0"
"""The first byte of records in the format of Confluent's schema registry; no text begins with it."""
_MOST_RECORDS = 5_000
"""Limit per unit. A unit that could end only at a cut inside a record could never be committed."""
_MOST_BYTES = 4 << 20
"""Limit per record: Kafka's default is 1 MiB."""
_MOST_ELEMENTS = 600_000
"""Limit of members, items and containers of JSON: the parser takes 0.9 s for 2 million lists in 4 MiB."""
_MOST_VALUES, _MOST_POINTS = 200_000, 50_000
"""Limits per record: more than 4 MiB of a real source have; a list in JSON has two bytes an item."""
_PLAIN = 2**63 - 1
"""Integers below this are counters without conversion; values.counter checks the others."""
_SHORT = 19
"""A number with fewer digits than this is below _PLAIN."""
_LONGEST_LABEL = 64
_MOST_LABELS = 1_000
_ORDINALS = 2**16
_SECOND_NS = 10**9
_COARSE_SPACING_NS = 20 * 10**9
"""The shortest interval between two readings in whole seconds whose counters are used."""


@dataclass(frozen=True, slots=True)
class Position:
    """The next unread record, at which no unit is open, and the number of the unit that starts there."""

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
    """An event of a device, and its number."""

    device: str
    number: int
    event: DeviceEvent
    received_ns: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A record, or part of one, that could not be parsed."""

    offset: int
    reason: str
    value: bytes


Output = Gathered | NumberedEvent | Refused

_Unnamed = tuple[Signal, str, Scalar]
"""A value of a port that its path does not name: signal, containing list item, value."""
_SeriesOwner = tuple[str, int, str]
"""(device, time, list item): values of one record with the same key belong to one port."""


class PartitionFold:
    """The state of one partition. `declared` has the offsets of declared cuts, which are repeated exactly."""

    def __init__(
        self, devices: Devices, params: Params, form: Format, start: Position, declared: Iterable[int] = ()
    ) -> None:
        self.devices = devices
        self._metrics = devices.metrics
        self._left_out = devices.left_out
        self._form = form
        self._gap_ns = int(params.gap_s * 1e9)
        self._span_ns = int(params.span_s * 1e9)
        self.safe = start
        self.next_offset = start.offset
        self.declared = sorted(declared)
        self._number = start.number
        self._windows: dict[str, SampleWindow] = {}
        self._records = 0
        self._heads = line_protocol.Heads()
        self._out: list[Output] = []
        self._labels: set[str] = set()
        self._offset = start.offset
        self._ordinal = 0
        self._began = False
        self._received_ns = 0
        self._unnamed: list[_Unnamed] = []
        self._names: dict[str, str] = {}
        self._pending: dict[_SeriesOwner, list[_Unnamed]] = {}
        self._port_names: dict[_SeriesOwner, str] = {}

    @property
    def is_gathering(self) -> bool:
        """True if any value waits for the end of its unit."""
        return bool(self._windows)

    @property
    def gathering(self) -> frozenset[str]:
        """The devices with waiting values."""
        return frozenset(self._windows)

    def add(self, record: Source, received_ns: int) -> list[Output]:
        """Process the next record; return the outputs that are complete."""
        self._out = []
        self._received_ns = received_ns
        if record.offset < self.next_offset:  # the topic was recreated
            self.declared = []
        while self.declared and self.declared[0] <= record.offset:
            self._cut_before(self.declared.pop(0))
        if self._records >= _MOST_RECORDS:
            self._cut_before(record.offset)
        self._offset, self._ordinal, self._began = record.offset, 0, False
        self._records += 1
        self.devices.begin_record()
        points, is_gnmic, refused = _points(self._form, record.value, self._heads)
        unknown: Counter[str] = Counter()
        for point in points:
            self._point(point, record.at_ns, unknown, is_gnmic=is_gnmic)
        if self._pending or self._port_names:
            self._resolve_remaining()
        for label, count in unknown.items():
            self._metrics.add("unknown", self._label(label), count)
        if refused:
            self._metrics.add("poisoned", count=len(refused))
            self._left_out.report(
                Reason.BAD_RECORD, str(refused[0]).partition(":")[0], lambda: f"{refused[0]} in {record.value!r}"
            )
            others = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            self._out.append(Refused(record.offset, f"{refused[0]}{others}", record.value))
        self.next_offset = record.offset + 1
        if not self._windows:
            self.safe = Position(self.next_offset, self._number)
            self._records = 0
        return self._out

    def cut(self) -> list[Output]:
        """End the unit here; `next_offset` must be declared before the returned outputs are published."""
        self._out = []
        self._cut_before(self.next_offset)
        return self._out

    def _point(self, point: Point, record_ns: int, unknown: Counter[str], *, is_gnmic: bool) -> None:
        at_ns = point.at_ns or record_ns or self._received_ns
        series = self.devices.series(point, is_gnmic=is_gnmic)
        device = self.devices.device(series.device) if series.device else None
        if device is None:
            unknown[point.name] += len(point.fields)
            if not series.device:
                reason = Reason.NO_INPUT if series.input is None else Reason.NO_DEVICE
                self._left_out.report(reason, point.name, lambda: f"{dict(point.tags)} {point.fields[:1]}")
            return
        is_polled = series.input not in (Input.GNMIC, Input.GNMI)
        if not is_polled:
            at_ns = device.sample_ns(at_ns, record_ns)
        found, unknown_count = self._values(series, device, point, at_ns)
        if unknown_count:
            unknown[point.name] += unknown_count
        if self._unnamed or self._names:
            found += self._resolve_names(device, at_ns)
        if found:
            # Telegraf rounds the times of what it polls (`precision`), also if it writes them in ns.
            is_rounded = is_polled and at_ns % _SECOND_NS == 0
            self._put(device, found, at_ns, is_coarse=point.is_coarse or is_rounded)

    def _values(self, series: Series, device: Device, point: Point, at_ns: int) -> tuple[list[tuple[int, float]], int]:
        """Return (slot, value) of the plain values, and the number of unknown fields; process all other values."""
        targets, columns = series.targets, device.columns
        plain, reads = columns.plain, columns.signals
        found: list[tuple[int, float]] = []
        unknown_count, unreadable = point.skipped, 0
        for name, value in with_sums(point.fields) if series.input is Input.SNMP else point.fields:
            slot = targets.get(name)
            if slot is None:
                slot = self.devices.target(series, device, name, store_unknown=point.skip is None)
                if slot in (UNKNOWN, NO_ENTRY):
                    self._report_unknown(series, point, name, value)
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
                except Reject as error:
                    unreadable += 1
                    self._left_out.report(Reason.BAD_VALUE, f"{point.name} {name}", partial(str, error))
                    continue
                if read is not None:
                    found.append((slot, read))
            elif slot in (UNKNOWN, NO_ENTRY, NOT_EXAMINED):
                unknown_count += 1
                if slot == UNKNOWN and point.skip is not None:
                    point.skip.add(name)
            elif slot != FULL:
                unreadable += not self._other(series, device, slot, value, at_ns)
        self._metrics.add("updates", device.name, len(point.fields) + point.skipped - unknown_count)
        if unreadable:
            self._metrics.add("unreadable", device.name, unreadable)
        return found, unknown_count

    def _report_unknown(self, series: Series, point: Point, name: str, value: Scalar) -> None:
        """Log a field that is not collected, once per measurement and path: a NIC has 2,000 statistics."""
        where = series.row or dict(series.tags)
        kind = f"{point.name} {path}" if (path := point.tags.get("path")) else point.name
        self._left_out.report(Reason.NO_SIGNAL, kind, lambda: f"{name}={value!r} of {series.device} {where}")

    def _other(self, series: Series, device: Device, slot: int, value: Scalar, at_ns: int) -> bool:
        """Process a field that is not a plain value of a named port; return False if it is invalid."""
        signal, scope = series.others[OTHERS - slot]
        if signal.kind is Kind.NAME:
            self._names[scope] = str(value)[:256]
            return True
        if signal.kind is Kind.VALUE:
            self._unnamed.append((signal, scope, value))
            return True
        try:
            self._emit_event(device, other(device, signal, value, at_ns))
        except Reject as error:
            self._left_out.report(Reason.BAD_VALUE, f"{series.name} {signal.kind.value}", partial(str, error))
            return False
        return True

    def _resolve_names(self, device: Device, at_ns: int) -> list[tuple[int, float]]:
        """Return the values of ports whose names are in the same point; the others wait for the end of the record."""
        unnamed, self._unnamed = self._unnamed, []
        names, self._names = self._names, {}
        found: list[tuple[int, float]] = []
        for one in unnamed:
            if row := names.get(one[1]):
                found += self._of_port(device, row, one)
            else:
                self._pending.setdefault((device.name, at_ns, one[1]), []).append(one)
        if not unnamed:
            self._port_names |= {(device.name, at_ns, scope): row for scope, row in names.items()}
        return found

    def _resolve_remaining(self) -> None:
        """Resolve names across the record: gnmic makes an event of each leaf of a notification, also of the name."""
        pending, self._pending = self._pending, {}
        port_names, self._port_names = self._port_names, {}
        for owner, unnamed in pending.items():
            device, row = self.devices.known[owner[0]], port_names.get(owner)
            if not row:
                self._metrics.add("unnamed", device.name, len(unnamed))
                self._left_out.report(Reason.NO_PORT, device.name, partial(str, unnamed[0][0].metric))
                continue
            found = [value for one in unnamed for value in self._of_port(device, row, one)]
            if found:
                self._put(device, found, owner[1])

    def _of_port(self, device: Device, row: str, one: _Unnamed) -> list[tuple[int, float]]:
        signal, _, value = one
        slot = device.columns.slot(row, signal)
        if slot is None:
            self._metrics.add("out_of_bounds", device.name)
            self._left_out.report(Reason.FULL, device.name, lambda: row)
            return []
        try:
            read = signal.read(value)
        except Reject as error:
            self._metrics.add("unreadable", device.name)
            self._left_out.report(Reason.BAD_VALUE, f"{device.name} {signal.metric}", partial(str, error))
            return []
        return [] if read is None else [(slot, read)]

    def _put(self, device: Device, found: list[tuple[int, float]], at_ns: int, *, is_coarse: bool = False) -> None:
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
        window.is_coarse |= is_coarse
        window.put(found, at_ns, self._received_ns)
        device.last_received_ns = self._received_ns
        states = device.columns.states
        for slot, value in found:
            if states[slot]:
                self._emit_event(device, device.state(slot, value, at_ns))

    def _emit_event(self, device: Device, event: DeviceEvent | None) -> None:
        if event is not None and self._ordinal < _ORDINALS - 1:
            self._ordinal += 1
            number = self._offset * _ORDINALS + self._ordinal
            if event.at_ns > self._received_ns + AHEAD_NS:
                event = replace(event, at_ns=self._received_ns)
            self._out.append(NumberedEvent(device.name, number, event, self._received_ns))

    def _cut_before(self, offset: int) -> None:
        self._end_unit()
        self.safe = Position(offset, self._number)
        self._records = 0

    def _end_unit(self) -> None:
        windows, self._windows = self._windows, {}
        for window in windows.values():
            if window.is_coarse:
                self._check_coarse(window)
            found = window.reading()
            if found is None:
                continue
            reading, is_ahead = found
            device = window.device
            self._emit_event(device, device.add_reading(reading))
            reading = replace(reading, boot_id=device.boot_id)
            if is_ahead:
                self._metrics.add("clock_replaced", device.name)
            device.last_sample_at_ns = max(device.last_sample_at_ns, reading.sampled_at_ns)
            self._out.append(Gathered(device.name, self._number, reading))
        self._number += bool(windows)

    def _check_coarse(self, window: SampleWindow) -> None:
        """Drop the counters of a reading whose rates would be wrong by more than 5 %. It keeps its number.

        A time cut to whole seconds is up to 1 s early, so a rate over 20 s is wrong by up to 5 %.
        """
        device = window.device
        spacing_ns, device.last_coarse_ns = window.first_ns - device.last_coarse_ns, window.first_ns
        if spacing_ns < _COARSE_SPACING_NS and (dropped := window.drop_counters()):
            self._metrics.add("coarse_times", device.name, dropped)
            self._left_out.report(Reason.WHOLE_SECONDS, device.name, lambda: f"time {window.first_ns // 10**9}")

    def _label(self, measurement: str) -> str:
        """Return a measurement's name as a metric label; the number of labels is limited."""
        label = measurement[:_LONGEST_LABEL]
        if label not in self._labels:
            if len(self._labels) >= _MOST_LABELS:
                return "(others)"
            self._labels.add(label)
        return label


def _points(form: Format, value: bytes, heads: line_protocol.Heads) -> tuple[list[Point], bool, list[Reject]]:
    """Return the points of a record, True if they are gnmic's, and the reasons of refused parts."""
    points: list[Point] = []
    refused: list[Reject] = []
    is_gnmic = False
    try:
        if len(value) > _MOST_BYTES:
            raise Reject(f"has {len(value)} bytes, more than {_MOST_BYTES}: write smaller batches")
        if value[:1] == _REGISTRY:
            raise Reject(
                f"begins with the five bytes of a schema registry (0, id {int.from_bytes(value[1:5], 'big')}): "
                "write plain JSON or line protocol, without a serializer of a registry"
            )
        if form == "telegraf-influx" or (form == "auto" and value.lstrip()[:1] not in {b"{", b"["}):
            points.extend(_bounded(line_protocol.points(value.decode(), heads, refused)))
        else:
            if (count := json_elements(value)) > _MOST_ELEMENTS:
                raise Reject(f"has {count} elements of JSON, more than {_MOST_ELEMENTS}: write smaller batches")
            document = json_points.parse_document(value)
            is_gnmic = form == "gnmic" or (form == "auto" and not json_points.is_telegraf(document))
            points.extend(_bounded(json_points.points(document, refused, is_gnmic=is_gnmic)))
    except UnicodeDecodeError as error:
        refused.append(Reject(f"not UTF-8: {error.reason} at byte {error.start}"))
    except Reject as error:
        refused.append(error)
    except TooManyInvalid:
        refused.append(Reject("further parts are not examined"))
    return points, is_gnmic, refused


def _bounded(points: Iterator[Point]) -> Iterator[Point]:
    """Yield the points of a record up to the limit of its values; raises Reject there."""
    values = 0
    for number, point in enumerate(points):
        values += len(point.fields) + point.skipped
        if values > _MOST_VALUES or number >= _MOST_POINTS:
            raise Reject(
                f"has more than {_MOST_VALUES} values or {_MOST_POINTS} points: further ones are not read; "
                "write smaller batches"
            )
        yield point

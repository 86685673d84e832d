"""Finds ports about which two collectors send reports that exclude each other.

The origin of a reading is its source and the run of its collector: a random number, which a host that may only write
does not know. Two origins contradict each other if one reads a port as up and the other as down, or one counts errors
and the other traffic without errors, in several readings of both in turn: a change of the port, or a clock that is
wrong by a second, explains one reading and not several. A down that another run than that of the readings reports is a
contradiction if the readings show the port up and the run has sent no reading 30 s later, or three intervals of the
readings: a collector that has just started reports downs before it reads.

Errors in a counter that only one origin reads are in doubt until it shows that it reads the port: its counter of
traffic lies near that of the other origin, which a host that may only write does not know either.

A device with one origin costs a comparison for each message. Readings are compared in order of event time, after the
lateness, so that their order of arrival has no effect.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streams.detect.measure.monitors.monitor import Monitor, NumberedSymptom
from streams.detect.measure.storage.column_store import NEVER_NS
from streams.detect.measure.storage.message_batch import LateMessage, MessageBatch, PendingMessage
from streams.detect.measure.storage.reading_store import ReadingStore
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import ABSENT_COUNTER, NO_INDEX, Event, EventKind, RowKind, Source, Symptom, Table
from streams.wire.symptoms import Fault, PortFault

_STATE = (Metric.OPER_UP, NO_INDEX)
_ERRORS = (
    Metric.RX_FCS_ERRORS, Metric.RX_SYMBOL_ERRORS, Metric.PCS_SYMBOL_ERRORS, Metric.FEC_UNCORRECTED_CODEWORDS,
    Metric.UNCORRECTED_SYMBOLS,
)  # fmt: skip
_TRAFFIC = (Metric.RX_BYTES, Metric.RX_PACKETS)
_COLUMNS = (_STATE, *((metric, NO_INDEX) for metric in _ERRORS))
"""The columns that are compared: an agent of hosts that reads only the PCIe links of ports is no origin."""
_GOOD, _BAD = ("reads it up", *(f"counts no {m.name.lower()}" for m in _ERRORS)), (
    "reads it down", *(f"counts {m.name.lower()}" for m in _ERRORS),
)  # fmt: skip
_SKEW_NS = ns(2)
"""Two clocks may each be wrong by a second: a later time is replaced by that of the arrival (DESIGN 2.1)."""
_INTERVALS = 2
"""Both origins persist for this many of the longer interval, so that each has three readings."""
_STALE_NS = ns(200)
"""An origin without readings for this long, three usual intervals of SNMP, has ended."""
_LONGEST_GAP_NS = ns(60)
_EVERY_NS = ns(60)
"""A port is reported at most once in this time."""
_STRANGE_NS = ns(30)
"""The least time in which a collector that has started sends its first reading."""
_STRANGE_INTERVALS = 3
_MOST_STRANGERS, _LONGEST_NAME = 4096, 64

Origin = tuple[Source, int]
Cells = npt.NDArray[Any]


class _Reading(NamedTuple):
    """The values of one message about the ports of a device; the first line of `values` is the state, NaN is absent."""

    at_ns: int
    device: str
    origin: Origin
    collector: str
    rows: tuple[str, ...]
    values: Cells
    traffic: Cells
    """Received bytes, else packets, else NaN."""


@dataclass(slots=True)
class _Claims:
    """The claims of one origin about each port: 1 for up and no errors, -1 for down and errors, 0 for unknown."""

    newest: _Reading
    claims: Cells
    since_ns: Cells
    gap_ns: int = 0
    """The longest interval between its readings, of which a tenth is forgotten at each reading."""
    traffic_growth: Cells = field(default_factory=lambda: np.zeros(0))
    """The traffic between its two newest readings."""
    index: dict[str, int] = field(default_factory=dict)

    def add(self, reading: _Reading) -> None:
        """Add the next reading of the origin."""
        before, values = self.newest, reading.values
        claims, since_ns = _states(reading), np.full(values.shape, reading.at_ns)
        if before.rows == reading.rows:
            grown = values[1:] - before.values[1:]
            is_good = (grown == 0) & (reading.traffic > before.traffic)
            claims[1:] = np.where(grown > 0, -1, is_good)
            self.traffic_growth = reading.traffic - before.traffic
            since_ns[1:] = before.at_ns
            unread = np.isnan(values)
            is_same = unread | (claims == self.claims)
            claims, since_ns = np.where(unread, self.claims, claims), np.where(is_same, self.since_ns, since_ns)
            reading = reading._replace(values=np.where(unread, before.values, values))
            self.gap_ns = min(max(reading.at_ns - before.at_ns, self.gap_ns * 9 // 10), _LONGEST_GAP_NS)
        else:
            self.index, self.traffic_growth = {}, np.zeros(len(reading.rows))
        self.newest, self.claims, self.since_ns = reading, claims, since_ns

    def places(self, rows: Iterable[str]) -> list[int]:
        """Return the place of each row, -1 for one that this origin does not read."""
        self.index = self.index or {row: place for place, row in enumerate(self.newest.rows)}
        return [self.index.get(row, -1) for row in rows]


def _read_the_same(own: _Claims, other: _Claims, places: Cells) -> Cells:
    """Return for each row of `own` whether both origins count the same traffic of a port, within three intervals."""
    if not len(own.traffic_growth) or not len(other.traffic_growth):
        return np.zeros(len(own.newest.rows), np.bool_)
    near = 3 * np.fmax(own.traffic_growth, other.traffic_growth[places])
    are_near: Cells = (near > 0) & (np.abs(own.newest.traffic - other.newest.traffic[places]) <= near)
    return are_near


def _states(reading: _Reading) -> Cells:
    claims = np.zeros(reading.values.shape, np.int8)
    claims[0] = np.where(reading.values[0] > 0, 1, np.where(reading.values[0] <= 0, -1, 0))
    return claims


def _read(message: PendingMessage) -> _Reading:
    samples = message.samples
    values = [_column(samples.gauges, _STATE, len(samples.row))]
    values += [_column(samples.counters, (metric, NO_INDEX), len(samples.row)) for metric in _ERRORS]
    octets, packets = (_column(samples.counters, (metric, NO_INDEX), len(samples.row)) for metric in _TRAFFIC)
    return _Reading(
        message.at_ns, samples.device, (samples.source, samples.collector_run), samples.collector[:_LONGEST_NAME],
        tuple(samples.row), np.array(values), np.where(np.isnan(octets), packets, octets),
    )  # fmt: skip


def _column(table: Table, column: tuple[Metric, int], rows: int) -> Cells:
    for place, known in enumerate(zip(table.metric, table.index, strict=True)):
        if known == column:
            values = table.values[place].astype(np.float64)
            return np.where(values >= ABSENT_COUNTER, np.nan, values)
    return np.full(rows, np.nan)


class ContradictionMonitor(Monitor):
    """Tracks the claims of the origins of devices that have several; normally none."""

    name = "contradictions"

    def __init__(self, params: DetectParams) -> None:
        self._lateness_ns = ns(params.lateness_s)
        self._newest_ns = 0
        self._origin_of: dict[str, Origin] = {}
        """The origin of the newest reading of each device."""
        self._origins: dict[str, dict[Origin, _Claims | None]] = {}
        """None until the lateness of the first reading of an origin has passed."""
        self._waiting: list[tuple[int, int, _Reading]] = []
        self._count = 0
        self._reported: dict[tuple[str, str], int] = {}
        self._strangers: dict[tuple[str, int], int] = {}
        """Device and run of a down that no reading of the run accompanies -> its time."""

    def is_relevant(self, batch: MessageBatch) -> bool:
        own = batch.gauges.mapping.position_of, batch.counters.mapping.position_of
        read = any(column in columns for columns in own for column in _COLUMNS)
        return batch.row_kind is RowKind.ROW_KIND_PORT and read

    def process(self, batch: MessageBatch, topology: Topology) -> Iterator[NumberedSymptom]:
        origin_of, origins = self._origin_of, self._origins
        for message in batch.messages:
            samples = message.samples
            origin, device = (samples.source, samples.collector_run), samples.device
            if device not in origin_of or origin_of[device] != origin or device in origins:
                self._add(message, origin)
        return self._compare_waiting(batch, topology) if self._waiting else iter(())

    def process_late(self, late: LateMessage, topology: Topology) -> Iterator[NumberedSymptom]:
        message = late.message
        if message.samples.row_kind is RowKind.ROW_KIND_PORT and message.samples.device in self._origins:
            self._wait(message)
        return iter(())

    def _add(self, message: PendingMessage, origin: Origin) -> None:
        device = message.samples.device
        if device in self._origin_of:
            self._origins.setdefault(device, {}).setdefault(origin, None)
            self._wait(message)
        self._origin_of[device] = origin

    def _wait(self, message: PendingMessage) -> None:
        self._count += 1
        heappush(self._waiting, (message.at_ns, self._count, _read(message)))

    def _compare_waiting(self, batch: MessageBatch, topology: Topology) -> Iterator[NumberedSymptom]:
        messages = batch.messages
        self._newest_ns = max(self._newest_ns, *(message.at_ns for message in messages))
        # A backlog has minutes of a device in one batch: earlier readings of its other origins may still follow.
        until_ns = min(self._newest_ns - self._lateness_ns, batch.rest_ns)
        while self._waiting and self._waiting[0][0] <= until_ns:
            for symptom in self._compare(heappop(self._waiting)[2], topology):
                yield messages[-1].number, symptom

    def _compare(self, reading: _Reading, topology: Topology) -> Iterator[Symptom]:
        device, at_ns = reading.device, reading.at_ns
        origins = self._origins.get(device, {})
        own = origins.get(reading.origin)
        if own is None:
            states = _states(reading)
            own = origins[reading.origin] = _Claims(reading, states, np.full(states.shape, at_ns))
        elif at_ns > own.newest.at_ns:
            own.add(reading)
        for origin, other in list(origins.items()):
            if other is None:
                continue
            if at_ns - other.newest.at_ns > max(_STALE_NS, 3 * other.gap_ns):
                del origins[origin]
            elif origin != reading.origin:
                yield from self._contradictions(own, other, topology)
        if len(origins) == 1 and at_ns - int(own.since_ns[0].min(initial=at_ns)) > _STALE_NS:
            self._origins.pop(device, None)

    def _contradictions(self, own: _Claims, other: _Claims, topology: Topology) -> Iterator[Symptom]:
        gap_ns = max(own.gap_ns, other.gap_ns)
        if not min(own.gap_ns, other.gap_ns) or not other.newest.rows:
            return
        places = np.array(other.places(own.newest.rows), np.intp)
        claims = other.claims[:, places]
        opposed = own.claims * claims == -1
        unread = np.isnan(own.newest.values), np.isnan(other.newest.values[:, places])
        in_doubt = ((own.claims == -1) & unread[1] | (claims == -1) & unread[0]) & ~_read_the_same(own, other, places)
        opposed[1:] |= in_doubt[1:]
        opposed &= places >= 0
        if not opposed.any():
            return
        until_ns = min(own.newest.at_ns, other.newest.at_ns)
        lasting_ns = until_ns - np.maximum(own.since_ns, other.since_ns[:, places])
        for kind, row in zip(*np.nonzero(opposed & (lasting_ns >= _INTERVALS * gap_ns + _SKEW_NS)), strict=True):
            good, bad = (other, own) if own.claims[kind, row] < 0 else (own, other)
            place = row if good is own else places[row]
            is_read = good.claims[kind, place] > 0
            text = f"{_name(good.newest)} {_GOOD[kind] if is_read else 'reads another counter'}"
            text += f", and {_name(bad.newest)} {_BAD[kind]}"
            yield from self._report(own.newest, own.newest.rows[row], text, topology)

    def _report(self, reading: _Reading, row: str, text: str, topology: Topology) -> Iterator[Symptom]:
        port, at_ns = topology.resolve_port(reading.device, row), reading.at_ns
        if at_ns - self._reported.get(port, -_EVERY_NS) < _EVERY_NS:
            return
        if len(self._reported) >= _MOST_STRANGERS:
            self._reported.clear()
        self._reported[port] = at_ns
        yield Symptom(*port, PortFault(Fault.CONTRADICTED, report=text), at_ns, source=reading.origin[0])

    def process_event(self, event: Event, at_ns: int, readings: ReadingStore, topology: Topology) -> Iterator[Symptom]:
        """Compare a down with the readings of its source, if they are of another run."""
        device, run = event.device, event.collector_run
        if event.kind is not EventKind.LINK_DOWN or not run or not event.port:
            return
        runs = {run for source, run in (*self._origins.get(device, ()), self._origin_of.get(device, (None, 0)))
                if source is event.source}  # fmt: skip
        slot = readings.slots.get((device, event.source, RowKind.ROW_KIND_PORT))
        if slot is None or not runs or run in runs or at_ns - slot.newest_ns > _STALE_NS:
            self._strangers.pop((device, run), None)
            return
        gauges, row = slot.block.gauges, slot.row_of(topology.resolve_port(device, event.port).port, topology)
        place = gauges.index_of.get(_STATE)
        if not row or place is None or not gauges.values[slot.index, place, slot.rows.index(row)] > 0:
            return
        if len(self._strangers) >= _MOST_STRANGERS:
            self._strangers.clear()
        interval_ns = int(slot.block.counters.typical_interval_ns[slot.index])
        needed_ns = max(_STRANGE_NS, _STRANGE_INTERVALS * interval_ns) if interval_ns < NEVER_NS else _STRANGE_NS
        if at_ns - self._strangers.setdefault((device, run), at_ns) >= needed_ns:
            name = _name(_Reading(at_ns, device, (event.source, run), event.collector[:_LONGEST_NAME], (), *_NOTHING))
            text = f"{name} reports it down without readings, and those of run {min(runs):x} show it up"
            reading = _Reading(at_ns, device, (event.source, run), "", (), *_NOTHING)
            yield from self._report(reading, row, text, topology)

    def dump(self) -> list[list[Any]]:
        return [[*key, at_ns] for key, at_ns in self._strangers.items()]

    def load(self, data: Iterable[Iterable[Any]]) -> None:
        self._strangers = {(device, run): at_ns for device, run, at_ns in data}


_NOTHING = (np.zeros((1, 0)), np.zeros(0))


def _name(reading: _Reading) -> str:
    source, run = reading.origin
    return f"{source.name.removeprefix('SOURCE_').lower()} of {reading.collector or 'a collector'} (run {run:x})"

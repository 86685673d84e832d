"""Defines the interface of monitors, and the common code of conditions that begin and end.

A monitor finds the symptoms of one kind of condition in readings and events. The stage iterates its monitors and names
none. A monitor writes nothing into the storage of readings: it adds transitions to the batch or the late message, and
the store adds them to its history.
"""

import math
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from streams.detect.measure.storage.column_store import Column, MappingCache, is_absent
from streams.detect.measure.storage.message_batch import LateMessage, MessageBatch, PendingMessage
from streams.detect.measure.storage.reading_store import ReadingStore
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Event, RowKind, Source, Symptom, SymptomsReplaced
from streams.wire.symptoms import Congestion, CongestionEnded, CongestionState

NumberedSymptom = tuple[int, Symptom]
"""The number of the message that shows a symptom, and the symptom."""
NumberedOutput = tuple[int, Symptom | SymptomsReplaced]
Columns = dict[Column, int]
"""Counters of a monitor, and their positions in the messages of a batch."""
Cell = tuple[int, int, int]
"""Message and row in a batch, and the direction of pause (0 if there is only one)."""


@dataclass(slots=True)
class ActiveCondition:
    """A condition of one port; `last_ns` is the last reading that showed it."""

    since_ns: int
    last_ns: int
    is_reported: bool = False
    before_bps: float = 0.0
    """The rate before it began, if the condition is compared with it."""


class ActiveConditions:
    """The active conditions of one state, or of each direction of pause, by device and source, then by port.

    A start is reported once the condition has lasted for `hold_s`, and later its end.
    """

    def __init__(self, hold_s: float, *states: CongestionState) -> None:
        self._hold_ns, self._states = ns(hold_s), states
        self.by_source: dict[tuple[str, Source], dict[tuple[str, int], ActiveCondition]] = {}
        """Row and direction (0 if there is only one) -> condition. Callers first check whether it is empty, as in a
        healthy fabric, which costs no call."""

    def get(self, interval: "PortInterval") -> ActiveCondition | None:
        return self.by_source.get(interval.source_key, {}).get((interval.name, interval.direction))

    def extend(self, interval: "PortInterval", since_ns: int) -> ActiveCondition:
        own = self.by_source.setdefault(interval.source_key, {})
        at_ns = interval.message.at_ns
        condition = own.setdefault((interval.name, interval.direction), ActiveCondition(since_ns, at_ns))
        condition.last_ns = at_ns
        return condition

    def has_lasted(self, condition: ActiveCondition) -> bool:
        """Return True once, when a condition has lasted long enough to report its start."""
        lasts = not condition.is_reported and condition.last_ns - condition.since_ns >= self._hold_ns
        condition.is_reported = condition.is_reported or lasts
        return lasts

    def end(self, interval: "PortInterval") -> Iterator[NumberedSymptom]:
        """End a condition; yield its end if its start was reported."""
        key = interval.source_key
        condition = self.by_source.get(key, {}).pop((interval.name, interval.direction), None)
        if not self.by_source.get(key, True):
            del self.by_source[key]
        if condition is not None and condition.is_reported:
            yield interval.symptom(CongestionEnded(self._states[interval.direction], condition.last_ns))

    def put(self, key: tuple[str, Source], conditions: dict[tuple[str, int], ActiveCondition]) -> None:
        self.by_source.pop(key, None)
        if conditions:
            self.by_source[key] = conditions

    def active_cells(self, batch: MessageBatch) -> Iterator[Cell]:
        """Yield the message, row and direction of the conditions of ports that a batch reads."""
        for number, message in enumerate(batch.messages):
            for row, direction in self.by_source.get((message.samples.device, message.samples.source), ()):
                if row in message.samples.row:
                    yield number, message.samples.row.index(row), direction

    def dump(self) -> list[list[Any]]:
        return [
            [device, int(source), row, direction, one.since_ns, one.last_ns, one.is_reported, one.before_bps]
            for (device, source), own in self.by_source.items()
            for (row, direction), one in own.items()
        ]

    def load(self, data: Iterable[Iterable[Any]]) -> None:
        for device, source, row, direction, *fields in data:
            condition = ActiveCondition(*fields)
            self.by_source.setdefault((device, Source(source)), {})[row, direction] = condition


class Monitor(Protocol):
    """Finds symptoms; a method that a monitor does not define finds none."""

    name: str
    """The key of its state in snapshots."""
    previews_events: bool = False
    """True if the symptoms of an event follow from the event alone, without state or readings."""

    def is_relevant(self, batch: MessageBatch) -> bool:
        """Return whether batches of these rows and columns concern it; called once for each combination of columns."""
        return False

    def process(self, batch: MessageBatch, topology: Topology) -> Iterable[NumberedSymptom]:
        """Return the symptoms that a batch shows, compared with the previous readings."""
        return ()

    def process_late(self, late: LateMessage, topology: Topology) -> Iterable[NumberedOutput]:
        """Return the symptoms that a message older than its device's last one would have shown in time."""
        return ()

    def process_event(self, event: Event, at_ns: int, readings: ReadingStore, topology: Topology) -> Iterable[Symptom]:
        """Return the symptoms of an event; `at_ns` is its time, corrected if the device's clock is ahead."""
        return ()

    def dump(self) -> Any:
        """Return the state for a snapshot, in JSON types."""
        return None

    def load(self, data: Any) -> None:
        """Restore the state that `dump` returned."""
        return


QUANTA_BITS = 65535 * 512
"""A pause frame stops the peer for at most the time of this many bits (IEEE 802.1Qbb)."""

_SLOWEST_BPS = 1e11
"""The assumed speed of a port without a speed in the message, before the inventory is looked up."""

PCIE_STALLS = (Metric.PCIE_STALLED_READ_SECONDS, Metric.PCIE_STALLED_WRITE_SECONDS)
"""Counters of the seconds in which a NIC stalled on PCIe."""


@dataclass(frozen=True, slots=True)
class PortInterval:
    """One row of one message of a batch; `direction` is the direction of pause."""

    batch: MessageBatch
    topology: Topology
    number: int
    row: int
    direction: int = 0

    @property
    def message(self) -> PendingMessage:
        return self.batch.messages[self.number]

    @property
    def name(self) -> str:
        return self.message.samples.row[self.row]

    @property
    def source_key(self) -> tuple[str, Source]:
        return self.message.samples.device, self.message.samples.source

    @property
    def port(self) -> Port:
        """Return the port by the names of the inventory."""
        return self.topology.resolve_port(self.message.samples.device, self.name)

    def read_speed_bps(self) -> float:
        """Return the speed in the message; 0 if it has none."""
        position = self.batch.gauges.mapping.position_of.get((Metric.SPEED_BPS, NO_INDEX))
        speed = float(self.batch.gauges.values[self.number, position, self.row]) if position is not None else 0.0
        return speed if speed > 0 else 0.0

    def speed_bps(self) -> float:
        """Return the speed of the port from the message, else from the inventory; 0 if neither has it."""
        if speed := self.read_speed_bps():
            return speed
        link = self.topology.link_at(self.port)
        return float(link.speed_bps or 0) if link is not None else 0.0

    def since_ns(self, seconds: float) -> int:
        """Return the time that lies this many seconds before the message."""
        return self.message.at_ns - round(seconds * 1e9)

    def counter_delta(self, metric: Metric, index: int = NO_INDEX) -> tuple[float, float] | None:
        """Return the growth of a counter and the seconds in which it grew; None if not read twice, or if it fell."""
        counters = self.batch.counters
        position = counters.mapping.position_of.get((metric, index))
        if position is None:
            return None
        now, before = counters.values[self.number, position, self.row], counters.previous(position)
        was, since_ns = before[self.number, self.row], counters.since_ns(position, self.number, self.row)
        seconds = (self.message.at_ns - since_ns) / 1e9
        if since_ns == 0 or seconds <= 0 or is_absent(np.array([now, was])).any() or now < was:
            return None
        return float(now - was), seconds

    def highest_gauge(self, metrics: Container[Metric]) -> float:
        """Return the highest value in the message of these metrics, of all their lanes or queues; 0 without any."""
        gauges = self.batch.gauges
        places = [place for (metric, _), place in gauges.mapping.position_of.items() if metric in metrics]
        return float(np.nan_to_num(gauges.values[self.number, places, self.row]).max(initial=0.0))

    def symptom(self, payload: Congestion) -> NumberedSymptom:
        message, port = self.message, self.port
        return message.number, Symptom(port.device, port.port, payload, message.at_ns, source=message.samples.source)

    def pcie_stall_ratio(self) -> float:
        """Return the share of the time in which the NIC stalled on PCIe; NaN if it is not counted."""
        deltas = (self.counter_delta(metric) for metric in PCIE_STALLS)
        return max((min(1.0, delta[0] / delta[1]) for delta in deltas if delta is not None), default=math.nan)


_MOST = 2.0**63
"""The largest limit that is compared with growth; a counter cannot grow by more."""


def cells_above(batch: MessageBatch, position: int, per_s: float | npt.NDArray[np.float64]) -> Iterator[Cell]:
    """Yield the cells of a batch in which the counter at a position grew by at least `per_s` per second.

    `per_s` is one limit, or a limit per cell: shape (messages, rows) or (1, 1).
    """
    counters = batch.counters
    now, before = counters.values[:, position], counters.previous(position)
    grew = now > before
    if not np.count_nonzero(grew):
        return
    # a column that was never read has time 0, so its growth per second is low
    times = counters.store.at_ns[counters.devices, counters.mapping.columns[position]]
    seconds = np.maximum(counters.at_ns - times, 1)[:, None] / 1e9
    # integers, because floating point costs twice as much
    much = grew & (now - before >= np.minimum(np.ceil(per_s * seconds), _MOST).astype(np.uint64))
    if np.count_nonzero(much):
        yield from cells_where(much)


def cells_where(mask: npt.NDArray[np.bool_]) -> Iterator[Cell]:
    """Return the cells at which a mask is true, shape (messages, rows); call it only if it is true anywhere."""
    numbers, rows = (places.tolist() for places in np.nonzero(mask))
    return zip(numbers, rows, repeat(0))


def positions_by_index(metric: Metric) -> MappingCache[dict[int, int]]:
    """Return a cache of the positions of a metric's columns by their index."""
    return MappingCache(
        lambda mapping: {index: at for (own, index), at in mapping.position_of.items() if own is metric}
    )


def in_millionths(ratio: float) -> float:
    """Return a ratio in its form on the wire, rounded to millionths."""
    return round(ratio * 1e6) / 1e6


def speeds_of(batch: MessageBatch, unknown: float = _SLOWEST_BPS) -> npt.NDArray[np.float64]:
    """Return the speeds of ports, shape (messages, rows) or (1, 1); `unknown` if the messages do not have them."""
    position = batch.gauges.mapping.position_of.get((Metric.SPEED_BPS, NO_INDEX))
    if position is None:
        return np.full((1, 1), unknown)
    speeds = batch.gauges.values[:, position]
    return np.where(speeds > 0, speeds, unknown)


class ConditionMonitor(Monitor):
    """Finds conditions of ports that begin and end, by comparing the counters of each reading with the previous one.

    Readings are compared as arrays. Python evaluates only the cells in which a counter grew by much, and those of
    active conditions; none in a healthy fabric. `LateReplay` replays its readings if a late one arrives; all its state
    is in `active`.
    """

    def __init__(self, metrics: Container[Metric], *active: ActiveConditions) -> None:
        self.active = active
        self._columns = MappingCache(
            lambda mapping: {column: at for column, at in mapping.position_of.items() if column[0] in metrics}
        )

    def is_relevant(self, batch: MessageBatch) -> bool:
        return batch.row_kind is RowKind.ROW_KIND_PORT and bool(self._columns[batch.counters.mapping])

    def process(self, batch: MessageBatch, topology: Topology) -> list[NumberedSymptom]:
        columns = self._columns[batch.counters.mapping]
        if not columns:
            return []
        cells: dict[Cell, None] = {}
        for active in self.active:
            if active.by_source:
                cells |= dict.fromkeys(active.active_cells(batch))
        cells |= dict.fromkeys(self.grown(batch, columns, topology))
        if not cells:
            return []
        return [one for cell in cells for one in self.evaluate(PortInterval(batch, topology, *cell), columns)]

    def grown(self, batch: MessageBatch, columns: Columns, topology: Topology) -> Iterable[Cell]:
        """Return the cells in which a counter grew by much."""
        return ()

    def evaluate(self, interval: PortInterval, columns: Columns) -> Iterable[NumberedSymptom]:
        """Return the symptoms of one cell."""
        return ()

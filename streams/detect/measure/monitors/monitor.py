"""The interface of monitors, and what those of conditions that begin and end have in common.

A monitor finds the symptoms of one kind of condition in readings and events. The stage iterates its monitors and names
none. A monitor writes nothing into the storage of readings: transitions that it finds go into the batch or the late
message, and the store adds them to its history.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from streams.detect.measure.storage.column_store import is_absent
from streams.detect.measure.storage.message_batch import LateMessage, MessageBatch, PendingMessage
from streams.detect.measure.storage.reading_store import ReadingStore
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Event, Samples, Source, Symptom, SymptomsReplaced
from streams.wire.symptoms import Congestion


@dataclass(slots=True)
class ActiveCondition:
    """A condition of one port; `last_ns` is the last reading that showed it."""

    since_ns: int
    last_ns: int
    is_reported: bool = False
    before_bps: float = 0.0
    """The rate before it began, where the condition is compared with one."""

    def has_lasted(self, after_ns: int) -> bool:
        """Return once, when it has lasted for `after_ns`, that its beginning is to be reported."""
        lasts = not self.is_reported and self.last_ns - self.since_ns >= after_ns
        self.is_reported = self.is_reported or lasts
        return lasts


class ActiveConditions:
    """By device and source, then by row and direction; the direction is 0 where there is one only."""

    def __init__(self) -> None:
        self.by_source: dict[tuple[str, Source], dict[tuple[str, int], ActiveCondition]] = {}
        """Callers check first whether it is empty, as in a healthy fabric, which costs no call."""

    def get(self, samples: Samples, row: str, direction: int = 0) -> ActiveCondition | None:
        """Return the condition of a port as one source reads it."""
        return self.by_source.get((samples.device, samples.source), {}).get((row, direction))

    def extend(self, samples: Samples, row: str, since_ns: int, at_ns: int, direction: int = 0) -> ActiveCondition:
        """Begin a condition at `since_ns`, or extend the one that lasts, to `at_ns`."""
        own = self.by_source.setdefault((samples.device, samples.source), {})
        key = row, direction
        condition = own.get(key) or own.setdefault(key, ActiveCondition(since_ns, at_ns))
        condition.last_ns = at_ns
        return condition

    def end(self, samples: Samples, row: str, direction: int = 0) -> ActiveCondition | None:
        """End a condition; return it where its beginning was reported."""
        key = samples.device, samples.source
        condition = self.by_source.get(key, {}).pop((row, direction), None)
        if not self.by_source.get(key, True):
            del self.by_source[key]
        return condition if condition is not None and condition.is_reported else None

    def put(self, key: tuple[str, Source], conditions: dict[tuple[str, int], ActiveCondition]) -> None:
        """Replace all conditions of a device as one source reads it."""
        self.by_source.pop(key, None)
        if conditions:
            self.by_source[key] = conditions

    def active_cells(self, batch: MessageBatch) -> Iterator[tuple[int, int, int]]:
        """Yield the message, row and direction of the conditions of ports that a batch reads."""
        for number, message in enumerate(batch.messages):
            for row, direction in self.by_source.get((message.samples.device, message.samples.source), ()):
                if row in message.samples.row:
                    yield number, message.samples.row.index(row), direction

    def dump(self) -> list[list[Any]]:
        """Return the state for a snapshot."""
        return [
            [device, int(source), row, direction, one.since_ns, one.last_ns, one.is_reported, one.before_bps]
            for (device, source), own in self.by_source.items()
            for (row, direction), one in own.items()
        ]

    def load(self, data: Iterable[Iterable[Any]]) -> None:
        """Restore what `dump` returned."""
        for device, source, row, direction, *fields in data:
            condition = ActiveCondition(*fields)
            self.by_source.setdefault((device, Source(source)), {})[row, direction] = condition


NumberedSymptom = tuple[int, Symptom]
"""A symptom, and the number of the message that shows it."""
NumberedOutput = tuple[int, Symptom | SymptomsReplaced]


class Monitor(Protocol):
    """Finds symptoms; a method that a monitor does not define finds none."""

    name: str
    """Key of its state in snapshots."""

    def is_relevant(self, batch: MessageBatch) -> bool:
        """Return whether batches of these rows and columns concern it; asked once for each combination of columns."""
        return False

    def process(self, batch: MessageBatch, topology: Topology) -> Iterable[NumberedSymptom]:
        """Return the symptoms that a batch shows, compared with the readings before it."""
        return ()

    def process_late(self, late: LateMessage, topology: Topology) -> Iterable[NumberedOutput]:
        """Return what a message older than its device's last one would have shown in its time."""
        return ()

    def process_event(self, event: Event, at_ns: int, readings: ReadingStore, topology: Topology) -> Iterable[Symptom]:
        """Return the symptoms of an event; `at_ns` is its time, corrected where the device's clock is ahead."""
        return ()

    def dump(self) -> Any:
        """Return the state for a snapshot, as JSON holds it."""
        return None

    def load(self, data: Any) -> None:
        """Restore the state that `dump` returned."""
        return


class ReplayedMonitor(Monitor, Protocol):
    """Finds conditions that begin and end, by comparing each reading with the one before it.

    `LateReplay` replays its readings where one of them comes late; the state is in `active` only.
    """

    @property
    def active(self) -> Sequence[ActiveConditions]:
        """The conditions that last, by which it compares the next reading."""


@dataclass(frozen=True, slots=True)
class MonitorSpec:
    """Makes a monitor; a detector that brings one registers it by this."""

    make: Callable[[Any], Monitor]
    """From the parameters of the detector that brings it."""


@dataclass(frozen=True, slots=True)
class ReplayedMonitorSpec:
    """Makes a monitor that is replayed after a late reading."""

    make: Callable[[Any], ReplayedMonitor]


QUANTA_BITS = 65535 * 512
"""A pause frame stops the peer for at most the time of this many bits (IEEE 802.1Qbb)."""

_SLOWEST_BPS = 1e11
"""Assumed of a port without a speed in the message, before the inventory is looked up."""

PCIE_STALLS = (Metric.PCIE_STALLED_READ_SECONDS, Metric.PCIE_STALLED_WRITE_SECONDS)
"""Counters of the seconds in which a NIC stalled on PCIe."""


@dataclass(frozen=True, slots=True)
class PortInterval:
    """One row of one message of a batch; `direction` is that of pause, `speed_bps` 0 or NaN where unknown."""

    batch: MessageBatch
    number: int
    row: int
    direction: int
    speed_bps: float

    @property
    def message(self) -> PendingMessage:
        """The message."""
        return self.batch.messages[self.number]

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

    def symptom(self, port: Port, payload: Congestion) -> NumberedSymptom:
        """Return the symptom that this interval shows at its port."""
        message = self.message
        source = message.samples.source
        return message.number, Symptom(port.device, port.port, payload, message.at_ns, source=source)

    def pcie_stall_ratio(self) -> float:
        """Return the share of the time in which the NIC stalled on PCIe; NaN where it is not counted."""
        deltas = (self.counter_delta(metric) for metric in PCIE_STALLS)
        return max((min(1.0, delta[0] / delta[1]) for delta in deltas if delta is not None), default=math.nan)


_MOST = 2.0**63
"""The largest limit that is compared with growth: more is no growth of a counter."""


def cells_above(
    batch: MessageBatch, position: int, per_s: float | npt.NDArray[np.float64]
) -> Iterator[tuple[int, int]]:
    """Yield the (message, row) of a batch in which the counter at a position grew by `per_s` a second or more.

    `per_s` is one limit, or one of each cell: shape (messages, rows) or (1, 1).
    """
    counters = batch.counters
    now, before = counters.values[:, position], counters.previous(position)
    grew = now > before
    if not np.count_nonzero(grew):
        return
    # a column that was never read has time 0: over so long a time no growth is much
    times = counters.store.at_ns[counters.devices, counters.mapping.columns[position]]
    seconds = np.maximum(counters.at_ns - times, 1)[:, None] / 1e9
    # in whole numbers: floating point costs twice as much
    much = grew & (now - before >= np.minimum(np.ceil(per_s * seconds), _MOST).astype(np.uint64))
    if np.count_nonzero(much):
        numbers, rows = (places.tolist() for places in np.nonzero(much))
        yield from zip(numbers, rows, strict=True)


def in_millionths(ratio: float) -> float:
    """Return a ratio as it is sent, rounded to millionths."""
    return round(ratio * 1e6) / 1e6


def speeds_of(batch: MessageBatch, unknown: float = _SLOWEST_BPS) -> npt.NDArray[np.float64]:
    """Return the speeds of ports, shape (messages, rows) or (1, 1); `unknown` where the messages do not have them."""
    position = batch.gauges.mapping.position_of.get((Metric.SPEED_BPS, NO_INDEX))
    if position is None:
        return np.full((1, 1), unknown)
    speeds = batch.gauges.values[:, position]
    return np.where(speeds > 0, speeds, unknown)


def speed_of(batch: MessageBatch, number: int, row: int, topology: Topology) -> float:
    """Return the speed of a port, in bit/s: of its message, else of the inventory; 0 where neither has it."""
    samples = batch.messages[number].samples
    shape = len(batch.messages), len(samples.row)
    speed = float(np.broadcast_to(speeds_of(batch, unknown=np.nan), shape)[number, row])
    if speed > 0:
        return speed
    link = topology.link_at(topology.resolve_port(samples.device, samples.row[row]))
    return float(link.speed_bps or 0) if link is not None else 0.0

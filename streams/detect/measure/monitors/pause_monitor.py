"""Which ports are held by pause: paused nearly all the time while nothing goes the way that is paused.

Decided for many messages at once by array arithmetic; Python runs only for cells that were paused nearly all the time,
and for those that are held already. What is told is that it began, once it has lasted, and that it is over.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.congestion_collapse.params import CollapseParams
from streams.detect.detectors.congestion_pfc_storm.params import StormParams
from streams.detect.measure.monitors.active_conditions import ActiveConditions
from streams.detect.measure.monitors.port_interval import PortInterval, in_millionths
from streams.detect.measure.monitors.throttle_monitor import ThrottleMonitor
from streams.detect.measure.monitors.transitions import NumberedSymptom
from streams.detect.measure.storage.column_store import Cells, ColumnMapping, Indices, MappingCache, TableDelta
from streams.detect.measure.storage.reading_store import MessageBatch
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX
from streams.wire.symptoms import CongestionEnded, CongestionState, PauseBegan, PauseDirection, PcieStall

QUANTA_BITS = 65535 * 512
"""A pause frame stops the far side for as long as this many bits take, at most (IEEE 802.1Qbb)."""

_SLOWEST_BPS = 1e11
"""Of a port whose speed the message does not say, until the inventory is asked."""


class Direction(NamedTuple):
    """One direction: what it counts, and which traffic it stops."""

    frames: tuple[Metric, Metric]
    """By priority, and of the whole port."""
    useconds: Metric
    transitions: Metric
    stopped: Metric
    direction: PauseDirection
    state: CongestionState


DIRECTIONS = (
    Direction(
        (Metric.PFC_RX_FRAMES, Metric.PAUSE_RX_FRAMES), Metric.PFC_RX_PAUSE_USECONDS, Metric.PFC_RX_TRANSITIONS,
        Metric.TX_BYTES, PauseDirection.RECEIVED, CongestionState.PAUSE_RECEIVED,
    ),
    Direction(
        (Metric.PFC_TX_FRAMES, Metric.PAUSE_TX_FRAMES), Metric.PFC_TX_PAUSE_USECONDS, Metric.PFC_TX_TRANSITIONS,
        Metric.RX_BYTES, PauseDirection.SENT, CongestionState.PAUSE_SENT,
    ),
)  # fmt: skip
_IS_PAUSED = 0
"""The way in which a port is paused by the far side."""
_USECONDS = (Metric.PFC_RX_PAUSE_USECONDS, Metric.PFC_TX_PAUSE_USECONDS)

_About = tuple[tuple[int, Metric, int], ...]
"""Way, metric and index of columns."""
_Plan = tuple[Indices, _About]
"""Positions of the columns that count pause, and what they are; those in microseconds last, because they are exact."""


class PauseMonitor:
    """Keeps which ports are held: none, on a healthy fabric."""

    def __init__(self, params: StormParams, collapse: CollapseParams) -> None:
        self._params = params
        self._looked_at = min(params.paused, collapse.paused), params.paused
        """By way: for which share of the time a cell is paused that Python looks at."""
        self.throttle = ThrottleMonitor(collapse, params)
        self._plans = MappingCache(_plan)
        self.active = ActiveConditions()

    def process(self, wave: MessageBatch, topology: Topology) -> list[NumberedSymptom]:
        """What a wave shows."""
        positions, about = self._plans[wave.counters.mapping]
        if not len(positions):
            return []
        change = wave.counters
        now, before = change.values[:, positions], _before(change, positions)
        grew = now > before
        watched = [*self._watched(wave)] if self.active.by_source or self.throttle.active.by_source else ()
        cells = list(self._much(wave, positions, about, grew, now - before)) if np.count_nonzero(grew) else []
        noticed: list[NumberedSymptom] = []
        for message, row, way in dict.fromkeys((*cells, *watched)):
            noticed += self._evaluate(self._reading(wave, message, row, way, topology), about, topology)
        return noticed

    def _watched(self, wave: MessageBatch) -> Iterator[tuple[int, int, int]]:
        """The cells of ports that are held already."""
        yield from self.active.active_cells(wave)
        yield from ((message, row, _IS_PAUSED) for message, row, _ in self.throttle.active.active_cells(wave))

    def _much(
        self, wave: MessageBatch, positions: Indices, about: _About, grew: Cells, growth: Cells
    ) -> Iterator[tuple[int, int, int]]:
        """The cells that were paused for nearly all the time, as far as the message alone says."""
        change = wave.counters
        times = change.store.at_ns[change.devices[:, None], change.mapping.columns[positions]]
        seconds = np.maximum(change.at_ns[:, None] - times, 1) / 1e9
        # 0 of a column that was never read is a long time: nothing is much in it
        speeds = speeds_of(wave)
        for place, (way, metric, _) in enumerate(about):
            own = grew[:, place]
            if not np.count_nonzero(own):
                continue
            paused = growth[:, place] * (1e-6 if metric in _USECONDS else QUANTA_BITS / speeds)
            for message, row in zip(
                *np.nonzero(own & (paused >= self._looked_at[way] * seconds[:, place, None])), strict=True
            ):
                yield int(message), int(row), way

    def _reading(self, wave: MessageBatch, message: int, row: int, way: int, topology: Topology) -> PortInterval:
        samples = wave.messages[message].samples
        speed = float(
            np.broadcast_to(speeds_of(wave, unknown=np.nan), (len(wave.messages), len(samples.row)))[message, row]
        )
        if not speed > 0:
            cable = topology.link_at(topology.resolve_port(samples.device, samples.row[row]))
            speed = float(cable.speed_bps or 0) if cable is not None else 0.0
        return PortInterval(wave, message, row, way, speed)

    def _evaluate(self, reading: PortInterval, about: _About, topology: Topology) -> Iterator[NumberedSymptom]:
        taken, way = reading.taken, DIRECTIONS[reading.way]
        samples = taken.samples
        row = samples.row[reading.row]
        shares = self._shares(reading, about)
        if not shares:
            return
        if reading.way == _IS_PAUSED:
            yield from self.throttle.evaluate(reading, max(shares.values())[0], topology)
        verdict = self._verdict(reading, shares)
        if verdict is None:
            return
        paused, priority, since_ns = verdict
        port = topology.resolve_port(samples.device, row)
        if not paused:
            if (over := self.active.end(samples, row, reading.way)) is not None:
                yield reading.symptom(port, CongestionEnded(way.state, over.last_ns))
            return
        held = self.active.extend(samples, row, since_ns, taken.at_ns, reading.way)
        if held.has_lasted(ns(self._params.sustained_s * self._params.paused)):
            counted = None if priority == NO_INDEX else priority
            yield reading.symptom(port, PauseBegan(way.direction, held.since_ns, in_millionths(paused), counted))
            if way.direction is PauseDirection.SENT and (stalled := reading.pcie_stall_ratio()) >= self._params.stalled:
                yield reading.symptom(port, PcieStall(held.since_ns, in_millionths(stalled)))

    def _shares(self, reading: PortInterval, about: _About) -> dict[int, tuple[float, float]]:
        """By priority: for which share of the time it was paused, and in how many seconds; empty where unknown."""
        way = DIRECTIONS[reading.way]
        shares: dict[int, tuple[float, float]] = {}
        for number, metric, index in about:
            if number != reading.way:
                continue
            in_useconds = metric is way.useconds
            grown = reading.counter_delta(metric, index)
            if grown is None or (not in_useconds and reading.speed_bps <= 0):
                continue
            lasting = grown[0] * (1e-6 if in_useconds else QUANTA_BITS / reading.speed_bps)
            shares[index] = min(1.0, lasting / grown[1]), grown[1]
        return shares

    def _verdict(self, reading: PortInterval, shares: dict[int, tuple[float, float]]) -> tuple[float, int, int] | None:
        """For which share of the time it was held (0: it was not), at which priority, since when; None: unknown."""
        way, params = DIRECTIONS[reading.way], self._params
        priority, (share, seconds) = max(shares.items(), key=lambda item: item[1])
        since_ns = reading.taken.at_ns - round(seconds * 1e9)
        if share < params.paused:
            return 0.0, priority, since_ns
        if (sent := reading.counter_delta(way.stopped)) is None:
            return None
        switched = reading.counter_delta(way.transitions, priority)
        free = sent[0] * 8 > params.traffic * reading.speed_bps * sent[1] or (
            switched is not None and switched[0] > params.transitions_per_s * switched[1]
        )
        return 0.0 if free else share, priority, since_ns


def _plan(fit: ColumnMapping) -> _Plan:
    about = sorted(
        (
            (number, metric, index)
            for metric, index in fit.position_of
            for number, way in enumerate(DIRECTIONS)
            if metric in (*way.frames, way.useconds)
        ),
        key=lambda one: one[1] in _USECONDS,
    )
    return np.array([fit.position_of[metric, index] for _, metric, index in about], np.intp), tuple(about)


def _before(change: TableDelta, positions: Indices) -> Cells:
    last: Cells = change.store.values[change.devices[:, None], change.mapping.columns[positions]]
    return last if change.rows is None else last[:, :, change.rows]


def speeds_of(wave: MessageBatch, unknown: float = _SLOWEST_BPS) -> npt.NDArray[np.float64]:
    """What each port is trained to, shape (messages, rows) or (1, 1); `unknown` where the messages do not say."""
    position = wave.gauges.mapping.position_of.get((Metric.SPEED_BPS, NO_INDEX))
    if position is None:
        return np.full((1, 1), unknown)
    speeds = wave.gauges.values[:, position]
    return np.where(speeds > 0, speeds, unknown)

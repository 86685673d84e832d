"""Finds ports that pause or missing credits stop nearly all the time, while no traffic passes in this direction.

InfiniBand has credits instead of pause: a port that has data and no credits of its peer is as one that its peer pauses.

Readings are compared as arrays, many messages at once; Python runs only for cells that were paused nearly all the time,
and for active conditions. The start is reported once the condition has lasted, and later its end.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from streams.detect.detectors.congestion_collapse.groups import CollapseParams
from streams.detect.detectors.congestion_pfc_storm import StormParams
from streams.detect.measure.monitors.congestion_monitors import Throttle
from streams.detect.measure.monitors.monitor import (
    QUANTA_BITS,
    ActiveConditions,
    Cell,
    Columns,
    ConditionMonitor,
    NumberedSymptom,
    PortInterval,
    in_millionths,
    speeds_of,
)
from streams.detect.measure.storage.column_store import Cells, ColumnMapping, Indices, MappingCache, TableDelta
from streams.detect.measure.storage.message_batch import MessageBatch
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX
from streams.wire.symptoms import (
    CongestionState,
    PauseBegan,
    PauseDirection,
    PcieStall,
    ThrottledByPauseBegan,
)


class Direction(NamedTuple):
    """One direction of pause: its counters, and the traffic that it stops."""

    frames: tuple[Metric, Metric]
    """The counters for each priority, and for the whole port."""
    useconds: Metric
    transitions: Metric
    stopped: Metric
    pause: PauseDirection
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
_RECEIVED = 0
"""The index of the direction in which the peer pauses a port."""
_USECONDS = (Metric.PFC_RX_PAUSE_USECONDS, Metric.PFC_TX_PAUSE_USECONDS)
_WAITED = Metric.TX_WAIT_BYTES
"""The bytes that a port did not send for lack of credits; at its speed, they are a time."""

_DIRECTION_OF = {
    metric: number
    for number, direction in enumerate(DIRECTIONS)
    for metric in (*direction.frames, direction.useconds)
} | {_WAITED: _RECEIVED}  # fmt: skip
_About = tuple[tuple[int, Metric, int], ...]
"""Direction, metric and index of columns."""
_Plan = tuple[Indices, _About]
"""Positions of the columns that count pause, and their meanings; exact columns in microseconds come last."""


class PauseMonitor(ConditionMonitor):
    """Tracks the paused ports: none in a healthy fabric. It also tracks the ports that pause throttles."""

    name = "pause"

    def __init__(self, params: StormParams, collapse: CollapseParams) -> None:
        self._params = params
        self._min_ratios = min(params.paused, collapse.paused), params.paused
        """Direction -> the share of paused time from which Python evaluates a cell."""
        self._throttle = Throttle(collapse, params, CongestionState.THROTTLED_BY_PAUSE)
        self._throttle_ratio = collapse.paused
        self._plans = MappingCache(_plan)
        states = (direction.state for direction in DIRECTIONS)
        self._own = ActiveConditions(params.sustained_s * params.paused, *states)
        super().__init__(_DIRECTION_OF, self._own, self._throttle.active)

    def grown(self, batch: MessageBatch, columns: Columns, topology: Topology) -> Iterator[Cell]:
        """Yield the cells that were paused nearly all the time, if messages alone show it."""
        positions, about = self._plans[batch.counters.mapping]
        counters = batch.counters
        now, before = counters.values[:, positions], _before(counters, positions)
        grew = now > before
        if not np.count_nonzero(grew):
            return
        growth = now - before
        times = counters.store.at_ns[counters.devices[:, None], counters.mapping.columns[positions]]
        seconds = np.maximum(counters.at_ns[:, None] - times, 1) / 1e9
        # a column that was never read has time 0, so its growth per second is low
        speeds = speeds_of(batch)
        for place, (direction, metric, _) in enumerate(about):
            own = grew[:, place]
            if not np.count_nonzero(own):
                continue
            paused = growth[:, place] * (1e-6 if metric in _USECONDS else _bits(metric) / speeds)
            lasting = own & (paused >= self._min_ratios[direction] * seconds[:, place, None])
            for number, row in zip(*np.nonzero(lasting), strict=True):
                yield int(number), int(row), direction

    def evaluate(self, interval: PortInterval, columns: Columns) -> Iterator[NumberedSymptom]:
        direction, speed_bps = DIRECTIONS[interval.direction], interval.speed_bps()
        shares = self._shares(interval, speed_bps)
        if not shares:
            return
        if interval.direction == _RECEIVED:
            paused_ratio = max(shares.values())[0]
            yield from self._throttle.evaluate(
                interval,
                lambda since_ns, tx_ratio: ThrottledByPauseBegan(since_ns, tx_ratio, paused_ratio),
                is_throttled=paused_ratio >= self._throttle_ratio,
            )
        verdict = self._verdict(interval, speed_bps, shares)
        if verdict is None:
            return
        paused, priority, since_ns = verdict
        if not paused:
            yield from self._own.end(interval)
            return
        condition = self._own.extend(interval, since_ns)
        if not self._own.has_lasted(condition):
            return
        counted = None if priority == NO_INDEX else priority
        by_credits = interval.direction == _RECEIVED and interval.counter_delta(_WAITED) is not None
        pause = PauseBegan(direction.pause, condition.since_ns, in_millionths(paused), counted, by_credits=by_credits)
        yield interval.symptom(pause)
        is_sent = direction.pause is PauseDirection.SENT
        if is_sent and (stalled := interval.pcie_stall_ratio()) >= self._params.stalled:
            yield interval.symptom(PcieStall(condition.since_ns, in_millionths(stalled)))

    def _shares(self, interval: PortInterval, speed_bps: float) -> dict[int, tuple[float, float]]:
        """Return the share of paused time, and that time in s, by priority; empty if unknown."""
        shares: dict[int, tuple[float, float]] = {}
        for number, metric, index in self._plans[interval.batch.counters.mapping][1]:
            if number != interval.direction:
                continue
            in_useconds = metric in _USECONDS
            grown = interval.counter_delta(metric, index)
            if grown is None or (not in_useconds and speed_bps <= 0):
                continue
            lasting = grown[0] * (1e-6 if in_useconds else _bits(metric) / speed_bps)
            shares[index] = min(1.0, lasting / grown[1]), grown[1]
        return shares

    def _verdict(
        self, interval: PortInterval, speed_bps: float, shares: dict[int, tuple[float, float]]
    ) -> tuple[float, int, int] | None:
        """Return the share of paused time (0: there was traffic), the priority and the start."""
        direction, params = DIRECTIONS[interval.direction], self._params
        priority, (share, seconds) = max(shares.items(), key=lambda item: item[1])
        since_ns = interval.since_ns(seconds)
        if share < params.paused:
            return 0.0, priority, since_ns
        if (sent := interval.counter_delta(direction.stopped)) is None:
            return None
        switched = interval.counter_delta(direction.transitions, priority)
        free = sent[0] * 8 > params.traffic * speed_bps * sent[1] or (
            switched is not None and switched[0] > params.transitions_per_s * switched[1]
        )
        return 0.0 if free else share, priority, since_ns


def _bits(metric: Metric) -> int:
    """Return the bits whose time a frame of pause, or a byte that waited, stops a port."""
    return 8 if metric is _WAITED else QUANTA_BITS


def _plan(mapping: ColumnMapping) -> _Plan:
    about = [(_DIRECTION_OF[column[0]], *column) for column in mapping.position_of if column[0] in _DIRECTION_OF]
    about.sort(key=lambda one: one[1] in _USECONDS)
    return np.array([mapping.position_of[metric, index] for _, metric, index in about], np.intp), tuple(about)


def _before(counters: TableDelta, positions: Indices) -> Cells:
    last: Cells = counters.store.values[counters.devices[:, None], counters.mapping.columns[positions]]
    return last if counters.rows is None else last[:, :, counters.rows]

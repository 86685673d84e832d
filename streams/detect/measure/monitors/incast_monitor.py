"""Finds ends of hosts' links for which more arrives than they drain: full and marked, dropped or
trimmed, or paused or dropped by the host.

Readings are compared as arrays, as in pause_monitor.py; Python runs only for cells in which one of these counters grew
by much. The start is reported once the condition has lasted, and later its end.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

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
from streams.detect.measure.storage.column_store import Cells
from streams.detect.measure.storage.message_batch import MessageBatch
from streams.detect.measure.storage.plausibility import most_octets
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX
from streams.wire.symptoms import CongestionState, IncastBegan, IncastReason

_INTO_HOST = (Metric.RX_BYTES, Metric.RX_PACKETS)
_OUT_OF_SWITCH = (Metric.TX_BYTES, Metric.TX_PACKETS)
_REASONS: dict[Metric, tuple[IncastReason, bool]] = {
    Metric.ROCE_ECN_MARKED_PACKETS: (IncastReason.MARKED, True),
    Metric.PORT_ECN_MARKED_PACKETS: (IncastReason.MARKED, False),
    Metric.TX_DISCARDS: (IncastReason.DROPPED, False),
    Metric.TRIMMED_PACKETS: (IncastReason.TRIMMED, False),
    Metric.RX_DISCARDS: (IncastReason.DROPPED_BY_HOST, True),
    Metric.PFC_TX_PAUSE_USECONDS: (IncastReason.PAUSED_BY_HOST, True),
    Metric.PFC_TX_FRAMES: (IncastReason.PAUSED_BY_HOST, True),
    Metric.PAUSE_TX_FRAMES: (IncastReason.PAUSED_BY_HOST, True),
}
"""Counter -> its reason, and whether a host counts it; otherwise the switch at the other end does."""

_DEPTHS = (Metric.QUEUE_WATERMARK_BYTES, Metric.QUEUE_DEPTH_BYTES)
"""Gauges of queues. Collectors reduce high-frequency telemetry to the watermark of each reading, so it shows bursts."""

_SUSTAINED = (IncastReason.MARKED, IncastReason.DROPPED, IncastReason.TRIMMED, IncastReason.TRIMMED_DROPPED)
"""Reasons that a single interval shows for its whole length, because its link was full on average."""


class IncastMonitor(ConditionMonitor):
    """Tracks the ends with incast: few in a healthy fabric."""

    name = "incast"

    def __init__(self, params: DetectParams) -> None:
        self._params, self._storm = params.incast, params.storm
        self._in_whole_numbers = np.uint64(np.ceil(1 / max(params.incast.marked, 1e-6)))
        """Packets per mark as an integer, because floating point costs twice as much."""
        self._own = ActiveConditions(params.incast.sustained_s, CongestionState.INCAST)
        super().__init__(_REASONS, self._own)

    def grown(self, batch: MessageBatch, columns: Columns, topology: Topology) -> Iterator[Cell]:
        for (metric, _), position in columns.items():
            now, before = batch.counters.values[:, position], batch.counters.previous(position)
            grew = now > before
            if np.count_nonzero(grew):
                yield from self._grown_cells(batch, topology, metric, position, (grew, now - before))

    def _grown_cells(
        self, batch: MessageBatch, topology: Topology, metric: Metric, position: int, grown: tuple[Cells, Cells]
    ) -> Iterator[Cell]:
        """Yield the cells in which a counter grew by enough; a column that was never read before has time 0."""
        counters, own = batch.counters, self._params
        (why, by_host), (grew, growth) = _REASONS[metric], grown
        enough: Any
        if why is IncastReason.MARKED:
            packets = counters.mapping.position_of.get(((_INTO_HOST if by_host else _OUT_OF_SWITCH)[1], NO_INDEX))
            if packets is None:
                return
            enough = counters.values[:, packets] - counters.previous(packets)
            growth = growth * self._in_whole_numbers
        else:
            times = counters.store.at_ns[counters.devices, counters.mapping.columns[position]]
            enough = (np.maximum(counters.at_ns - times, 1) / 1e9)[:, None]
            if metric in (Metric.TX_DISCARDS, Metric.RX_DISCARDS, Metric.TRIMMED_PACKETS):
                enough = enough * own.drops_per_s
            elif metric is Metric.PFC_TX_PAUSE_USECONDS:
                enough = enough * own.pauses * 1e6
            else:
                enough = enough * own.pauses * speeds_of(batch) / QUANTA_BITS
        much = grew & (growth >= enough)
        if not np.count_nonzero(much):
            return
        for number, row in zip(*np.nonzero(much), strict=True):
            device = topology.devices.get(batch.messages[number].samples.device)
            if device is not None and (device.kind == "host") == by_host:
                yield int(number), int(row), 0

    def evaluate(self, interval: PortInterval, columns: Columns) -> Iterator[NumberedSymptom]:
        link = interval.topology.link_at(interval.port)
        if link is None or link.role != HOST_LINK:
            return
        speed_bps = float(link.speed_bps or interval.read_speed_bps())
        verdict = self._verdict(interval, speed_bps, columns, at_host=interval.port == link.lower)
        if verdict is None:
            return
        share, why, since_ns = verdict
        if why is None:
            yield from self._own.end(interval)
            return
        # A storm that begins within one interval pauses a part of it, and traffic passes in the rest.
        is_known = why in _SUSTAINED or self._own.get(interval) is not None
        condition = self._own.extend(interval, since_ns)
        if is_known and self._own.has_lasted(condition):
            depth = round(interval.highest_gauge(_DEPTHS))
            yield interval.symptom(IncastBegan(condition.since_ns, in_millionths(share), why, depth))

    def _verdict(
        self, interval: PortInterval, speed_bps: float, columns: Columns, *, at_host: bool
    ) -> tuple[float, IncastReason | None, int] | None:
        """Return the ratio, the reason (None: no incast) and the start; None if too little was read to decide."""
        own = self._params
        octets, packets = (interval.counter_delta(metric) for metric in (_INTO_HOST if at_host else _OUT_OF_SWITCH))
        if octets is None or speed_bps <= 0:
            return None
        since_ns = interval.since_ns(octets[1])
        full = own.full * speed_bps * octets[1] / 8 <= octets[0] <= most_octets(octets[1], speed_bps)
        silent = octets[0] * 8 <= self._storm.traffic * speed_bps * octets[1]
        found: tuple[float, int] = (0.0, 0)
        for metric, index in columns:
            why, counted_by_host = _REASONS[metric]
            grown = interval.counter_delta(metric, index) if counted_by_host == at_host else None
            if grown is None:
                continue
            if why is IncastReason.PAUSED_BY_HOST:
                lasting = 1e-6 if metric is Metric.PFC_TX_PAUSE_USECONDS else QUANTA_BITS / speed_bps
                share = min(1.0, grown[0] * lasting / grown[1])
                if share >= own.pauses and not silent:
                    is_stalled = interval.pcie_stall_ratio() >= own.stalled
                    found = max(found, (share, IncastReason.STALLED_ON_PCIE if is_stalled else why))
            elif full and why is IncastReason.MARKED:
                if packets is not None and grown[0] >= own.marked * packets[0] > 0:
                    found = max(found, (grown[0] / packets[0], why))
            elif full or why is IncastReason.DROPPED_BY_HOST:
                count, least = grown[0], own.drops_per_s * grown[1]
                if why is IncastReason.TRIMMED and (lost := _lost_of_trimmed(interval, count)) >= least:
                    count, why = lost, IncastReason.TRIMMED_DROPPED
                elif why is IncastReason.DROPPED:
                    count -= _growth(interval, Metric.TRIMMED_PACKETS) or 0.0  # a trimmed packet was not dropped
                if count >= least:
                    found = max(found, (min(1.0, count / packets[0]) if packets and packets[0] else 0.0, why))
        return found[0], IncastReason(found[1]) if found[1] else None, since_ns


def _lost_of_trimmed(interval: PortInterval, trimmed: float) -> float:
    """Return the trimmed packets that were dropped; those that were not transmitted, if drops are not counted."""
    dropped, sent = (
        _growth(interval, metric) for metric in (Metric.TRIMMED_DROPPED_PACKETS, Metric.TRIMMED_TX_PACKETS)
    )
    return dropped if dropped is not None else 0.0 if sent is None else max(0.0, trimmed - sent)


def _growth(interval: PortInterval, metric: Metric) -> float | None:
    delta = interval.counter_delta(metric)
    return None if delta is None else delta[0]

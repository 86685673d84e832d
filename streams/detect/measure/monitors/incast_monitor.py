"""At which ends of hosts' links more comes than goes in: full and marked, full and dropped, or paused by the host.

Decided for many messages at once by array arithmetic, as pauses.py does; Python runs only for cells in which one of
these counters grew by much. What is told is that it began, once it has lasted, and that it is over.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from streams.detect.measure.monitors.active_conditions import ActiveConditions
from streams.detect.measure.monitors.pause_monitor import QUANTA_BITS, speeds_of
from streams.detect.measure.monitors.port_interval import PortInterval, in_millionths
from streams.detect.measure.monitors.transitions import NumberedSymptom
from streams.detect.measure.storage.column_store import Cells, Column, ColumnMapping, MappingCache
from streams.detect.measure.storage.reading_store import MessageBatch
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX
from streams.wire.symptoms import CongestionEnded, CongestionState, IncastBegan, IncastReason

_INTO_HOST = (Metric.RX_BYTES, Metric.RX_PACKETS)
_OUT_OF_SWITCH = (Metric.TX_BYTES, Metric.TX_PACKETS)
_SIGNS: dict[Metric, tuple[IncastReason, bool]] = {
    Metric.ROCE_ECN_MARKED_PACKETS: (IncastReason.MARKED, True),
    Metric.PORT_ECN_MARKED_PACKETS: (IncastReason.MARKED, False),
    Metric.TX_DISCARDS: (IncastReason.DROPPED, False),
    Metric.PFC_TX_PAUSE_USECONDS: (IncastReason.PAUSED_BY_HOST, True),
    Metric.PFC_TX_FRAMES: (IncastReason.PAUSED_BY_HOST, True),
    Metric.PAUSE_TX_FRAMES: (IncastReason.PAUSED_BY_HOST, True),
}
"""What grows, why, and whether a host counts it; else the switch at the other end does."""

_Columns = dict[Column, int]
"""With their positions."""


class IncastMonitor:
    """Keeps which ends are crowded: few, on a healthy fabric."""

    def __init__(self, params: DetectParams) -> None:
        self._params, self._storm = params.incast, params.storm
        self._in_whole_numbers = np.uint64(np.ceil(1 / max(params.incast.marked, 1e-6)))
        """So many marks as packets: what is turned into floating point costs twice as much."""
        self._columns = MappingCache(_columns_of)
        self.active = ActiveConditions()

    def process(self, wave: MessageBatch, topology: Topology) -> list[NumberedSymptom]:
        """What a wave shows."""
        columns = self._columns[wave.counters.mapping]
        if not columns:
            return []
        cells: dict[tuple[int, int], None] = {}
        for (metric, _), position in columns.items():
            now, before = wave.counters.values[:, position], wave.counters.previous(position)
            grew = now > before
            if np.count_nonzero(grew):
                cells |= dict.fromkeys(self._much(wave, topology, metric, position, (grew, now - before)))
        if self.active.by_source:
            cells |= dict.fromkeys((message, row) for message, row, _ in self.active.active_cells(wave))
        noticed: list[NumberedSymptom] = []
        for message, row in cells:
            noticed += self._evaluate(wave, message, row, columns, topology)
        return noticed

    def _much(
        self, wave: MessageBatch, topology: Topology, metric: Metric, position: int, grown: tuple[Cells, Cells]
    ) -> Iterator[tuple[int, int]]:
        """The cells in which so much grew that it may be; a column that was never read before has 0 for its time."""
        change, own = wave.counters, self._params
        (why, by_host), (grew, growth) = _SIGNS[metric], grown
        enough: Any
        if why == IncastReason.MARKED:
            packets = change.mapping.position_of.get(((_INTO_HOST if by_host else _OUT_OF_SWITCH)[1], NO_INDEX))
            if packets is None:
                return
            enough = change.values[:, packets] - change.previous(packets)
            growth = growth * self._in_whole_numbers
        else:
            times = change.store.at_ns[change.devices, change.mapping.columns[position]]
            enough = (np.maximum(change.at_ns - times, 1) / 1e9)[:, None]
            if metric is Metric.TX_DISCARDS:
                enough = enough * own.drops_per_s
            elif metric is Metric.PFC_TX_PAUSE_USECONDS:
                enough = enough * own.pauses * 1e6
            else:
                enough = enough * own.pauses * speeds_of(wave) / QUANTA_BITS
        much = grew & (growth >= enough)
        if not np.count_nonzero(much):
            return
        for message, row in zip(*np.nonzero(much), strict=True):
            device = topology.devices.get(wave.messages[message].samples.device)
            if device is not None and (device.kind == "host") == by_host:
                yield int(message), int(row)

    def _evaluate(
        self, wave: MessageBatch, message: int, row: int, columns: _Columns, topology: Topology
    ) -> Iterator[NumberedSymptom]:
        taken = wave.messages[message]
        samples = taken.samples
        port = topology.resolve_port(samples.device, samples.row[row])
        cable = topology.link_at(port)
        if cable is None or cable.role != HOST_LINK:
            return
        reading = PortInterval(wave, message, row, 0, float(cable.speed_bps or _speed(wave, message, row)))
        verdict = self._verdict(reading, columns, at_host=port == cable.lower)
        if verdict is None:
            return
        share, why, since_ns = verdict
        name = samples.row[row]
        if why is None:
            if (over := self.active.end(samples, name)) is not None:
                yield reading.symptom(port, CongestionEnded(CongestionState.INCAST, over.last_ns))
            return
        held = self.active.extend(samples, name, since_ns, taken.at_ns)
        if held.has_lasted(ns(self._params.sustained_s)):
            yield reading.symptom(port, IncastBegan(held.since_ns, in_millionths(share), why))

    def _verdict(
        self, reading: PortInterval, columns: _Columns, *, at_host: bool
    ) -> tuple[float, IncastReason | None, int] | None:
        """By how much, why (None where it is not crowded), and since when; None where nothing was read to tell by."""
        own = self._params
        octets, packets = (reading.counter_delta(metric) for metric in (_INTO_HOST if at_host else _OUT_OF_SWITCH))
        if octets is None or reading.speed_bps <= 0:
            return None
        since_ns = reading.taken.at_ns - round(octets[1] * 1e9)
        full = octets[0] * 8 >= own.full * reading.speed_bps * octets[1]
        silent = octets[0] * 8 <= self._storm.traffic * reading.speed_bps * octets[1]  # paused so, it is a storm
        found: tuple[float, int] = (0.0, 0)
        for metric, index in columns:
            why, counted_by_host = _SIGNS[metric]
            grown = reading.counter_delta(metric, index) if counted_by_host == at_host else None
            if grown is None:
                continue
            if why == IncastReason.PAUSED_BY_HOST:
                lasting = 1e-6 if metric is Metric.PFC_TX_PAUSE_USECONDS else QUANTA_BITS / reading.speed_bps
                share = min(1.0, grown[0] * lasting / grown[1])
                if share >= own.pauses and not silent:
                    found = max(
                        found,
                        (
                            share,
                            IncastReason.STALLED_ON_PCIE
                            if reading.pcie_stall_ratio() >= own.stalled
                            else IncastReason.PAUSED_BY_HOST,
                        ),
                    )
            elif (
                full and why == IncastReason.MARKED and packets is not None and grown[0] >= own.marked * packets[0] > 0
            ):
                found = max(found, (grown[0] / packets[0], IncastReason.MARKED))
            elif full and why == IncastReason.DROPPED and grown[0] >= own.drops_per_s * grown[1]:
                found = max(
                    found, (min(1.0, grown[0] / packets[0]) if packets and packets[0] else 0.0, IncastReason.DROPPED)
                )
        return found[0], IncastReason(found[1]) if found[1] else None, since_ns


def _columns_of(fit: ColumnMapping) -> _Columns:
    return {column: position for column, position in fit.position_of.items() if column[0] in _SIGNS}


def _speed(wave: MessageBatch, message: int, row: int) -> float:
    """What the message says that the port trained to; 0 where it does not."""
    position = wave.gauges.mapping.position_of.get((Metric.SPEED_BPS, NO_INDEX))
    speed = float(wave.gauges.values[message, position, row]) if position is not None else 0.0
    return speed if speed > 0 else 0.0

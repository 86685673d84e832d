"""Counts the ports of devices of one kind, with all values in arrays that grow for many devices at once.

A group has devices of one source and one number of ports in the order of their readings, so that the devices due in a
slot are adjacent. Traffic differs between hosts, and between ports of the first half of a switch's ports. The rails of
a host carry equal traffic, and so do the ports of the second half, a leaf's uplinks. Some ports are idle, FEC corrects
bits at base rates, and all other errors are rare. A port that is down counts nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.bench.load.encoding import SamplesPieces, StatusPieces, samples_pieces, status_pieces
from lab.world.columns import FRAME_BYTES, LINE_BPS, RARE_PER_PORT_HOUR, RX_BITS_PER_S
from lab.world.fabric_arrays import rows_digest
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, CollectorStatus, RowKind, Samples, Source, Table

IDLE_RATIO = 0.15
"""The share of hosts and switch ports without traffic: between jobs a tenth to a fifth of a cluster waits."""
_RAILS_DIFFER = 0.01
"""The spread of the rails of a host: its collectives use all rails equally (within 3 % in `a100-roce-leaf`)."""

# Growth of each counter per byte of traffic, and per second of signal; counters with (0, 0) grow only randomly.
_BOTH: dict[Metric, tuple[float, float]] = {
    Metric.RX_BYTES: (1.0, 0.0),
    Metric.TX_BYTES: (0.97, 0.0),
    Metric.RX_PACKETS: (1 / FRAME_BYTES, 0.0),
    Metric.TX_PACKETS: (0.97 / FRAME_BYTES, 0.0),
    Metric.RX_DISCARDS: (0.0, 0.0),
    Metric.TX_DISCARDS: (0.0, 0.0),
    Metric.RX_ERRORS: (0.0, 0.0),
    Metric.TX_ERRORS: (0.0, 0.0),
    Metric.LINK_DOWN_EVENTS: (0.0, 0.0),
    Metric.RX_FCS_ERRORS: (0.0, 0.0),
    Metric.RX_SYMBOL_ERRORS: (0.0, 0.0),
    Metric.FEC_CORRECTED_BITS: (0.0, 400.0),
    Metric.RX_BITS: (0.0, RX_BITS_PER_S),
    Metric.FEC_CORRECTED_CODEWORDS: (0.0, 390.0),
    Metric.FEC_UNCORRECTED_CODEWORDS: (0.0, 0.0),
}
COUNTERS: dict[Source, dict[Metric, tuple[float, float]]] = {
    Source.SOURCE_NIC: _BOTH
    | {
        Metric.CNP_SENT: (2e-8, 0.0),
        Metric.CNP_HANDLED: (2e-8, 0.0),
        Metric.ROCE_ECN_MARKED_PACKETS: (3e-8, 0.0),
        Metric.OUT_OF_SEQUENCE: (0.0, 0.0),
        Metric.LOCAL_ACK_TIMEOUTS: (0.0, 0.0),
    },
    Source.SOURCE_GNMI: _BOTH
    | {
        # Errors that FEC did not correct: a port on which they increase loses traffic.
        Metric.PCS_SYMBOL_ERRORS: (0.0, 0.0),
        Metric.PAUSE_RX_FRAMES: (0.0, 0.0),
        Metric.PAUSE_TX_FRAMES: (0.0, 0.0),
        Metric.PORT_ECN_MARKED_PACKETS: (3e-8, 0.0),
        Metric.TX_WAIT_TICKS: (1e-6, 0.0),
    },
}
GAUGES = (Metric.OPER_UP, Metric.ADMIN_UP, Metric.PRE_FEC_BER, Metric.MODULE_TEMPERATURE_C)
METRICS = 24
_OPER = GAUGES.index(Metric.OPER_UP)
_RARE = (Metric.RX_DISCARDS, Metric.RX_ERRORS, Metric.RX_FCS_ERRORS, Metric.RX_SYMBOL_ERRORS)


@dataclass(frozen=True, slots=True)
class Reader:
    """The collector that reads the devices of a group."""

    source: Source
    collector: str
    run: int
    cadence_s: float


class Group:
    """Devices of one source and one number of ports, in the order of their phase."""

    def __init__(
        self, reader: Reader, names: Sequence[str], rows: Sequence[tuple[str, ...]], rng: np.random.Generator
    ) -> None:
        """Create it with names and rows in the order in which the devices are read."""
        self.reader = reader
        self.rows = rows
        self.names = names
        devices, port_count = len(names), len(rows[0])
        factors_of = COUNTERS[reader.source]
        self.metrics = tuple(sorted(factors_of))
        factors = np.array([factors_of[metric] for metric in self.metrics], np.float32) * np.float32(reader.cadence_s)
        self._by_traffic, self._by_light = factors[:, 0][None, :, None], factors[:, 1][None, :, None]
        self._downs = self.metrics.index(Metric.LINK_DOWN_EVENTS)
        self._rare = [self.metrics.index(metric) for metric in _RARE]
        self._rng = rng
        self._jobs = 1 if reader.source is Source.SOURCE_NIC else port_count
        """The number of a device's ports with individual loads: all rails of a host carry the load of its job."""
        self._traffic = self._shares(devices, port_count) * (LINE_BPS / 8)
        self._light = rng.lognormal(0.0, 1.0, (devices, port_count)).astype(np.float32)
        self.counters = np.zeros((devices, len(factors_of), port_count), np.uint64)
        self.gauges = np.empty((devices, len(GAUGES), port_count), np.float64)
        self.gauges[:, :2] = 1.0
        self.gauges[:, 2] = self._light * 1e-9
        self.gauges[:, 3] = rng.uniform(35.0, 55.0, (devices, port_count)).round(1)
        self.boot_id = rng.integers(1, 1 << 62, devices).tolist()
        self.digests = {own_rows: rows_digest(own_rows) for own_rows in set(rows)}
        self.samples, self.statuses = self._pieces()
        for _ in range(3):
            self.grow(0, devices, times=3600)

    def _shares(self, devices: int, port_count: int) -> npt.NDArray[np.float32]:
        """Return the share of its line rate that each port carries."""
        busy = self._rng.random((devices, self._jobs), np.float32) >= IDLE_RATIO
        share = busy * self._rng.uniform(0.02, 0.9, busy.shape)
        if self.reader.source is not Source.SOURCE_NIC:
            uplinks = share[:, port_count // 2 :]  # hashing spreads traffic over these
            uplinks[:] = uplinks.mean(axis=1, keepdims=True)
        share = share * self._rng.uniform(1 - _RAILS_DIFFER, 1 + _RAILS_DIFFER, (devices, port_count))
        return share.astype(np.float32)

    def grow(self, first: int, last: int, times: int = 1) -> None:
        """Advance the counters of these devices' ports by `times` cadences."""
        up = self.gauges[first:last, _OPER].astype(np.float32)
        load = up * self._traffic[first:last]
        shape = last - first, self._jobs
        load *= (self._rng.random(shape, np.float32) * np.float32(0.2) + np.float32(0.9)) * np.float32(times)
        light = up * self._light[first:last] * np.float32(times)
        grown = load[:, None, :] * self._by_traffic
        grown += light[:, None, :] * self._by_light
        self.counters[first:last] += grown.astype(np.uint64)
        expected = RARE_PER_PORT_HOUR * self.reader.cadence_s * times / 3600 * up.size
        for _ in range(self._rng.poisson(expected)):
            device, column = self._rng.integers(first, last), self._rare[self._rng.integers(len(self._rare))]
            self.counters[device, column, self._rng.integers(up.shape[1])] += np.uint64(1)

    def link(self, device: int, row: int, *, up: bool) -> None:
        """Set a port's signal to present or absent."""
        self.gauges[device, _OPER, row] = 1.0 if up else 0.0
        if not up:
            self.counters[device, self._downs, row] += np.uint64(1)

    def reboot(self, device: int) -> None:
        """Give a device a new boot id, set its counters to zero and its ports to up."""
        self.counters[device] = 0
        self.gauges[device, _OPER] = 1.0
        self.boot_id[device] += 1

    def unreachable_status(self, device: int, at_ns: int, last_ns: int) -> CollectorStatus:
        """Return the status that the collector reports for a device that does not answer."""
        reader = self.reader
        return CollectorStatus(
            reader.collector, reader.run, reader.source, self.names[device], at_ns, reachable=False, error="no answer",
            last_sample_at_ns=last_ns, cadence_ns=round(reader.cadence_s * 1e9),
        )  # fmt: skip

    def _pieces(self) -> tuple[list[SamplesPieces], list[StatusPieces]]:
        samples, statuses = [], []
        zeros: Any = np.zeros
        counters = Table(self.metrics, (NO_INDEX,) * len(self.metrics), zeros(self.counters.shape[1:], "<u8"))
        gauges = Table(GAUGES, (NO_INDEX,) * len(GAUGES), zeros(self.gauges.shape[1:], "<f8"))
        reader = self.reader
        for name, rows in zip(self.names, self.rows, strict=True):
            message = Samples(
                name, reader.source, reader.collector, reader.run, 0, 0, 0, 0, RowKind.ROW_KIND_PORT, rows,
                self.digests[rows], counters, gauges,
            )  # fmt: skip
            samples.append(samples_pieces(message))
            status = CollectorStatus(
                reader.collector, reader.run, reader.source, name, 0, reachable=True,
                cadence_ns=round(reader.cadence_s * 1e9),
            )  # fmt: skip
            statuses.append(status_pieces(status))
        return samples, statuses

"""Simulates the counters and gauges of all ports of a fabric, poll after poll, with random noise.

Both ends of a link follow one traffic and one signal. Healthy ports are computed by array arithmetic; effects are
applied one by one. telemetry.py turns the readings into messages. For a world that can be read at any moment in any
order, see demo_world.py.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from lab.world.columns import (
    COUNTER_INDEX,
    COUNTERS,
    GAUGE_INDEX,
    GAUGES,
    LANES,
    LINE_BPS,
    PER_BYTE,
    RARE_COUNTERS,
    RARE_PER_PORT_HOUR,
    RX_BITS_PER_S,
)
from lab.world.effects import (
    BitErrors,
    CounterIncrement,
    CounterReset,
    Effect,
    GaugeOverride,
    Interval,
    Rebooting,
    SignalLoss,
    TrafficReduction,
    TrafficShift,
)
from lab.world.fabric_arrays import FabricArrays
from lab.world.further_columns import FurtherColumns
from lab.world.traffic import Traffic
from streams.fabric.catalogue import Metric
from streams.fabric.inventory import Inventory
from streams.wire.models import NO_INDEX

_S = 10**9
Times = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_MAX_FCS_ERRORS = 4
"""The maximum number of frames with a bad checksum before a loss of signal."""
_DARK_DBM = -35.0
_SPREAD = 0.015
"""The spread of a host's rails, and of a switch's uplinks: a healthy fabric stays within 3 % (DETECTION 3)."""
_UPLINK_SHARE = 0.6
"""The share of its hosts' traffic that a leaf sends upwards; the rest stays under the leaf."""
_RX_BYTES, _TX_BYTES = COUNTER_INDEX[Metric.RX_BYTES, NO_INDEX], COUNTER_INDEX[Metric.TX_BYTES, NO_INDEX]
_RX_BITS, _CORRECTED = COUNTER_INDEX[Metric.RX_BITS, NO_INDEX], COUNTER_INDEX[Metric.FEC_CORRECTED_BITS, NO_INDEX]
_OPER_UP, _PRE_FEC_BER = GAUGE_INDEX[Metric.OPER_UP], GAUGE_INDEX[Metric.PRE_FEC_BER]


class World:
    """Counters and gauges of all ports, by the numbers of the fabric: shape (columns, ports)."""

    def __init__(
        self, inventory: Inventory, fabric: FabricArrays, traffic: Traffic, effects: Sequence[Effect], start_ns: int,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.fabric, self.traffic, self._rng = fabric, traffic, rng
        ports = fabric.port_count
        self._init_links(inventory)
        self.counters = np.zeros((len(COUNTERS), ports), np.uint64)
        self.at_ns = np.full(ports, start_ns, np.int64)
        self.boot_id: list[int] = rng.integers(1, 1 << 62, len(fabric.devices)).tolist()
        self._ber = np.minimum(rng.lognormal(np.log(3e-9), 1.5, ports), 8e-7)
        self._level = self._usual_gauges(ports)
        self.gauges = self._level.copy()
        self.further = FurtherColumns(effects, ports)
        self.reboots: dict[int, list[Interval]] = defaultdict(list)
        for effect in effects:
            if isinstance(effect, Rebooting):
                self.reboots[effect.device].append(effect.interval)
        self.signal_losses = self._all_signal_losses(effects)
        pending = (*self.signal_losses, *_lasting(effects))
        self._pending = sorted(pending, key=lambda effect: effect.interval.start_ns, reverse=True)
        self._active: list[Effect] = []
        self._loads = np.zeros(len(self.hosts))
        self._init_counters()

    def _init_links(self, inventory: Inventory) -> None:
        fabric = self.fabric
        ends = fabric.owner[fabric.links]
        self.hosts = np.flatnonzero(np.array(fabric.is_host))
        numbers = self._host_number = {int(device): number for number, device in enumerate(self.hosts)}
        self._host_of_link = np.array([numbers.get(int(a), -1) for a in ends[:, 0]])
        pods = {device.name: device.pod for device in inventory.devices}
        hosts_of_pod: dict[str, list[int]] = defaultdict(list)
        for device in self.hosts.tolist():
            hosts_of_pod[pods[fabric.devices[device]]].append(numbers[device])
        weights = np.zeros((len(fabric.links), len(self.hosts)))
        for link in np.flatnonzero(self._host_of_link < 0).tolist():
            below = hosts_of_pod[pods[fabric.devices[int(ends[link, 0])]]] or list(range(len(self.hosts)))
            weights[link, below] = 1 / len(below)
        self._host_weights = weights
        self._factor = 1 + _SPREAD * self._rng.uniform(-1, 1, (2, len(fabric.links)))

    def _usual_gauges(self, ports: int) -> Floats:
        rng, level = self._rng, np.empty((len(GAUGES), ports))
        level[_OPER_UP] = level[GAUGE_INDEX[Metric.ADMIN_UP]] = 1.0
        level[GAUGE_INDEX[Metric.SPEED_BPS]] = LINE_BPS
        level[GAUGE_INDEX[Metric.RX_POWER_DBM]] = rng.uniform(-2.5, 2.0, ports)
        level[GAUGE_INDEX[Metric.TX_POWER_DBM]] = rng.uniform(-0.5, 3.0, ports)
        level[GAUGE_INDEX[Metric.MODULE_TEMPERATURE_C]] = rng.uniform(38.0, 58.0, ports)
        level[GAUGE_INDEX[Metric.PCIE_WIDTH_LANES]] = level[GAUGE_INDEX[Metric.PCIE_WIDTH_MAX_LANES]] = 16.0
        level[GAUGE_INDEX[Metric.PCIE_SPEED_GTPS]] = level[GAUGE_INDEX[Metric.PCIE_SPEED_MAX_GTPS]] = 32.0
        return level

    def _init_counters(self) -> None:
        """Set the counts from before the start; some short counters are stuck, 32-bit ones are about to wrap."""
        rng, counters, ports = self._rng, self.counters, self.counters.shape[1]
        for metric in (Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_BITS):
            counters[COUNTER_INDEX[metric, NO_INDEX]] = rng.integers(1 << 44, 1 << 50, ports)
        for metric in (Metric.LINK_DOWN_EVENTS, Metric.LINK_TRANSITIONS, Metric.RX_FCS_ERRORS):
            counters[COUNTER_INDEX[metric, NO_INDEX]] = rng.poisson(4, ports)
        stuck = rng.random(ports) < 0.01
        counters[COUNTER_INDEX[Metric.LINK_ERROR_RECOVERIES, NO_INDEX]][stuck] = 255
        counters[COUNTER_INDEX[Metric.RX_SYMBOL_ERRORS, NO_INDEX]][rng.random(ports) < 0.01] = 65_535
        counters[COUNTER_INDEX[Metric.PAUSE_RX_FRAMES, NO_INDEX]] = (1 << 32) - rng.integers(1, 5000, ports)

    def _all_signal_losses(self, effects: Sequence[Effect]) -> list[SignalLoss]:
        """Return the signal losses of links, and of the links of rebooting devices, which train after the boot."""
        losses = [effect for effect in effects if isinstance(effect, SignalLoss)]
        for effect in effects:
            if isinstance(effect, Rebooting):
                for link in self.fabric.links_of[effect.device]:
                    before_s, after_s = self._rng.uniform(0, 1.5), self._rng.uniform(0.5, 15)
                    start_ns, end_ns = effect.interval
                    interval = Interval(start_ns + round(before_s * _S), end_ns + round(after_s * _S))
                    losses.append(SignalLoss(link, interval))
        return losses

    def advance(self, at_ns: Times) -> None:
        """Advance the counters of every port to the time at which its device is polled, `at_ns` (by device)."""
        now_ns = np.repeat(at_ns, self.fabric.port_counts)
        latest_ns, earliest_ns = int(at_ns.max()), int(self.at_ns.min())
        while self._pending and self._pending[-1].interval.start_ns <= latest_ns:
            self._active.append(self._pending.pop())
        self._active = [effect for effect in self._active if effect.interval.end_ns > earliest_ns]
        seconds = (now_ns - self.at_ns) / 1e9
        growth = self._traffic_growth(seconds, latest_ns)
        self._read_gauges(latest_ns)
        for effect in self._active:
            if isinstance(effect, TrafficShift):
                self._shift(effect, growth, now_ns, seconds)
        for effect in self._active:
            if isinstance(effect, SignalLoss):
                for port in self.fabric.links[effect.link].tolist():
                    self._lose_signal(effect, port, growth, int(now_ns[port]))
        for effect in self._active:
            if isinstance(effect, TrafficReduction):
                self._reduce(effect, growth, now_ns)
        for metric, (of_metric, per_byte) in PER_BYTE.items():
            growth[COUNTER_INDEX[metric, NO_INDEX]] += growth[COUNTER_INDEX[of_metric, NO_INDEX]] * per_byte
        for effect in self._active:
            self._apply(effect, growth, now_ns, seconds)
        self._count_rare_errors(growth, seconds)
        growth += self._rng.random(growth.shape, np.float32)
        self.counters += growth.astype(np.uint64)
        self.at_ns = now_ns

    def host_load(self, device: int) -> float:
        """Return the share of its line rate that each rail of a host carries."""
        return float(self._loads[self._host_number[device]])

    def _traffic_growth(self, seconds: Floats, at_ns: int) -> Floats:
        loads = self._loads = self.traffic.loads(at_ns, self._rng)
        of_links = np.where(
            self._host_of_link >= 0, loads[self._host_of_link], _UPLINK_SHARE * (self._host_weights @ loads)
        )
        noise = 1 + 0.01 * self._rng.standard_normal(self._factor.shape)
        up, down = LINE_BPS / 8 * of_links * self._factor * noise
        growth = np.zeros(self.counters.shape)
        a, z = self.fabric.links[:, 0], self.fabric.links[:, 1]
        rx, tx = growth[_RX_BYTES], growth[_TX_BYTES]
        tx[a], rx[z], tx[z], rx[a] = up, up, down, down
        rx *= seconds
        tx *= seconds
        bits = RX_BITS_PER_S * seconds
        growth[_RX_BITS] = bits
        corrected = bits * self._ber
        growth[_CORRECTED] = corrected
        for lane in range(LANES):
            growth[COUNTER_INDEX[Metric.LANE_RAW_ERRORS, lane]] = corrected / LANES
        return growth

    def _read_gauges(self, at_ns: int) -> None:
        """Read all gauges without effects: temperature and light vary slightly with the time of day, with noise."""
        warm = np.sin(at_ns / 1e9 / 86_400 * 2 * np.pi)
        gauges, rng, ports = self.gauges, self._rng, self.counters.shape[1]
        gauges[:] = self._level
        self.further.begin_reading()
        gauges[GAUGE_INDEX[Metric.MODULE_TEMPERATURE_C]] += 2 * warm + 0.3 * rng.standard_normal(ports)
        for metric in (Metric.RX_POWER_DBM, Metric.TX_POWER_DBM):
            gauges[GAUGE_INDEX[metric]] += 0.15 * warm + 0.05 * rng.standard_normal(ports)
        gauges[_PRE_FEC_BER] = self._ber * np.exp(0.1 * rng.standard_normal(ports))

    def _count_rare_errors(self, growth: Floats, seconds: Floats) -> None:
        for _ in range(self._rng.poisson(RARE_PER_PORT_HOUR / 3600 * float(seconds.sum()))):
            metric = RARE_COUNTERS[self._rng.integers(len(RARE_COUNTERS))]
            growth[COUNTER_INDEX[metric, NO_INDEX], self._rng.integers(growth.shape[1])] += 1

    def _reduce(self, effect: TrafficReduction, growth: Floats, now_ns: Times) -> None:
        """Reduce the traffic that one end sends and the other receives."""
        ends = self.fabric.links[effect.link].tolist()
        for port, far in zip(ends, reversed(ends), strict=True):
            factor = 1 - (1 - effect.share) * self._part(effect.interval, port, int(now_ns[port]))
            if effect.sent_by in (None, port):
                growth[_TX_BYTES, port] *= factor
            if effect.sent_by in (None, far):
                growth[_RX_BYTES, port] *= factor

    def _shift(self, effect: TrafficShift, growth: Floats, now_ns: Times, seconds: Floats) -> None:
        a, z = self.fabric.links[effect.link].tolist()
        far = a if effect.sent_by == z else z
        for column, port in ((_TX_BYTES, effect.sent_by), (_RX_BYTES, far)):
            part = self._part(effect.interval, port, int(now_ns[port]))
            shifted = LINE_BPS / 8 * effect.utilization * self._rng.uniform(0.99, 1.01) * seconds[port]
            growth[column, port] = (1 - part) * growth[column, port] + part * shifted

    def _apply(self, effect: Effect, growth: Floats, now_ns: Times, seconds: Floats) -> None:
        match effect:
            case CounterIncrement(port=port, of_metric=of_metric):
                part = self._part(effect.interval, port, int(now_ns[port]))
                base = growth[COUNTER_INDEX[of_metric, NO_INDEX], port] if of_metric is not None else 0.0
                expected = part * effect.growth(seconds[port], base)
                if (column := (effect.metric, effect.index)) in COUNTER_INDEX:
                    growth[COUNTER_INDEX[column], port] += self._rng.poisson(min(expected, 1e15))
                else:
                    self.further.count(column, port, expected)
            case BitErrors(port=port):
                self._add_bit_errors(effect, growth, int(now_ns[port]))
            case GaugeOverride(port=port) if effect.interval.contains(int(now_ns[port])):
                gauge = GAUGE_INDEX.get(effect.metric)
                usual = 0.0 if gauge is None else self.gauges[gauge, port]
                reading = effect.reading(usual, int(now_ns[port]))
                if gauge is None:
                    self.further.set(effect.metric, port, reading)
                else:
                    self.gauges[gauge, port] = reading
            case Rebooting() | CounterReset():
                self._reset(effect, now_ns)
            case _:
                pass

    def _part(self, interval: Interval, port: int, now_ns: int) -> float:
        """Return the part of the time since the last poll that lies in the interval."""
        since_ns = int(self.at_ns[port])
        overlap_ns = min(interval.end_ns, now_ns) - max(interval.start_ns, since_ns)
        return max(0.0, overlap_ns / max(1, now_ns - since_ns))

    def _lose_signal(self, effect: SignalLoss, port: int, growth: Floats, now_ns: int) -> None:
        since_ns, part = int(self.at_ns[port]), self._part(effect.interval, port, now_ns)
        began, ended = (since_ns < edge_ns <= now_ns for edge_ns in effect.interval)
        for column in (_RX_BYTES, _TX_BYTES, _RX_BITS, _CORRECTED):
            growth[column, port] *= 1 - part
        if began:
            growth[COUNTER_INDEX[Metric.LINK_DOWN_EVENTS, NO_INDEX], port] += 1
            if effect.disabled_port is None:
                fcs_errors, codewords = self._rng.integers(_MAX_FCS_ERRORS + 1), self._rng.integers(20)
                growth[COUNTER_INDEX[Metric.RX_FCS_ERRORS, NO_INDEX], port] += fcs_errors
                growth[COUNTER_INDEX[Metric.FEC_UNCORRECTED_CODEWORDS, NO_INDEX], port] += codewords
        growth[COUNTER_INDEX[Metric.LINK_TRANSITIONS, NO_INDEX], port] += began + ended
        if effect.interval.contains(now_ns):
            self.gauges[_OPER_UP, port] = 0.0
            self.gauges[_PRE_FEC_BER, port] = np.nan
            if effect.disabled_port == port:
                self.gauges[GAUGE_INDEX[Metric.ADMIN_UP], port] = 0.0
                self.gauges[GAUGE_INDEX[Metric.TX_POWER_DBM], port] = _DARK_DBM
            elif effect.disabled_port is not None or effect.dark_port == port:
                self.gauges[GAUGE_INDEX[Metric.RX_POWER_DBM], port] = _DARK_DBM

    def _add_bit_errors(self, effect: BitErrors, growth: Floats, now_ns: int) -> None:
        errors = effect.ber * self._part(effect.interval, effect.port, now_ns) * growth[_RX_BITS, effect.port]
        growth[_CORRECTED, effect.port] += errors
        for lane in range(LANES):
            share = 0.97 if lane == effect.lane else 0.01
            of_lane = errors * (1 / LANES if effect.lane is None else share)
            growth[COUNTER_INDEX[Metric.LANE_RAW_ERRORS, lane], effect.port] += of_lane
        if effect.interval.contains(now_ns):
            self.gauges[_PRE_FEC_BER, effect.port] += effect.ber * self._rng.uniform(0.9, 1.1)

    def _reset(self, effect: Rebooting | CounterReset, now_ns: Times) -> None:
        """Set the counters to zero from the start of the interval on; a reboot ends with a new boot id."""
        first, count = int(self.fabric.first_port[effect.device]), int(self.fabric.port_counts[effect.device])
        since, now, (start_ns, end_ns) = int(self.at_ns[first]), int(now_ns[first]), effect.interval
        if since < start_ns <= now or start_ns <= now < end_ns:
            self.counters[:, first : first + count] = 0
            self.further.reset(slice(first, first + count))
        if isinstance(effect, Rebooting) and since < end_ns <= now:
            self.boot_id[effect.device] += 1


def _lasting(effects: Sequence[Effect]) -> Iterator[Effect]:
    kinds = Rebooting | CounterIncrement | TrafficReduction | TrafficShift | GaugeOverride | BitErrors | CounterReset
    return (effect for effect in effects if isinstance(effect, kinds))

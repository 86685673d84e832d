"""The simulated fabric as its sources read it, round after round: what is counted, what gauges say, what is told.

Both ends of a link follow one traffic and one signal. Everything about healthy ports is array arithmetic; effects are
gone through one by one. How messages travel is delivery.py's.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from streams.fabric.catalogue import Metric
from streams.fabric.inventory import Inventory
from streams.simulation.columns import (
    COUNTER_INDEX,
    COUNTERS,
    GAUGE_INDEX,
    GAUGES,
    LANES,
    PER_BYTE,
    RARE_COUNTERS,
    RARE_PER_PORT_HOUR,
)
from streams.simulation.effects import (
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
from streams.simulation.fabric_arrays import FabricArrays
from streams.simulation.traffic import Traffic
from streams.wire.models import NO_INDEX

_S = 10**9
Times = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_LINE_BPS = 400e9
_LIGHT_BITS_S = 4.25e11
"""What a 400G port receives whether anybody sends or not."""
_LOST_A_DOWN = 4
"""Frames with a bad checksum before a signal goes, at most."""
_DARK_DBM = -35.0
_SPREAD = 0.015
"""Between the rails of a host, and the uplinks of a switch: a healthy fabric stays within 3 % (DETECTION 3)."""
_UPLINK = 0.6
"""Of what its hosts send, a leaf sends this much upwards: the rest has its rank under the same leaf."""


class World:
    """Counters and gauges of all ports, by the numbers of the plant: shape (columns, ports)."""

    def __init__(
        self, inventory: Inventory, plant: FabricArrays, traffic: Traffic, effects: Sequence[Effect], start_ns: int,
        chance: np.random.Generator,
    ) -> None:  # fmt: skip
        self.plant, self.traffic, self._chance = plant, traffic, chance
        ports, self.first = plant.port_count, plant.first_port
        self.port_counts = np.array([len(own) for own in plant.ports])
        self.owner = np.repeat(np.arange(len(plant.devices)), self.port_counts)
        self.links_of: dict[int, list[int]] = defaultdict(list)
        for link, ends in enumerate(self.owner[plant.links].tolist()):
            for device in ends:
                self.links_of[device].append(link)
        self._shape_links(inventory)
        self.counters = np.zeros((len(COUNTERS), ports), np.uint64)
        self.at_ns = np.full(ports, start_ns, np.int64)
        self.boot_id: list[int] = chance.integers(1, 1 << 62, len(plant.devices)).tolist()
        self._ber = np.minimum(chance.lognormal(np.log(3e-9), 1.5, ports), 8e-7)
        self._level = self._levels(chance, ports)
        self.gauges = self._level.copy()
        self.reboots: dict[int, list[Interval]] = defaultdict(list)
        for effect in effects:
            if isinstance(effect, Rebooting):
                self.reboots[effect.device].append(effect.interval)
        self.signal_losses = self._all_downs(effects)
        self._waiting = sorted(
            (*self.signal_losses, *_lasting(effects)), key=lambda effect: effect.interval.start_ns, reverse=True
        )
        self._active: list[Effect] = []
        self._reset_at: set[tuple[int, int]] = set()
        self._loads = np.zeros(len(self.hosts))
        self._age(chance)

    def _shape_links(self, inventory: Inventory) -> None:
        plant = self.plant
        ends = self.owner[plant.links]
        host = np.array(plant.is_host)
        self.hosts = np.flatnonzero(host)
        place = self._place = {int(device): i for i, device in enumerate(self.hosts)}
        self._of_host = np.array([place.get(int(a), -1) for a in ends[:, 0]])
        under: dict[int, set[int]] = defaultdict(set)
        for a, z in ends.tolist():
            if host[a]:
                under[z].add(place[a])
        pods = {device.name: device.pod for device in inventory.devices}
        of_pod: dict[str, list[int]] = defaultdict(list)
        for device in self.hosts.tolist():
            of_pod[pods[plant.devices[device]]].append(place[device])
        below = np.zeros((len(plant.links), len(self.hosts)))
        for link in np.flatnonzero(self._of_host < 0).tolist():
            own = of_pod[pods[plant.devices[int(ends[link, 0])]]] or list(range(len(self.hosts)))
            below[link, own] = 1 / len(own)
        self._below = below
        self._factor = 1 + _SPREAD * self._chance.uniform(-1, 1, (2, len(plant.links)))

    def _levels(self, chance: np.random.Generator, ports: int) -> Floats:
        level = np.empty((len(GAUGES), ports))
        level[GAUGE_INDEX[Metric.OPER_UP]] = level[GAUGE_INDEX[Metric.ADMIN_UP]] = 1.0
        level[GAUGE_INDEX[Metric.SPEED_BPS]] = _LINE_BPS
        level[GAUGE_INDEX[Metric.RX_POWER_DBM]] = chance.uniform(-2.5, 2.0, ports)
        level[GAUGE_INDEX[Metric.TX_POWER_DBM]] = chance.uniform(-0.5, 3.0, ports)
        level[GAUGE_INDEX[Metric.MODULE_TEMPERATURE_C]] = chance.uniform(38.0, 58.0, ports)
        level[GAUGE_INDEX[Metric.PCIE_WIDTH_LANES]] = level[GAUGE_INDEX[Metric.PCIE_WIDTH_MAX_LANES]] = 16.0
        level[GAUGE_INDEX[Metric.PCIE_SPEED_GTPS]] = level[GAUGE_INDEX[Metric.PCIE_SPEED_MAX_GTPS]] = 32.0
        return level

    def _age(self, chance: np.random.Generator) -> None:
        """What was counted before: bytes, old downs; 8-bit and 16-bit counters stick, 32-bit ones are about to wrap."""
        c, ports = self.counters, self.counters.shape[1]
        for metric in (Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_BITS):
            c[COUNTER_INDEX[metric, NO_INDEX]] = chance.integers(1 << 44, 1 << 50, ports)
        for metric in (Metric.LINK_DOWN_EVENTS, Metric.LINK_TRANSITIONS, Metric.RX_FCS_ERRORS):
            c[COUNTER_INDEX[metric, NO_INDEX]] = chance.poisson(4, ports)
        stuck = chance.random(ports) < 0.01
        c[COUNTER_INDEX[Metric.LINK_ERROR_RECOVERIES, NO_INDEX]][stuck] = 255
        c[COUNTER_INDEX[Metric.RX_SYMBOL_ERRORS, NO_INDEX]][chance.random(ports) < 0.01] = 65_535
        c[COUNTER_INDEX[Metric.PAUSE_RX_FRAMES, NO_INDEX]] = (1 << 32) - chance.integers(1, 5000, ports)

    def _all_downs(self, effects: Sequence[Effect]) -> list[SignalLoss]:
        """Those of links, and those that devices which go away bring about; a link trains after its device booted."""
        downs = [effect for effect in effects if isinstance(effect, SignalLoss)]
        for effect in effects:
            if isinstance(effect, Rebooting):
                for link in self.links_of[effect.device]:
                    early, late = self._chance.uniform(0, 1.5), self._chance.uniform(0.5, 15)
                    span = Interval(
                        effect.interval.start_ns + round(early * _S), effect.interval.end_ns + round(late * _S)
                    )
                    downs.append(SignalLoss(link, span))
        return downs

    def advance(self, at_ns: Times) -> None:
        """Let every port count until its device is read at `at_ns` (by device)."""
        now_ns = np.repeat(at_ns, self.port_counts)
        latest_ns, earliest_ns = int(at_ns.max()), int(self.at_ns.min())
        while self._waiting and self._waiting[-1].interval.start_ns <= latest_ns:
            self._active.append(self._waiting.pop())
        self._active = [e for e in self._active if e.interval.end_ns > earliest_ns]
        seconds = (now_ns - self.at_ns) / 1e9
        grown = self._grown(seconds, latest_ns)
        self._gauge(latest_ns)
        for effect in self._active:
            if isinstance(effect, TrafficShift):
                self._carry(effect, grown, now_ns, seconds)
        for effect in self._active:
            if isinstance(effect, SignalLoss):
                self._down(effect, grown, now_ns)
        for effect in self._active:
            if isinstance(effect, TrafficReduction):
                self._slow(effect, grown, now_ns)
        for metric, (of, a_byte) in PER_BYTE.items():
            grown[COUNTER_INDEX[metric, NO_INDEX]] += grown[COUNTER_INDEX[of, NO_INDEX]] * a_byte
        for effect in self._active:
            self._apply(effect, grown, now_ns, seconds)
        self._rarely(grown, seconds)
        grown += self._chance.random(grown.shape, np.float32)
        self.counters += grown.astype(np.uint64)
        self.at_ns = now_ns

    def host_load(self, device: int) -> float:
        """The share of its line that each rail of a host carries."""
        return float(self._loads[self._place[device]])

    def _grown(self, seconds: Floats, at_ns: int) -> Floats:
        loads = self._loads = self.traffic.loads(at_ns, self._chance)
        links = np.where(self._of_host >= 0, loads[self._of_host], _UPLINK * (self._below @ loads))
        noise = 1 + 0.01 * self._chance.standard_normal(self._factor.shape)
        there, back = _LINE_BPS / 8 * links * self._factor * noise
        grown = np.zeros(self.counters.shape)
        a, z = self.plant.links[:, 0], self.plant.links[:, 1]
        rx, tx = grown[COUNTER_INDEX[Metric.RX_BYTES, NO_INDEX]], grown[COUNTER_INDEX[Metric.TX_BYTES, NO_INDEX]]
        tx[a], rx[z], tx[z], rx[a] = there, there, back, back
        rx *= seconds
        tx *= seconds
        bits = _LIGHT_BITS_S * seconds
        grown[COUNTER_INDEX[Metric.RX_BITS, NO_INDEX]] = bits
        corrected = bits * self._ber
        grown[COUNTER_INDEX[Metric.FEC_CORRECTED_BITS, NO_INDEX]] = corrected
        for lane in range(LANES):
            grown[COUNTER_INDEX[Metric.LANE_RAW_ERRORS, lane]] = corrected / LANES
        return grown

    def _gauge(self, at_ns: int) -> None:
        """What gauges say but for effects: a day's warmth moves temperature and light a little, and each reading."""
        warm = np.sin(at_ns / 1e9 / 86_400 * 2 * np.pi)
        g, chance, ports = self.gauges, self._chance, self.counters.shape[1]
        g[:] = self._level
        g[GAUGE_INDEX[Metric.MODULE_TEMPERATURE_C]] += 2 * warm + 0.3 * chance.standard_normal(ports)
        for metric in (Metric.RX_POWER_DBM, Metric.TX_POWER_DBM):
            g[GAUGE_INDEX[metric]] += 0.15 * warm + 0.05 * chance.standard_normal(ports)
        g[GAUGE_INDEX[Metric.PRE_FEC_BER]] = self._ber * np.exp(0.1 * chance.standard_normal(ports))

    def _rarely(self, grown: Floats, seconds: Floats) -> None:
        many = self._chance.poisson(RARE_PER_PORT_HOUR / 3600 * float(seconds.sum()))
        for _ in range(many):
            metric = RARE_COUNTERS[self._chance.integers(len(RARE_COUNTERS))]
            grown[COUNTER_INDEX[metric, NO_INDEX], self._chance.integers(grown.shape[1])] += 1

    def _slow(self, effect: TrafficReduction, grown: Floats, now_ns: Times) -> None:
        """What one end sends the other receives."""
        ends = self.plant.links[effect.link].tolist()
        for port, far in zip(ends, reversed(ends), strict=True):
            factor = 1 - (1 - effect.share) * self._part(effect.interval, port, int(now_ns[port]))
            if effect.sent_by in (None, port):
                grown[COUNTER_INDEX[Metric.TX_BYTES, NO_INDEX], port] *= factor
            if effect.sent_by in (None, far):
                grown[COUNTER_INDEX[Metric.RX_BYTES, NO_INDEX], port] *= factor

    def _carry(self, effect: TrafficShift, grown: Floats, now_ns: Times, seconds: Floats) -> None:
        ends = self.plant.links[effect.link].tolist()
        far = ends[0] if effect.sent_by == ends[1] else ends[1]
        for metric, port in ((Metric.TX_BYTES, effect.sent_by), (Metric.RX_BYTES, far)):
            place, part = COUNTER_INDEX[metric, NO_INDEX], self._part(effect.interval, port, int(now_ns[port]))
            full = _LINE_BPS / 8 * effect.utilization * self._chance.uniform(0.99, 1.01) * seconds[port]
            grown[place, port] = (1 - part) * grown[place, port] + part * full

    def _apply(self, effect: Effect, grown: Floats, now_ns: Times, seconds: Floats) -> None:
        match effect:
            case CounterIncrement(port=port):
                part = self._part(effect.interval, port, int(now_ns[port]))
                of = grown[COUNTER_INDEX[effect.of_metric, NO_INDEX], port] if effect.of_metric is not None else 0.0
                more = part * (effect.per_s * seconds[port] + effect.share * of)
                grown[COUNTER_INDEX[effect.metric, effect.index], port] += self._chance.poisson(min(more, 1e15))
            case BitErrors(port=port):
                self._noisy(effect, grown, int(now_ns[port]))
            case GaugeOverride(port=port) if effect.interval.start_ns <= now_ns[port] < effect.interval.end_ns:
                self._say_otherwise(effect, int(now_ns[port]))
            case Rebooting() | CounterReset():
                self._begin_anew(effect, now_ns)
            case _:
                pass

    def _part(self, span: Interval, port: int, now_ns: int) -> float:
        """The part of the time since the last reading that lies within the span."""
        since_ns = int(self.at_ns[port])
        own = min(span.end_ns, now_ns) - max(span.start_ns, since_ns)
        return max(0.0, own / max(1, now_ns - since_ns))

    def _down(self, effect: SignalLoss, grown: Floats, now_ns: Times) -> None:
        for port in self.plant.links[effect.link].tolist():
            self._down_at(effect, port, grown, int(now_ns[port]))

    def _down_at(self, effect: SignalLoss, port: int, grown: Floats, now_ns: int) -> None:
        since_ns, part = int(self.at_ns[port]), self._part(effect.interval, port, now_ns)
        begun, ended = (since_ns < edge <= now_ns for edge in effect.interval)
        for metric in (Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_BITS, Metric.FEC_CORRECTED_BITS):
            grown[COUNTER_INDEX[metric, NO_INDEX], port] *= 1 - part
        if begun:
            grown[COUNTER_INDEX[Metric.LINK_DOWN_EVENTS, NO_INDEX], port] += 1
            if effect.disabled_port is None:
                grown[COUNTER_INDEX[Metric.RX_FCS_ERRORS, NO_INDEX], port] += self._chance.integers(_LOST_A_DOWN + 1)
                grown[COUNTER_INDEX[Metric.FEC_UNCORRECTED_CODEWORDS, NO_INDEX], port] += self._chance.integers(20)
        grown[COUNTER_INDEX[Metric.LINK_TRANSITIONS, NO_INDEX], port] += begun + ended
        if effect.interval.start_ns <= now_ns < effect.interval.end_ns:
            self.gauges[GAUGE_INDEX[Metric.OPER_UP], port] = 0.0
            self.gauges[GAUGE_INDEX[Metric.PRE_FEC_BER], port] = np.nan
            if effect.disabled_port == port:
                self.gauges[GAUGE_INDEX[Metric.ADMIN_UP], port] = 0.0
                self.gauges[GAUGE_INDEX[Metric.TX_POWER_DBM], port] = _DARK_DBM
            elif effect.disabled_port is not None or effect.dark_port == port:
                self.gauges[GAUGE_INDEX[Metric.RX_POWER_DBM], port] = _DARK_DBM

    def _noisy(self, effect: BitErrors, grown: Floats, now_ns: int) -> None:
        part = self._part(effect.interval, effect.port, now_ns)
        more = effect.ber * part * grown[COUNTER_INDEX[Metric.RX_BITS, NO_INDEX], effect.port]
        grown[COUNTER_INDEX[Metric.FEC_CORRECTED_BITS, NO_INDEX], effect.port] += more
        for lane in range(LANES):
            most = 0.97 if lane == effect.lane else 0.01
            own = more * (1 / LANES if effect.lane is None else most)
            grown[COUNTER_INDEX[Metric.LANE_RAW_ERRORS, lane], effect.port] += own
        if effect.interval.start_ns <= now_ns < effect.interval.end_ns:
            self.gauges[GAUGE_INDEX[Metric.PRE_FEC_BER], effect.port] += effect.ber * self._chance.uniform(0.9, 1.1)

    def _say_otherwise(self, effect: GaugeOverride, now_ns: int) -> None:
        place = GAUGE_INDEX[effect.metric]
        if effect.value is not None:
            self.gauges[place, effect.port] = effect.value
            return
        done = min(1.0, (now_ns - effect.interval.start_ns) / _S / effect.ramp_s) if effect.ramp_s else 1.0
        self.gauges[place, effect.port] += effect.offset * done

    def _begin_anew(self, effect: Rebooting | CounterReset, now_ns: Times) -> None:
        """Counters are zero from its beginning on, and a boot ends with it."""
        first, height = int(self.first[effect.device]), int(self.port_counts[effect.device])
        since, now, (start_ns, end_ns) = int(self.at_ns[first]), int(now_ns[first]), effect.interval
        if since < start_ns <= now or start_ns <= now < end_ns:
            self.counters[:, first : first + height] = 0
        if isinstance(effect, Rebooting) and since < end_ns <= now:
            self.boot_id[effect.device] += 1


def _lasting(effects: Sequence[Effect]) -> Iterator[Effect]:
    return (
        e
        for e in effects
        if isinstance(
            e, Rebooting | CounterIncrement | TrafficReduction | TrafficShift | GaugeOverride | BitErrors | CounterReset
        )
    )

"""Defines faults of hosts and their rails: slowness, PCIe links, heat, broken GPUs, and unreachable rails."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lab.world.columns import LINE_BPS
from lab.world.effects import (
    CounterIncrement,
    Effect,
    GaugeOverride,
    GpuCounterIncrement,
    GpuGaugeOverride,
    Interval,
    PacketDrop,
    TrafficReduction,
)
from lab.world.fabric_arrays import FabricArrays
from lab.world.fault_placement import Fault, FaultPlacer
from lab.world.ground_truth import BY_WINDOW, Dated, GroundTruth, InjectedFault, known
from lab.world.host_agents import GPUS_PER_HOST, NVLINKS, POWER_BRAKE, gpu_address, xid_event
from streams.fabric.catalogue import Metric
from streams.fabric.inventory import Link
from streams.wire.models import Condition

GPU_RECOVERED_XID = 154
_S = 10**9
_XIDS = (48, 62, 64, 74, 79, 94, 95, 119, 92, 63)
_FOLLOWING_XIDS = (45, 154)
_Counted = tuple[tuple[Metric, int, float], ...]
_Drawn = tuple[str, tuple[Metric, float] | None, _Counted]
_BY_AGENT = Dated(60.0, 15)
_AGENT_NS = 60 * _S
"""A host's agent reads PCIe links and temperatures within this time."""
_WINDOWS_NS = 30 * _S
"""Three windows of probes: link training or a route change takes less."""
_LIKE_OTHERS_NS = 420 * _S
"""The host was like the others before: five windows, and the window and lateness until the fifth is known."""


@dataclass(frozen=True, slots=True)
class SlowRail:
    """A host's link carries a share of its traffic in both directions; its NIC may show the reason."""

    link: Link
    interval: Interval
    share: float
    stalled_per_s: float = 0.0
    """The share of the time in which its PCIe reads stall."""
    speed_bps: float = 0.0
    """The speed to which the link trained; 0: its usual speed."""
    retransmits_per_s: tuple[float, float] = (0.0, 0.0)
    """The rates of timeouts and of slow restarts."""

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        nic, leaf, interval = fabric.port_number(self.link.a), fabric.port_number(self.link.z), self.interval
        found: list[Effect] = []
        if self.speed_bps:
            found += [GaugeOverride(port, Metric.SPEED_BPS, interval, value=self.speed_bps) for port in (nic, leaf)]
        found.append(TrafficReduction(fabric.link_number(self.link), interval, self.share))
        counted = zip(
            (Metric.PCIE_STALLED_READ_SECONDS, Metric.LOCAL_ACK_TIMEOUTS, Metric.ROCE_SLOW_RESTARTS),
            (self.stalled_per_s, *self.retransmits_per_s),
            strict=True,
        )
        return [*found, *(CounterIncrement(nic, metric, interval, per_s=per_s) for metric, per_s in counted if per_s)]

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.RAIL_DEGRADED, self.interval, self.link.a, BY_WINDOW)]


@dataclass(frozen=True, slots=True)
class SlowHost:
    """All rails of a host are slow together.

    The host carries a `share` of the traffic of its job's other hosts. Or its job waits for it, so that all hosts carry
    the same and only a counter of its NICs shows it.
    """

    links: tuple[Link, ...]
    interval: Interval
    share: float = 1.0
    counted: tuple[Metric, float] | None = None
    """A counter, and its growth per second."""

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        if self.counted is None:
            return [TrafficReduction(fabric.link_number(link), self.interval, self.share) for link in self.links]
        metric, per_s = self.counted
        nics = (fabric.port_number(link.a) for link in self.links)
        return [CounterIncrement(nic, metric, self.interval, per_s=per_s) for nic in nics]

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.RAIL_DEGRADED, self.interval, (self.links[0].a_device, ""), BY_WINDOW)]


@dataclass(frozen=True, slots=True)
class DegradedPcie:
    """A NIC's PCIe link trains with eight of its sixteen lanes, or at `gtps`; its port carries a traffic share."""

    link: Link
    interval: Interval
    gtps: float = 0.0
    share: float = 1.0
    stalled_per_s: float = 0.0

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        nic, interval = fabric.port_number(self.link.a), self.interval
        metric, value = (Metric.PCIE_SPEED_GTPS, self.gtps) if self.gtps else (Metric.PCIE_WIDTH_LANES, 8.0)
        found: list[Effect] = [GaugeOverride(nic, metric, interval, value=value)]
        if self.share < 1:
            found.append(TrafficReduction(fabric.link_number(self.link), interval, self.share))
        if self.stalled_per_s:
            stalled = CounterIncrement(nic, Metric.PCIE_STALLED_READ_SECONDS, interval, per_s=self.stalled_per_s)
            found.append(stalled)
        return found

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.HOST_PCIE_DEGRADED, self.interval, self.link.a, _BY_AGENT, after_ns=_AGENT_NS)]


@dataclass(frozen=True, slots=True)
class ThermalThrottle:
    """The module of a NIC is at its temperature limit, and the NIC carries a share of its traffic."""

    link: Link
    interval: Interval
    celsius: float
    share: float

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        nic = fabric.port_number(self.link.a)
        return [
            GaugeOverride(nic, Metric.MODULE_TEMPERATURE_C, self.interval, value=self.celsius),
            TrafficReduction(fabric.link_number(self.link), self.interval, self.share),
        ]

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.HOST_THERMAL_THROTTLE, self.interval, self.link.a, _BY_AGENT, after_ns=_AGENT_NS)]


@dataclass(frozen=True, slots=True)
class GpuFault:
    """The driver of a host reports an Xid of a GPU, and following ones, by default that the GPU has recovered."""

    host: str
    gpu: str
    """The GPU's PCI address."""
    interval: Interval
    code: int
    following: tuple[tuple[int, int], ...] = ()
    """The times in ns and the codes of following Xids."""

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        following = self.following or ((self.interval.end_ns, GPU_RECOVERED_XID),)
        xids = ((self.interval.start_ns, self.code), *following)
        return [xid_event(self.host, self.gpu, code, at_ns, number) for number, (at_ns, code) in enumerate(xids, 1)]

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.HOST_GPU_FAULT, self.interval, (self.host, self.gpu))]


@dataclass(frozen=True, slots=True)
class GpuFaultByValues:
    """A GPU of a host reads `level` of a gauge, or counters of it grow, by (metric, index) and growth per second."""

    condition: Condition
    host: str
    gpu: int
    interval: Interval
    level: tuple[Metric, float] | None = None
    counted: _Counted = ()

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        device = fabric.device_number(self.host)
        levels = [self.level] if self.level is not None else []
        return [
            *(GpuGaugeOverride(device, self.gpu, metric, self.interval, value) for metric, value in levels),
            *(GpuCounterIncrement(device, self.gpu, *one[:2], self.interval, one[2]) for one in self.counted),
        ]

    def ground_truths(self) -> list[GroundTruth]:
        place = self.host, gpu_address(self.gpu)
        return [known(self.condition, self.interval, place, _BY_AGENT, after_ns=_AGENT_NS)]


@dataclass(frozen=True, slots=True)
class UnreachableRail:
    """No packet reaches one rail of a host, although its link is up and its other rails answer."""

    link: Link
    interval: Interval

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        return [PacketDrop(fabric.port_number(self.link.a), self.interval, 1.0)]

    def ground_truths(self) -> list[GroundTruth]:
        return [known(Condition.RAIL_UNREACHABLE, self.interval, self.link.a, BY_WINDOW, after_ns=_WINDOWS_NS)]


def inject_slow_rail(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Slow down one rail of a busy host for 480 to 1500 s.

    The reason is unknown, or PCIe, a lower link speed, or retransmissions.
    """
    rng = placer.rng
    number, interval = placer.link(placer.host_links, within, (480, 1500), placer.is_busy)
    kind = ("slow", "slow", "pcie", "trained-low", "retransmits")[int(rng.integers(5))]
    link = placer.named(number)
    match kind:
        case "slow":
            slow = SlowRail(link, interval, rng.uniform(0.3, 0.82))
        case "pcie":
            stalled = rng.uniform(0.4, 0.9)
            slow = SlowRail(link, interval, rng.uniform(0.3, 0.8), stalled_per_s=stalled)
        case "trained-low":
            slow = SlowRail(link, interval, rng.uniform(0.45, 0.95), speed_bps=LINE_BPS / 2)
        case _:
            share = rng.uniform(0.5, 0.85)
            slow = SlowRail(link, interval, share, retransmits_per_s=(rng.uniform(2, 30), rng.uniform(2, 30)))
    return placer.injected(slow, kind)


def inject_slow_host(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Slow down a busy host for 480 to 1500 s; its bytes show it, or only its PCIe stalls or its retransmissions."""
    rng = placer.rng
    # The time before `within` may not be observed.
    within = Interval(min(within.start_ns + _LIKE_OTHERS_NS, within.end_ns), within.end_ns)

    def is_busy(host: int, interval: Interval) -> bool:
        before = Interval(interval.start_ns - _LIKE_OTHERS_NS, interval.end_ns)
        return placer.is_busy(placer.links_of(host)[0], before)

    host, interval = placer.device(placer.devices("host"), within, (480, 1500), alone=True, fits=is_busy)
    links = tuple(map(placer.named, placer.links_of(host)))
    kind = ("bytes", "pcie", "retransmits")[int(rng.integers(3))]
    match kind:
        case "bytes":
            slow = SlowHost(links, interval, rng.uniform(0.3, 0.8))
        case "pcie":
            slow = SlowHost(links, interval, counted=(Metric.PCIE_STALLED_READ_SECONDS, rng.uniform(0.4, 0.9)))
        case _:
            slow = SlowHost(links, interval, counted=(Metric.LOCAL_ACK_TIMEOUTS, rng.uniform(2, 30)))
    return placer.injected(slow, kind)


def inject_pcie(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Degrade the PCIe link of one NIC for 300 to 1500 s; its port carries less traffic."""
    rng = placer.rng
    link, interval = placer.link(placer.host_links, within, (300, 1500), placer.is_busy)
    is_narrow = rng.random() < 0.5
    gtps = 0.0 if is_narrow else float(rng.choice([2.5, 8.0, 16.0]))
    degraded = DegradedPcie(placer.named(link), interval, gtps, rng.uniform(0.3, 0.8), rng.uniform(0.1, 0.9))
    return placer.injected(degraded, "narrow" if is_narrow else "slow")


def inject_heat(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Heat the module of one NIC to 84 to 95 °C for 300 to 1500 s; its port carries less traffic."""
    rng = placer.rng
    link, interval = placer.link(placer.host_links, within, (300, 1500), placer.is_busy)
    heat = ThermalThrottle(placer.named(link), interval, rng.uniform(84, 95), rng.uniform(0.3, 0.8))
    return placer.injected(heat, "module")


def inject_gpu_fault(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Break one GPU of a host without a broken GPU: the driver reports an Xid, and two Xids that follow from it."""
    rng = placer.rng
    device, interval = placer.host_for_gpu_fault(within, (300, 900))
    code, gpu = int(rng.choice(_XIDS)), gpu_address(int(rng.integers(GPUS_PER_HOST)))
    following = tuple(
        (interval.start_ns + round(float(rng.uniform(0.1, 20)) * _S), int(rng.choice(_FOLLOWING_XIDS)))
        for _ in range(2)
    )
    return placer.injected(GpuFault(placer.fabric.devices[device], gpu, interval, code, following), f"xid {code}")


def inject_unreachable_rail(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Drop all packets to one rail of a host, for 200 to 900 s."""
    link, interval = placer.link(placer.host_links, within, (200, 900))
    return placer.injected(UnreachableRail(placer.named(link), interval), "silent")


def _inject_at_gpu(
    condition: Condition, draw: Callable[[np.random.Generator], _Drawn]
) -> Callable[[FaultPlacer, Interval], InjectedFault]:
    """Return the function that degrades one GPU for 300 to 1500 s; `draw` returns the kind, the level and counters."""

    def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
        device, interval = placer.device(placer.devices("host"), within, (300, 1500), alone=True)
        gpu = int(placer.rng.integers(GPUS_PER_HOST))
        kind, level, counted = draw(placer.rng)
        fault = GpuFaultByValues(condition, placer.fabric.devices[device], gpu, interval, level, counted)
        return placer.injected(fault, kind)

    return inject


def _draw_nvlink(rng: np.random.Generator) -> _Drawn:
    """Draw links that are lost, or one that trains again or has errors after FEC."""
    link, kind = int(rng.integers(NVLINKS)), ("lost", "recoveries", "errors")[int(rng.integers(3))]
    match kind:
        case "lost":
            return kind, (Metric.NVLINK_LINKS_UP, float(NVLINKS - int(rng.integers(1, 10)))), ()
        case "recoveries":
            return kind, None, ((Metric.NVLINK_RECOVERIES, link, rng.uniform(0.05, 0.5)),)
        case _:
            return kind, None, ((Metric.NVLINK_EFFECTIVE_ERRORS, link, rng.uniform(5, 500)),)


def _draw_power_cap(rng: np.random.Generator) -> _Drawn:
    """Draw a limit below the 700 W that are configured, or a brake that is on for a share of the time."""
    if rng.random() < 0.5:
        return "brake", None, ((Metric.GPU_CLOCK_LIMITED_NS, POWER_BRAKE, rng.uniform(0.05, 0.9) * _S),)
    return "limit", (Metric.GPU_POWER_LIMIT_W, float(round(rng.uniform(300, 600)))), ()


RAIL_DEGRADED = Fault(Condition.RAIL_DEGRADED, inject_slow_rail, detection_goal_s=300.0)
SLOW_HOST = Fault(Condition.RAIL_DEGRADED, inject_slow_host, detection_goal_s=300.0, own_stream=True)
HOST_PCIE_DEGRADED = Fault(Condition.HOST_PCIE_DEGRADED, inject_pcie)
HOST_THERMAL_THROTTLE = Fault(Condition.HOST_THERMAL_THROTTLE, inject_heat, own_stream=True)
HOST_GPU_FAULT = Fault(Condition.HOST_GPU_FAULT, inject_gpu_fault)
HOST_NVLINK_DEGRADED = Fault(
    Condition.HOST_NVLINK_DEGRADED,
    _inject_at_gpu(Condition.HOST_NVLINK_DEGRADED, _draw_nvlink),
    own_stream=True,
    is_of_trial=True,
)
HOST_POWER_CAPPED = Fault(
    Condition.HOST_POWER_CAPPED,
    _inject_at_gpu(Condition.HOST_POWER_CAPPED, _draw_power_cap),
    own_stream=True,
    is_of_trial=True,
)
RAIL_UNREACHABLE = Fault(Condition.RAIL_UNREACHABLE, inject_unreachable_rail, own_stream=True)

"""What goes wrong with devices and in hosts: restarts, silence, slow rails, PCIe, GPUs, NICs that pause all others."""

from streams.fabric.catalogue import Metric
from streams.simulation.columns import PRIORITY
from streams.simulation.effects import (
    CounterIncrement,
    Effect,
    GaugeOverride,
    Interval,
    NotPolled,
    Rebooting,
    TrafficReduction,
)
from streams.simulation.fault_placement import FaultPlacer
from streams.simulation.ground_truth import (
    EVENT_TOLERANCE_S,
    POLL_TOLERANCE_S,
    WINDOW_TOLERANCE_S,
    GroundTruth,
    InjectedFault,
    Truth,
    truth_at,
)
from streams.simulation.host_agents import GPUS_PER_HOST, gpu_address, xid_event
from streams.wire.models import Condition

_S = 10**9
_LINE_BPS = 400e9
_SILENT_NS = 30 * _S
"""Three cadences of 10 s (DESIGN 2)."""
_PAUSES_A_SECOND = 12_500.0
"""A little more than 11,921 of 65535 quanta, which are all the time of a port of 400 Gb/s (IEEE 802.1Qbb)."""


def device(places: FaultPlacer, within: Interval) -> InjectedFault:
    """A host, a leaf or a spine restarts; what hangs on it is its own affair."""
    chance = places.chance
    tiers = [tier for tier in ("host", "host", "host", "T0", "T1") if places.devices(tier)]
    tier = tiers[int(chance.integers(len(tiers)))]
    own, span = places.device(places.devices(tier), within, (90, 480))
    truth = Truth(span.start_ns, span.end_ns, Condition.DEVICE_DOWN, places.plant.devices[own], "", POLL_TOLERANCE_S)
    return InjectedFault((GroundTruth(truth, span.start_ns),), (Rebooting(own, span),), f"restart of a {tier}")


def stale(places: FaultPlacer, within: Interval) -> InjectedFault:
    """A switch answers its collector no more, or a host's agent is dead; ports and links are well."""
    said = places.chance.random() < 0.5
    tiers = ("T0", "T1") if said else ("host",)
    of = [d for tier in tiers for d in places.devices(tier)]
    own, span = places.device(of, within, (60, 900), alone=True)
    truth = Truth(
        span.start_ns, span.end_ns, Condition.TELEMETRY_STALE, places.plant.devices[own], "", POLL_TOLERANCE_S
    )
    return InjectedFault(
        (GroundTruth(truth, span.start_ns + _SILENT_NS),),
        (NotPolled(own, span, said),),
        "unread" if said else "no agent",
    )


def rail(places: FaultPlacer, within: Interval) -> InjectedFault:
    """A rail of a busy host carries less than its peers: who knows why, by PCIe, by its speed, or by sending again."""
    chance = places.chance
    link, span = places.link(places.host_links, within, (480, 1500), places.is_busy)
    nic, far = places.ports(link)
    kind = ("slow", "slow", "pcie", "trained-low", "retransmits")[int(chance.integers(5))]
    effects: list[Effect] = []
    match kind:
        case "slow":
            effects.append(TrafficReduction(link, span, chance.uniform(0.3, 0.82)))
        case "pcie":
            stalled = chance.uniform(0.4, 0.9)
            effects.append(TrafficReduction(link, span, chance.uniform(0.3, 0.8)))
            effects.append(CounterIncrement(nic, Metric.PCIE_STALLED_READ_SECONDS, span, per_s=stalled))
        case "trained-low":
            effects += [GaugeOverride(port, Metric.SPEED_BPS, span, value=_LINE_BPS / 2) for port in (nic, far)]
            effects.append(TrafficReduction(link, span, chance.uniform(0.45, 0.95)))
        case _:
            effects.append(TrafficReduction(link, span, chance.uniform(0.5, 0.85)))
            effects.append(CounterIncrement(nic, Metric.LOCAL_ACK_TIMEOUTS, span, per_s=chance.uniform(2, 30)))
            effects.append(CounterIncrement(nic, Metric.ROCE_SLOW_RESTARTS, span, per_s=chance.uniform(2, 30)))
    truth = truth_at(places, Condition.RAIL_DEGRADED, nic, span, WINDOW_TOLERANCE_S)
    return InjectedFault((GroundTruth(truth, span.start_ns),), tuple(effects), kind)


def pcie(places: FaultPlacer, within: Interval) -> InjectedFault:
    """The PCIe link of a NIC at work trains anew with half of its lanes, or slower; so does what goes through it."""
    link, span = places.link(places.host_links, within, (300, 1500), places.is_busy)
    nic = places.ports(link)[0]
    narrow = places.chance.random() < 0.5
    low = (
        GaugeOverride(nic, Metric.PCIE_WIDTH_LANES, span, value=8.0)
        if narrow
        else GaugeOverride(nic, Metric.PCIE_SPEED_GTPS, span, value=float(places.chance.choice([2.5, 8.0, 16.0])))
    )
    effects = (
        low,
        TrafficReduction(link, span, places.chance.uniform(0.3, 0.8)),
        CounterIncrement(nic, Metric.PCIE_STALLED_READ_SECONDS, span, per_s=places.chance.uniform(0.1, 0.9)),
    )
    truth = truth_at(places, Condition.HOST_PCIE_DEGRADED, nic, span, 60.0)
    return InjectedFault((GroundTruth(truth, span.start_ns + 60 * _S),), effects, "narrow" if narrow else "slow")


_XIDS = (48, 62, 64, 74, 79, 94, 95, 119, 92, 63)


def gpu(places: FaultPlacer, within: Interval) -> InjectedFault:
    """A GPU breaks: an Xid of the driver, and some that follow from it."""
    chance = places.chance
    own, span = places.host_for_gpu_fault(within, (300, 900))
    code, pci = int(chance.choice(_XIDS)), gpu_address(int(chance.integers(GPUS_PER_HOST)))
    host = places.plant.devices[own]
    codes = [(0.0, code), *((float(chance.uniform(0.1, 20)), int(chance.choice((45, 154)))) for _ in range(2))]
    effects: list[Effect] = [
        xid_event(host, pci, said, span.start_ns + round(after_s * _S), n + 1)
        for n, (after_s, said) in enumerate(codes)
    ]
    truth = Truth(span.start_ns, span.end_ns, Condition.HOST_GPU_FAULT, host, pci, EVENT_TOLERANCE_S)
    return InjectedFault((GroundTruth(truth, span.start_ns),), tuple(effects), f"xid {code}")


def storm(places: FaultPlacer, within: Interval) -> InjectedFault:
    """A NIC pauses its leaf without end; the leaf pauses those that send to it, and nothing gets there."""
    chance = places.chance
    link, span = places.link(places.host_links, within, (40, 300), places.is_busy)
    nic, at_leaf = places.ports(link)
    effects: list[Effect] = [*_paused(link, by=nic, held=at_leaf, span=span)]
    leaf = places.ends[link][1]
    others = [other for other in places.links_of(leaf) if other != link]
    chance.shuffle(others)
    for other in [o for o in others[: int(chance.integers(0, 7))] if places.claim(o, span)]:
        low, high = places.ports(other)
        mine, far = (low, high) if places.ends[other][0] == leaf else (high, low)
        late = Interval(span.start_ns + round(chance.uniform(0.01, 1) * _S), span.end_ns)
        effects += _paused(other, by=mine, held=far, span=late)
    truth = truth_at(places, Condition.CONGESTION_PFC_STORM, nic, span)
    return InjectedFault((GroundTruth(truth, span.start_ns),), tuple(effects), "storm")


def _paused(link: int, by: int, held: int, span: Interval) -> list[Effect]:
    """One port pauses the other for good: frames at both, microseconds where a NIC counts them, no traffic that way."""
    return [
        TrafficReduction(link, span, 0.0, sent_by=held),
        CounterIncrement(by, Metric.PFC_TX_FRAMES, span, per_s=_PAUSES_A_SECOND, index=PRIORITY),
        CounterIncrement(held, Metric.PFC_RX_FRAMES, span, per_s=_PAUSES_A_SECOND, index=PRIORITY),
        CounterIncrement(by, Metric.PFC_TX_PAUSE_USECONDS, span, per_s=0.99e6, index=PRIORITY),
        CounterIncrement(held, Metric.PFC_RX_PAUSE_USECONDS, span, per_s=0.99e6, index=PRIORITY),
    ]

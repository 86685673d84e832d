"""Declares faults at places and times that the caller chooses, for the demo's scenario and for tests.

Each is composed of the effects of effects.py, as the randomly placed faults of `lab.world.faults` are, and
has the rows of the truth file that a perfect detector would find. A port that is shut by configuration is no fault and
has none.
"""

from dataclasses import dataclass

from lab.world.effects import (
    BitErrors,
    CablesSwapped,
    CounterIncrement,
    Effect,
    GaugeOverride,
    Interval,
    NotPolled,
    Rebooting,
    SignalLoss,
    TrafficReduction,
    VersionChange,
)
from lab.world.facts_source import NIC, SOFTWARE
from lab.world.host_agents import xid_event
from lab.world.placed_fault import FACTS_TOLERANCE_S, WINDOWS_TOLERANCE_S, Numbers, TruthRow, row
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.inventory import Link
from streams.wire.models import Condition

GPU_RECOVERED_XID = 154
_PAUSES_PER_S = 12_500.0
"""A little more than the 11,921 frames of 65535 quanta that pause a port of 400 Gb/s all the time (IEEE 802.3, 31B)."""


@dataclass(frozen=True, slots=True)
class LinkFlap:
    """A link loses its signal several times."""

    link: Link
    downs: tuple[Interval, ...]

    def effects(self, fabric: Numbers) -> list[Effect]:
        return [SignalLoss(fabric.link(self.link), interval) for interval in self.downs]

    def truths(self) -> list[TruthRow]:
        whole = Interval(self.downs[0].start_ns, self.downs[-1].end_ns)
        return [row(whole, Condition.LINK_FLAP, self.link.a_device, self.link.a_port)]


@dataclass(frozen=True, slots=True)
class LinkDown:
    """A link loses its signal once."""

    link: Link
    interval: Interval

    def effects(self, fabric: Numbers) -> list[Effect]:
        return [SignalLoss(fabric.link(self.link), self.interval)]

    def truths(self) -> list[TruthRow]:
        return [row(self.interval, Condition.LINK_DOWN, self.link.a_device, self.link.a_port)]


@dataclass(frozen=True, slots=True)
class AdminDown:
    """A port is shut by configuration and enabled later."""

    link: Link
    port: Port
    interval: Interval

    def effects(self, fabric: Numbers) -> list[Effect]:
        return [SignalLoss(fabric.link(self.link), self.interval, disabled_port=fabric.ports[self.port])]

    def truths(self) -> list[TruthRow]:
        return []


@dataclass(frozen=True, slots=True)
class Reboot:
    """A device reboots; afterwards its counters are at zero."""

    device: str
    interval: Interval

    def effects(self, fabric: Numbers) -> list[Effect]:
        return [Rebooting(fabric.devices[self.device], self.interval)]

    def truths(self) -> list[TruthRow]:
        return [row(self.interval, Condition.DEVICE_DOWN, self.device)]


@dataclass(frozen=True, slots=True)
class Degrading:
    """One end of a link receives badly while it stays up: it loses frames, and FEC corrects more, on one lane.

    `port` is the end that counts it; `lost_ratio` is the share of its frames, `ber` that of its bits before FEC.
    """

    link: Link
    port: Port
    interval: Interval
    lost_ratio: float
    ber: float = 0.0
    lane: int = 0

    def effects(self, fabric: Numbers) -> list[Effect]:
        port = fabric.ports[self.port]
        lost = CounterIncrement(
            port, Metric.RX_FCS_ERRORS, self.interval, share=self.lost_ratio, of_metric=Metric.RX_PACKETS
        )
        return [lost, BitErrors(port, self.interval, self.ber, self.lane)]

    def truths(self) -> list[TruthRow]:
        return [row(self.interval, Condition.LINK_DEGRADING, self.port.device, self.port.port, WINDOWS_TOLERANCE_S)]


@dataclass(frozen=True, slots=True)
class SlowRail:
    """A host's link carries a share of its traffic, both ways, and counts no error."""

    link: Link
    interval: Interval
    share: float

    def effects(self, fabric: Numbers) -> list[Effect]:
        return [TrafficReduction(fabric.link(self.link), self.interval, self.share)]

    def truths(self) -> list[TruthRow]:
        return [row(self.interval, Condition.RAIL_DEGRADED, self.link.a_device, self.link.a_port, WINDOWS_TOLERANCE_S)]


@dataclass(frozen=True, slots=True)
class NarrowPcie:
    """The PCIe link of a host's NIC trains with eight of its sixteen lanes."""

    link: Link
    interval: Interval

    def effects(self, fabric: Numbers) -> list[Effect]:
        return [GaugeOverride(fabric.ports[self.link.a], Metric.PCIE_WIDTH_LANES, self.interval, value=8.0)]

    def truths(self) -> list[TruthRow]:
        return [row(self.interval, Condition.HOST_PCIE_DEGRADED, self.link.a_device, self.link.a_port)]


@dataclass(frozen=True, slots=True)
class GpuFault:
    """The driver of a host reports an Xid of a GPU, and at the end of the interval that the GPU has recovered."""

    host: str
    gpu: str
    """Its PCI address."""
    interval: Interval
    code: int

    def effects(self, fabric: Numbers) -> list[Effect]:
        return [
            xid_event(self.host, self.gpu, self.code, self.interval.start_ns, 1),
            xid_event(self.host, self.gpu, GPU_RECOVERED_XID, self.interval.end_ns, 2),
        ]

    def truths(self) -> list[TruthRow]:
        return [row(self.interval, Condition.HOST_GPU_FAULT, self.host, self.gpu)]


@dataclass(frozen=True, slots=True)
class SilentDevice:
    """A healthy switch no longer answers its collector."""

    device: str
    interval: Interval

    def effects(self, fabric: Numbers) -> list[Effect]:
        return [NotPolled(fabric.devices[self.device], self.interval, is_reported=True)]

    def truths(self) -> list[TruthRow]:
        return [row(self.interval, Condition.TELEMETRY_STALE, self.device)]


@dataclass(frozen=True, slots=True)
class PauseStorm:
    """The NIC of a host pauses its leaf all the time, which sends nothing to it."""

    link: Link
    interval: Interval

    def effects(self, fabric: Numbers) -> list[Effect]:
        nic, leaf_port = fabric.ports[self.link.a], fabric.ports[self.link.z]
        return [
            TrafficReduction(fabric.link(self.link), self.interval, 0.0, sent_by=leaf_port),
            CounterIncrement(nic, Metric.PAUSE_TX_FRAMES, self.interval, per_s=_PAUSES_PER_S),
            CounterIncrement(leaf_port, Metric.PAUSE_RX_FRAMES, self.interval, per_s=_PAUSES_PER_S),
        ]

    def truths(self) -> list[TruthRow]:
        return [row(self.interval, Condition.CONGESTION_PFC_STORM, self.link.a_device, self.link.a_port)]


@dataclass(frozen=True, slots=True)
class SwappedCables:
    """The cables of two links are swapped at their far ends; both links work."""

    link: Link
    other: Link
    interval: Interval

    def effects(self, fabric: Numbers) -> list[Effect]:
        return [CablesSwapped((fabric.link(self.link), fabric.link(self.other)), self.interval, 0.0)]

    def truths(self) -> list[TruthRow]:
        return [
            row(self.interval, Condition.LINK_MISCABLED, link.a_device, link.a_port, FACTS_TOLERANCE_S)
            for link in (self.link, self.other)
        ]


@dataclass(frozen=True, slots=True)
class OtherVersion:
    """A switch runs other software, or the NICs of a host other firmware, than the rest of the fleet."""

    device: str
    interval: Interval
    version: str

    def effects(self, fabric: Numbers) -> list[Effect]:
        device = (fabric.devices[self.device],)
        return [VersionChange(device, kind, self.version, self.interval, self.interval) for kind in (NIC, SOFTWARE)]

    def truths(self) -> list[TruthRow]:
        return [row(self.interval, Condition.FLEET_VERSION_DRIFT, self.device, "", FACTS_TOLERANCE_S)]

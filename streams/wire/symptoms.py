"""Defines the payloads of a Symptom: one class for each observation of `measure`, field for field as in internal.proto.

A field has one meaning, its unit is in its name, and a ratio is between 0 and 1. `kind` follows from the payload, so
that consumers branch on one enum; a payload of congestion also has the `state` that it begins, ends or belongs to. No
payload has all field names of another, so that a snapshot in JSON is restored without a discriminator.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from streams.fabric.catalogue import Metric


class SymptomKind(IntEnum):
    """The kind of a symptom, derived from its payload and not on the wire. It orders observations of the same time."""

    WENT_DOWN = 1
    CAME_UP = 2
    ADMIN_DISABLED = 3
    ADMIN_ENABLED = 4
    DOWNS_COUNTED = 5
    TRANSITIONS_COUNTED = 6
    RESTARTED = 7
    SOURCE_SILENT = 8
    SOURCE_RESUMED = 9
    GPU_XID = 10
    GPU_ECC_COUNTED = 11
    PCIE_DEGRADED = 12
    PCIE_RESTORED = 13
    PAUSE_RECEIVED_BEGAN = 14
    PAUSE_RECEIVED_ENDED = 15
    PAUSE_SENT_BEGAN = 16
    PAUSE_SENT_ENDED = 17
    PFC_WATCHDOG_STORM = 18
    PCIE_STALLED = 19
    INCAST_BEGAN = 20
    INCAST_ENDED = 21
    THROTTLED_BY_PAUSE_BEGAN = 22
    THROTTLED_BY_PAUSE_ENDED = 23
    CNP_THROTTLED_BEGAN = 24
    CNP_THROTTLED_ENDED = 25
    LEVEL_BEYOND_LIMIT = 26
    LEVEL_WITHIN_LIMIT = 27
    CLOCK_OFF = 28
    CLOCK_RIGHT = 29
    PORT_FAULT = 30
    SLOWED_BY_CNP_BEGAN = 31
    SLOWED_BY_CNP_ENDED = 32
    SLOWED_BY_LOSS_BEGAN = 33
    SLOWED_BY_LOSS_ENDED = 34
    FULL_BEGAN = 35
    FULL_ENDED = 36
    NVLINK_DEGRADED = 37
    NVLINK_RESTORED = 38
    NVLINK_ERRORS_COUNTED = 39
    POWER_CAPPED = 40
    POWER_RESTORED = 41
    POWER_BRAKE_COUNTED = 42
    WATCHDOG_STORM_ENDED = 43


class PortChange(IntEnum):
    """A change of the operational or of the administrative state of a port."""

    WENT_DOWN = 1
    CAME_UP = 2
    ADMIN_DISABLED = 3
    ADMIN_ENABLED = 4


class Fault(IntEnum):
    """A fault of a port, reported by its device; or what is reported of it excludes itself."""

    LOSS_OF_LIGHT = 1
    TRANSMITTER = 2
    MODULE = 3
    MODULE_REMOVED = 4
    NIC_FIRMWARE = 5
    DAMPED = 6
    SLOT_POWER = 7
    FRAME_LOSS_PREDICTED = 8
    LASER_OFF = 9
    CORRUPT_PACKETS = 10
    RETRIES_EXCEEDED = 11
    PCIE_SIGNAL = 12
    NVLINK = 13
    BFD_SESSION_DOWN = 14
    BGP_SESSION_DOWN = 15
    OPTICS = 16
    CONTRADICTED = 17

    @property
    def has_end(self) -> bool:
        """Return whether the device also reports its end: True for gauges, False for counters."""
        return self in _WITH_END


_WITH_END = frozenset(
    {
        Fault.LOSS_OF_LIGHT, Fault.TRANSMITTER, Fault.DAMPED, Fault.FRAME_LOSS_PREDICTED, Fault.LASER_OFF,
        Fault.BFD_SESSION_DOWN, Fault.BGP_SESSION_DOWN, Fault.OPTICS,
    }
)  # fmt: skip


SESSION_FAULTS = (Fault.BFD_SESSION_DOWN, Fault.BGP_SESSION_DOWN)


class PauseDirection(IntEnum):
    """The direction of pause frames (IEEE 802.1Qbb or 802.3x) at the port."""

    RECEIVED = 1
    SENT = 2


class IncastReason(IntEnum):
    """The sign that more traffic arrives for a port than it drains.

    The host causes PAUSED_BY_HOST to DROPPED_BY_HOST. `correlate` concludes DELAYED from probes and a full link.
    """

    DROPPED = 1
    MARKED = 2
    PAUSED_BY_HOST = 3
    STALLED_ON_PCIE = 4
    DROPPED_BY_HOST = 5
    DELAYED = 6
    TRIMMED = 7
    TRIMMED_DROPPED = 8


class CongestionState(IntEnum):
    """A state of a port that starts and ends."""

    PAUSE_RECEIVED = 1
    PAUSE_SENT = 2
    INCAST = 3
    THROTTLED_BY_PAUSE = 4
    CNP_THROTTLED = 5
    SLOWED_BY_CNP = 6
    SLOWED_BY_LOSS = 7
    FULL = 8
    WATCHDOG_STORM = 9


GROWTH_KINDS = {
    Metric.LINK_DOWN_EVENTS: SymptomKind.DOWNS_COUNTED,
    Metric.LINK_TRANSITIONS: SymptomKind.TRANSITIONS_COUNTED,
    Metric.GPU_ECC_UNCORRECTED: SymptomKind.GPU_ECC_COUNTED,
    Metric.NVLINK_RECOVERIES: SymptomKind.NVLINK_ERRORS_COUNTED,
    Metric.NVLINK_EFFECTIVE_ERRORS: SymptomKind.NVLINK_ERRORS_COUNTED,
    Metric.GPU_CLOCK_LIMITED_NS: SymptomKind.POWER_BRAKE_COUNTED,
}
_LEVEL_KINDS = {
    Metric.NVLINK_LINKS_UP: (SymptomKind.NVLINK_RESTORED, SymptomKind.NVLINK_DEGRADED),
    Metric.GPU_FABRIC_FAULTS: (SymptomKind.NVLINK_RESTORED, SymptomKind.NVLINK_DEGRADED),
    Metric.GPU_POWER_LIMIT_W: (SymptomKind.POWER_RESTORED, SymptomKind.POWER_CAPPED),
}
_OF_OTHER_LEVELS = SymptomKind.LEVEL_WITHIN_LIMIT, SymptomKind.LEVEL_BEYOND_LIMIT
_CHANGED = {change: SymptomKind[change.name] for change in PortChange}
_ENDED = {state: SymptomKind[f"{state.name}_ENDED"] for state in CongestionState}
_PAUSES = {direction: CongestionState[f"PAUSE_{direction.name}"] for direction in PauseDirection}
_PAUSE_BEGAN = {direction: SymptomKind[f"PAUSE_{direction.name}_BEGAN"] for direction in PauseDirection}


@dataclass(frozen=True, slots=True)
class PortTransition:
    """The state of a port changed, or was read for the first time if the symptom's `since_ns` is 0."""

    change: PortChange

    @property
    def kind(self) -> SymptomKind:
        return _CHANGED[self.change]


@dataclass(frozen=True, slots=True)
class PortFault:
    """The device reports the start or the end of a fault of the port or GPU; a counter has no end."""

    kind: ClassVar = SymptomKind.PORT_FAULT
    fault: Fault
    lane: int | None = None
    """The lane of a module with several, or the NVLink of a GPU; None if the device names none."""
    is_over: bool = False
    report: str = ""
    """The device's own text, for people."""


@dataclass(frozen=True, slots=True)
class CounterGrowth:
    """A counter of downs, transitions or errors, or of the time of a power brake, grew since the last reading."""

    counter: Metric
    growth: int
    index: int | None = None

    def __post_init__(self) -> None:
        if self.counter not in GROWTH_KINDS:
            raise ValueError(f"no symptom follows from the growth of {self.counter.name}")

    @property
    def kind(self) -> SymptomKind:
        return GROWTH_KINDS[self.counter]


@dataclass(frozen=True, slots=True)
class Restart:
    """The device restarted; `ended_boot_id` is the boot that ended, 0 if unknown."""

    kind: ClassVar = SymptomKind.RESTARTED
    ended_boot_id: int


@dataclass(frozen=True, slots=True)
class SourceSilence:
    """A source of the device delivered nothing since the symptom's `since_ns`.

    SOURCE_SILENT: the limit passed at `at_ns`. SOURCE_RESUMED: it delivered again at `at_ns`.
    """

    has_resumed: bool
    collector: str = ""
    collector_silent: bool = False
    """True if the collector sends no status either."""
    collector_error: str = ""
    """The collector's text of the reason why it does not reach the device."""
    live_sources: int = 0
    """The number of other live sources of the device."""
    cadence_ns: int = 0
    """Interval between two readings, as configured or learned; 0 if unknown."""
    boot_id: int = 0
    """Boot of the last sample before, 0 if unknown."""

    @property
    def kind(self) -> SymptomKind:
        return SymptomKind.SOURCE_RESUMED if self.has_resumed else SymptomKind.SOURCE_SILENT


@dataclass(frozen=True, slots=True)
class GpuXid:
    """The driver reported an Xid of a GPU; the symptom's port is the GPU's PCI address."""

    kind: ClassVar = SymptomKind.GPU_XID
    xid: int
    needs_nothing: bool
    """True if the driver reports that the GPU needs no action any more (Xid 154)."""
    message: str
    """The driver's line of the kernel log, for people."""


@dataclass(frozen=True, slots=True)
class PcieLink:
    """Negotiated width and speed of a PCIe link, and its maximum: the lower of its own and its slot's."""

    width_lanes: int
    width_max_lanes: int
    speed_gtps: float
    speed_max_gtps: float


@dataclass(frozen=True, slots=True)
class PcieLinkState:
    """The PCIe link of a NIC or GPU trained to `capacity_ratio` of its maximum; 1 means restored.

    `link` is None if a late reading divides a change and the values at its end are not retained.
    """

    capacity_ratio: float
    link: PcieLink | None

    @property
    def kind(self) -> SymptomKind:
        return SymptomKind.PCIE_DEGRADED if self.capacity_ratio < 1 else SymptomKind.PCIE_RESTORED


@dataclass(frozen=True, slots=True)
class LevelState:
    """A gauge of a port or GPU is beyond its limit, or no longer is.

    `limit`, `level` and `peer_level` have the unit of `metric`; `peer_level` is the median of the device's rows. Both
    levels are None if a late reading divides a change and the readings beside it are not retained.
    """

    metric: Metric
    is_beyond: bool
    limit: float
    level: float | None = None
    peer_level: float | None = None
    index: int | None = None

    @property
    def kind(self) -> SymptomKind:
        return _LEVEL_KINDS.get(self.metric, _OF_OTHER_LEVELS)[self.is_beyond]


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """The clock with which a source dates its samples differs from the brokers' by `offset_ns`; negative means behind.

    CLOCK_RIGHT: it has been right since the symptom's `at_ns`. The symptom's `since_ns` is the first sample that shows
    the difference, or the first status of a collector, whose name is then the symptom's device.
    """

    is_right: bool
    offset_ns: int = 0
    is_constant: bool = False
    """True if the offset was the same for 30 s; False if it is the offset of one sample."""
    of_collector: bool = False

    @property
    def kind(self) -> SymptomKind:
        return SymptomKind.CLOCK_RIGHT if self.is_right else SymptomKind.CLOCK_OFF


@dataclass(frozen=True, slots=True)
class PauseBegan:
    """A port is paused (RECEIVED) or pauses its peer (SENT) nearly all the time since `began_ns`, without traffic."""

    direction: PauseDirection
    began_ns: int
    paused_ratio: float
    """Share of the time between the last two readings."""
    priority: int | None
    """802.1p priority; None: 802.3x pause of the whole port."""
    by_credits: bool = False
    """True if the peer frees no credits (CBFC); `priority` is the virtual channel."""

    @property
    def kind(self) -> SymptomKind:
        return _PAUSE_BEGAN[self.direction]

    @property
    def state(self) -> CongestionState:
        return _PAUSES[self.direction]


@dataclass(frozen=True, slots=True)
class PfcWatchdogStorm:
    """The PFC watchdog of a switch reported at `at_ns` that a queue is permanently paused."""

    kind: ClassVar = SymptomKind.PFC_WATCHDOG_STORM
    queue: int | None
    """None if the report is an event, whose text is in `report`."""
    report: str
    began_ns: int = 0
    """The first reading that shows it; 0 for an event, which has no duration."""
    is_stuck: bool = False
    """True if the watchdog holds the queue while no frame of pause arrives."""

    @property
    def state(self) -> CongestionState:
        return CongestionState.WATCHDOG_STORM if self.began_ns else CongestionState.PAUSE_RECEIVED


@dataclass(frozen=True, slots=True)
class PcieStall:
    """The NIC of a port that sends pause waited for PCIe for `stalled_ratio` of the time.

    `began_ns` equals that of the accompanying PauseBegan.
    """

    kind: ClassVar = SymptomKind.PCIE_STALLED
    state: ClassVar = CongestionState.PAUSE_SENT
    began_ns: int
    stalled_ratio: float


@dataclass(frozen=True, slots=True)
class IncastBegan:
    """Since `began_ns` more traffic arrives for this end of a host's link than it drains.

    `ratio` is the share of packets marked or dropped, or the share of the time in which the host pauses. `depth_bytes`
    is the most that waited in one queue of the port in the last reading, bursts included; 0 if it was not read.
    """

    kind: ClassVar = SymptomKind.INCAST_BEGAN
    state: ClassVar = CongestionState.INCAST
    began_ns: int
    ratio: float
    reason: IncastReason
    depth_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ThrottledByPauseBegan:
    """A host's port is paused part of the time and sends `tx_ratio` of its rate before `began_ns`."""

    kind: ClassVar = SymptomKind.THROTTLED_BY_PAUSE_BEGAN
    state: ClassVar = CongestionState.THROTTLED_BY_PAUSE
    began_ns: int
    tx_ratio: float
    paused_ratio: float


@dataclass(frozen=True, slots=True)
class CnpThrottledBegan:
    """A host's port handles `cnp_per_s` congestion notifications a second since `began_ns`."""

    kind: ClassVar = SymptomKind.CNP_THROTTLED_BEGAN
    state: ClassVar = CongestionState.CNP_THROTTLED
    began_ns: int
    cnp_per_s: int


@dataclass(frozen=True, slots=True)
class SlowedByCnpBegan:
    """A host's port handles congestion notifications and sends `tx_ratio` of its rate before `began_ns`."""

    kind: ClassVar = SymptomKind.SLOWED_BY_CNP_BEGAN
    state: ClassVar = CongestionState.SLOWED_BY_CNP
    began_ns: int
    tx_ratio: float
    notified_per_s: int
    """Congestion notifications (CNPs) a second."""


@dataclass(frozen=True, slots=True)
class SlowedByLossBegan:
    """A host's port retransmits lost packets and sends `tx_ratio` of its rate before `began_ns`."""

    kind: ClassVar = SymptomKind.SLOWED_BY_LOSS_BEGAN
    state: ClassVar = CongestionState.SLOWED_BY_LOSS
    began_ns: int
    tx_ratio: float
    retransmits_per_s: int


@dataclass(frozen=True, slots=True)
class LinkFullBegan:
    """A host's port receives `load_ratio` of its speed since `began_ns`, nearly all that its link carries."""

    kind: ClassVar = SymptomKind.FULL_BEGAN
    state: ClassVar = CongestionState.FULL
    began_ns: int
    load_ratio: float


@dataclass(frozen=True, slots=True)
class CongestionEnded:
    """A state of a port ended at `at_ns`; `last_active_ns` is the last reading that showed it."""

    state: CongestionState
    last_active_ns: int

    @property
    def kind(self) -> SymptomKind:
        return _ENDED[self.state]


ThrottledBegan = ThrottledByPauseBegan | SlowedByCnpBegan | SlowedByLossBegan
"""A host's port sends far less than before: by flow control, by congestion control, or because packets are lost."""
CongestionBegan = PauseBegan | PfcWatchdogStorm | IncastBegan | CnpThrottledBegan | ThrottledBegan | LinkFullBegan
Congestion = CongestionBegan | PcieStall | CongestionEnded
Payload = (
    PortTransition | CounterGrowth | Restart | SourceSilence | ClockOffset | GpuXid | PcieLinkState | LevelState
    | PortFault | Congestion
)  # fmt: skip


def lasting_state(payload: Payload) -> str | None:
    """Return the name of the port or device state that a payload begins or ends, else None (links: PortStates)."""
    match payload:
        case PcieLinkState():
            return "pcie"
        case LevelState(metric=metric, index=index):
            return f"level/{metric.name}" if index is None else f"level/{metric.name}/{index}"
        case PortFault(fault=fault, lane=lane) if fault.has_end:
            return f"fault/{fault.name}" if lane is None else f"fault/{fault.name}/{lane}"
        case GpuXid():
            return "xid"
        case Restart():
            return "boot"
        case SourceSilence():
            return "silence"
        case ClockOffset():
            return "clock"
        case PcieStall():
            return None
        case PfcWatchdogStorm():
            return f"congestion/{payload.state.name}" if payload.began_ns else None
        case CongestionEnded() | PauseBegan() | IncastBegan() | CnpThrottledBegan() | LinkFullBegan():
            return f"congestion/{payload.state.name}"
        case ThrottledByPauseBegan() | SlowedByCnpBegan() | SlowedByLossBegan():
            return f"congestion/{payload.state.name}"
        case _:
            return None

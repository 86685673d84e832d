"""Plain models of every message, with the fields of the .proto files, which document each.

Stages, collectors and tests use these; only the codec knows protobuf. A `google.protobuf.Timestamp` called `x` is
`x_ns` here, Unix nanoseconds; an absent field with presence on the wire is None here.
"""

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from streams.fabric.catalogue import Metric
from streams.fabric.lldp_verdict import NeighborMatch
from streams.wire.symptoms import CongestionState, Payload, SymptomKind

ABSENT_COUNTER = 2**64 - 1
"""A counter that the device did not report; an absent gauge is NaN."""

IDLE_NS = 2**63 - 1
"""The watermark of a partition without live devices: it does not hold back other partitions."""

NO_INDEX = -1
"""The column index of a metric that has none."""


class Source(IntEnum):
    SOURCE_UNSPECIFIED = 0
    SOURCE_GNMI = 1
    SOURCE_SNMP = 2
    SOURCE_NIC = 3
    SOURCE_HOST = 4
    SOURCE_BRIDGE = 5

    @property
    def label(self) -> str:
        """The name for people: in lower case, without the type's prefix."""
        return self.name.removeprefix("SOURCE_").lower()


class RowKind(IntEnum):
    ROW_KIND_UNSPECIFIED = 0
    ROW_KIND_PORT = 1
    ROW_KIND_GPU = 2
    ROW_KIND_DEVICE = 3


class EventKind(IntEnum):
    KIND_UNSPECIFIED = 0
    LINK_DOWN = 1
    LINK_UP = 2
    ADMIN_DOWN = 3
    ADMIN_UP = 4
    MODULE_REMOVED = 5
    MODULE_INSERTED = 6
    MODULE_FAULT = 7
    DEVICE_REBOOT = 8
    GPU_XID = 9
    NIC_FIRMWARE_ERROR = 10
    PFC_STORM = 11
    LOG = 12


class Condition(IntEnum):
    CONDITION_UNSPECIFIED = 0
    LINK_FLAP = 1
    LINK_DOWN = 2
    LINK_DEGRADING = 3
    RAIL_DEGRADED = 4
    CONGESTION_INCAST = 5
    CONGESTION_PFC_STORM = 6
    CONGESTION_IMBALANCE = 7
    CONGESTION_COLLAPSE = 8
    TELEMETRY_STALE = 9
    FLEET_VERSION_DRIFT = 10
    DEVICE_DOWN = 11
    LINK_MISCABLED = 12
    HOST_PCIE_DEGRADED = 13
    HOST_GPU_FAULT = 14

    @property
    def slug(self) -> str:
        """The detector's name, `family/name`: the enum's but for case and punctuation."""
        family, _, name = self.name.lower().partition("_")
        return f"{family}/{name.replace('_', '-')}"

    @property
    def is_congestion(self) -> bool:
        """Return whether it is about traffic, for which the origin matters, and not about a broken part."""
        return self in (
            Condition.CONGESTION_INCAST,
            Condition.CONGESTION_PFC_STORM,
            Condition.CONGESTION_IMBALANCE,
            Condition.CONGESTION_COLLAPSE,
        )


class Severity(IntEnum):
    SEVERITY_UNSPECIFIED = 0
    INFO = 1
    WARNING = 2
    CRITICAL = 3


class Status(IntEnum):
    STATUS_UNSPECIFIED = 0
    OPEN = 1
    UPDATED = 2
    RESOLVED = 3
    RETRACTED = 4


class Cause(IntEnum):
    CAUSE_UNSPECIFIED = 0
    UNKNOWN = 1
    OPTIC = 2
    CABLE = 3
    NIC = 4
    SWITCH = 5
    PCIE = 6
    PCIE_WIDTH = 7
    PCIE_SPEED = 8
    CONGESTION = 9
    REBOOT = 10
    DEVICE = 11
    PLANE = 12
    POD = 13
    COLLECTOR = 14
    PATH = 15
    CABLES_SWAPPED = 16
    WRONG_PORT = 17
    WRONG_PLANE = 18
    WRONG_RAIL = 19
    WRONG_DEVICE = 20
    VERSION_DRIFT = 21
    VERSION_ROLLOUT = 22
    VERSION_NOT_ALLOWED = 23
    VERSION_FAULTY = 24
    GPU = 25
    GPU_MEMORY = 26
    GPU_OFF_BUS = 27
    NVLINK = 28

    @property
    def label(self) -> str:
        """The name for people and tables: in lower case, empty where unspecified."""
        return self.name.lower() if self else ""


class Action(IntEnum):
    ACTION_UNSPECIFIED = 0
    OBSERVE = 1
    DRAIN_LINK = 2
    RESTORE_LINK = 3
    REPAIR_LINK = 4
    RESET_NIC = 5
    CORDON_HOST = 6
    UNCORDON_HOST = 7
    UPGRADE_FIRMWARE = 8
    TUNE_CONGESTION = 9
    REBOOT_HOST = 10


class Verdict(IntEnum):
    VERDICT_UNSPECIFIED = 0
    APPROVED = 1
    DENIED = 2
    NEEDS_APPROVAL = 3
    SHADOW = 4
    REVOKED = 5


class Outcome(IntEnum):
    OUTCOME_UNSPECIFIED = 0
    ACCEPTED = 1
    DONE = 2
    FAILED = 3
    REJECTED = 4


class ControlKind(IntEnum):
    KIND_UNSPECIFIED = 0
    APPROVE = 1
    REJECT = 2
    MAINTENANCE = 3
    EXCLUDE = 4
    KILL_SWITCH = 5
    ACKNOWLEDGE = 6


class PeerGroup(IntEnum):
    """The ports of a device that a PeerWindow compares with each other."""

    HOST_RAILS = 1
    SWITCH_UPLINKS = 2


@dataclass(slots=True)  # not frozen, as Samples: making a frozen one takes four times as long
class Table:
    """One of the two tables of Samples; immutable by convention.

    `values` has shape (columns, rows): uint64 with ABSENT_COUNTER for counters, float64 with NaN for gauges.
    `metric` and `index` have one entry a column; index is NO_INDEX where the metric has none.
    """

    metric: tuple[Metric, ...]
    index: tuple[int, ...]
    values: npt.NDArray[np.uint64] | npt.NDArray[np.float64]


@dataclass(slots=True)
class Samples:
    device: str
    source: Source
    collector: str
    collector_run: int
    sequence: int
    sampled_at_ns: int
    received_at_ns: int
    boot_id: int
    row_kind: RowKind
    row: tuple[str, ...]
    rows_digest: int
    counters: Table
    gauges: Table
    row_delay_us: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    device: str
    port: str
    kind: EventKind
    at_ns: int
    received_at_ns: int
    source: Source
    collector: str = ""
    collector_run: int = 0
    sequence: int = 0
    detail: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True)
class Component:
    name: str
    kind: str = ""
    part_number: str = ""
    serial: str = ""
    firmware: str = ""
    alias: tuple[str, ...] = ()
    limit: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Neighbor:
    port: str
    remote_device: str
    remote_port: str


@dataclass(frozen=True, slots=True)
class Facts:
    device: str
    observed_at_ns: int
    source: Source
    vendor: str = ""
    model: str = ""
    os_version: str = ""
    booted_at_ns: int = 0
    serial: str = ""
    components: tuple[Component, ...] = ()
    neighbors: tuple[Neighbor, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectorStatus:
    collector: str
    collector_run: int
    source: Source
    device: str
    at_ns: int
    reachable: bool
    error: str = ""
    last_sample_at_ns: int = 0
    clock_offset_ns: int = 0
    cadence_ns: int = 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    device: str
    port: str = ""
    serial: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    id: str
    a: Endpoint | None = None
    z: Endpoint | None = None
    role: str = ""
    rail: int | None = None
    plane: int | None = None
    pod: str = ""
    site: str = ""
    team: str = ""
    former_ids: tuple[str, ...] = ()

    @property
    def is_pod(self) -> bool:
        """Return whether the subject is a whole pod, which has no ends."""
        return self.role == "pod"


@dataclass(frozen=True, slots=True)
class Evidence:
    statement: str
    metric: str = ""
    at: Endpoint | None = None
    observed: float | None = None
    expected: float | None = None
    comparison: str = ""
    peers: int | None = None
    window_start_ns: int | None = None
    window_end_ns: int | None = None
    collector: str = ""
    source: Source = Source.SOURCE_UNSPECIFIED
    peer: Endpoint | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class BlastRadius:
    hosts: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    gpus: int | None = None
    capacity_lost_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    seen: int | None = None
    expected: int | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Forecast:
    at_ns: int | None = None
    earliest_ns: int | None = None
    latest_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    id: str
    revision: int
    final: bool
    condition: Condition
    status: Status
    severity: Severity
    subject: Subject
    started_at_ns: int
    observed_at_ns: int
    resolved_at_ns: int | None = None
    detected_at_ns: int | None = None
    summary: str = ""
    cause: Cause = Cause.CAUSE_UNSPECIFIED
    evidence: tuple[Evidence, ...] = ()
    confidence: float | None = None
    coverage: Coverage | None = None
    blast_radius: BlastRadius | None = None
    forecast: Forecast | None = None
    parent_id: str = ""
    occurrences: int | None = None
    detector: str = ""
    detector_version: str = ""
    settings_digest: str = ""
    inventory_digest: str = ""
    shadow: bool | None = None
    runbook_url: str = ""
    dashboard_url: str = ""

    @property
    def is_closed(self) -> bool:
        """No longer true: resolved, or never was."""
        return self.status in (Status.RESOLVED, Status.RETRACTED)


@dataclass(frozen=True, slots=True)
class Remediation:
    id: str
    revision: int
    finding_ids: tuple[str, ...]
    action: Action
    verdict: Verdict
    target: Subject
    reason: str = ""
    constraint: str = ""
    constraint_limit: float | None = None
    constraint_observed: float | None = None
    decided_at_ns: int | None = None
    expires_at_ns: int | None = None
    surviving_capacity_ratio: float | None = None
    repair_hint: str = ""
    approved_by: str = ""
    runbook_url: str = ""


@dataclass(frozen=True, slots=True)
class RemediationResult:
    remediation_id: str
    outcome: Outcome
    at_ns: int | None = None
    actor: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Control:
    id: str
    kind: ControlKind
    subject_id: str = ""
    at_ns: int | None = None
    until_ns: int | None = None
    actor: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    stage: str
    partition: int
    epoch: int
    watermark_ns: int
    after_offset: int = 0
    records: int = 0
    lag: int = 0


@dataclass(frozen=True, slots=True)
class Symptom:
    """One observation of one port or device; `port` is empty for the device.

    The change that it reports lies in (since_ns, at_ns], two readings of one source; `since_ns` is 0 where unknown, and
    for congestion, whose payload has its own times.
    """

    device: str
    port: str
    payload: Payload
    at_ns: int
    since_ns: int = 0
    source: Source = Source.SOURCE_UNSPECIFIED
    by_event: bool = False
    """The device reported it as it happened; else it follows from readings."""

    @property
    def kind(self) -> SymptomKind:
        return self.payload.kind


@dataclass(frozen=True, slots=True)
class SymptomsReplaced:
    """Replaces every symptom of one state of a port, as one source reads it, whose `at_ns` is later than `since_ns`.

    Sent where a late reading changes what the readings after it show. `replacements` may be empty.
    """

    device: str
    port: str
    source: Source
    state: CongestionState
    since_ns: int
    replacements: tuple[Symptom, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    device: str
    port: str
    source: Source
    begin_ns: int
    end_ns: int
    since_ns: int
    at_ns: int
    metric: tuple[Metric, ...]
    index: tuple[int, ...]
    value: tuple[float, ...]
    before: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PeerWindow:
    device: str
    source: Source
    group: PeerGroup
    begin_ns: int
    end_ns: int
    since_ns: int
    at_ns: int
    port: tuple[str, ...]
    metric: tuple[Metric, ...]
    value: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CablingReport:
    device: str
    port: str
    source: Source
    neighbor_match: NeighborMatch
    at_ns: int
    remote_device: str = ""
    remote_port: str = ""
    moved_ns: int = 0


@dataclass(frozen=True, slots=True)
class VersionCount:
    kind: str
    vendor: str
    model: str
    source: Source
    version: str
    devices: int = 0
    parts: int = 0
    changed_ns: int = 0
    members: tuple[str, ...] = ()
    since_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class VersionCensus:
    shard: int
    at_ns: int
    versions: tuple[VersionCount, ...] = ()


@dataclass(frozen=True, slots=True)
class Episode:
    finding: Finding
    down_at_ns: tuple[int, ...] = ()
    related: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    stage: str
    partition: int
    epoch: int
    sequence: int
    chunk: int
    chunks: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    schema: int
    epoch: int
    next_offset: dict[str, int]
    upstream_watermark_ns: dict[str, int]
    watermark_ns: int
    inventory_digest: str
    state: bytes


@dataclass(frozen=True, slots=True)
class InventoryChunk:
    digest: str
    effective_ns: int
    chunk: int
    chunks: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Job:
    job: str
    device: str
    start_ns: int
    end_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    topic: str
    partition: int
    offset: int
    stage: str
    reason: str
    at_ns: int
    value: bytes


Message = (
    Samples
    | Event
    | Facts
    | CollectorStatus
    | Finding
    | Remediation
    | RemediationResult
    | Control
    | Progress
    | Symptom
    | SymptomsReplaced
    | Window
    | PeerWindow
    | CablingReport
    | VersionCensus
    | Episode
    | SnapshotChunk
    | Snapshot
    | InventoryChunk
    | Job
    | Rejected
)

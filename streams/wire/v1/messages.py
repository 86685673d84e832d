"""Plain models of the messages; written by proto/generate.py, not by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from streams.fabric.catalogue import Metric
from streams.fabric.lldp_verdict import NeighborMatch


class Source(IntEnum):
    SOURCE_UNSPECIFIED = 0
    SOURCE_GNMI = 1
    SOURCE_SNMP = 2
    SOURCE_NIC = 3
    SOURCE_HOST = 4
    SOURCE_BRIDGE = 5
    SOURCE_PROBE = 6
    SOURCE_BENCHMARK = 7
    SOURCE_SYSLOG = 8
    SOURCE_IB = 9
    SOURCE_OTLP = 10

    @property
    def label(self) -> str:
        """Return the name for people: in lower case, without the type's prefix."""
        return self.name.removeprefix("SOURCE_").lower()


class RowKind(IntEnum):
    ROW_KIND_UNSPECIFIED = 0
    ROW_KIND_PORT = 1
    ROW_KIND_GPU = 2
    ROW_KIND_DEVICE = 3
    ROW_KIND_COLLECTIVE = 4


class RemediationState(IntEnum):
    STATE_UNSPECIFIED = 0
    PROPOSED = 1
    WAITING = 2
    DENIED = 3
    EXPIRED = 4
    SHADOW = 5
    APPROVED = 6
    ACCEPTED = 7
    NO_ANSWER = 8
    FAILED = 9
    DRAINED = 10
    VERIFYING = 11
    RESTORING = 12
    PROBATION = 13
    CLOSED = 14
    ESCALATED = 15


class RepairStep(IntEnum):
    STEP_UNSPECIFIED = 0
    CLEAN_RESEAT = 1
    REPLACE_TRANSCEIVER = 2
    REPLACE_CABLE = 3
    REPLACE_PORT = 4


class RepairOutcome(IntEnum):
    REPAIR_OUTCOME_UNSPECIFIED = 0
    HELPED = 1
    NOT_QUALIFIED = 2
    RELAPSED = 3


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
    SLOT_POWER = 13
    NCCL = 14
    WATCH = 15
    LOSS_OF_SIGNAL = 16
    SIGNAL_RESTORED = 17
    OPTICS_ALARM = 18
    OPTICS_CLEARED = 19
    PFC_RESTORED = 20
    BGP_DOWN = 21
    BGP_UP = 22
    BFD_DOWN = 23
    BFD_UP = 24
    HARDWARE_FAULT = 25
    HARDWARE_CLEARED = 26


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
    HOST_THERMAL_THROTTLE = 15
    DEVICE_CLOCK_SKEW = 16
    PATH_LOSS = 17
    RAIL_UNREACHABLE = 18
    HOST_NVLINK_DEGRADED = 19
    HOST_POWER_CAPPED = 20
    TELEMETRY_CONTRADICTION = 21

    @property
    def slug(self) -> str:
        """Return the detector's name, `family/name`: the enum's name in another case and punctuation."""
        family, _, name = self.name.lower().partition("_")
        return f"{family}/{name.replace('_', '-')}"

    @property
    def is_congestion(self) -> bool:
        """Return whether the condition concerns traffic, for which the origin matters, and not a broken part."""
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
    RETENTION = 29
    HOST = 30
    MODULE_REMOVED = 31
    POWER = 70

    @property
    def label(self) -> str:
        """Return the name for people and tables: in lower case, empty if unspecified."""
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


class LemonKind(IntEnum):
    KIND_UNSPECIFIED = 0
    LINK = 1
    HOST = 2
    PART = 3
    FIRMWARE = 4


class HostUsability(IntEnum):
    USABILITY_UNSPECIFIED = 0
    GOOD = 1
    DOUBTFUL = 2
    OUT = 3


class Outcome(IntEnum):
    OUTCOME_UNSPECIFIED = 0
    ACCEPTED = 1
    DONE = 2
    FAILED = 3
    REJECTED = 4
    EXTERNAL = 5


class ControlKind(IntEnum):
    KIND_UNSPECIFIED = 0
    APPROVE = 1
    REJECT = 2
    MAINTENANCE = 3
    EXCLUDE = 4
    KILL_SWITCH = 5
    ACKNOWLEDGE = 6
    REPAIRED = 7
    CLOSE = 8
    RETURNED = 9


class ControlEffect(IntEnum):
    EFFECT_UNSPECIFIED = 0
    TAKEN = 1
    REFUSED = 2
    UNKNOWN_SUBJECT = 3


class PeerGroup(IntEnum):
    HOST_RAILS = 1
    SWITCH_UPLINKS = 2


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
class Neighbor:
    port: str
    remote_device: str
    remote_port: str


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
    collector_run: int = 0


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
    sent_at_ns: int = 0
    ended: bool = False
    unknown_lines: int = 0


@dataclass(slots=True)
class ProbeReport:
    device: str
    collector: str
    collector_run: int
    sequence: int
    begin_ns: int
    end_ns: int
    received_at_ns: int
    stalls: int = 0
    address: tuple[str, ...] = ()
    flow_source: tuple[int, ...] = ()
    flow_target: tuple[int, ...] = ()
    flow_source_port: tuple[int, ...] = ()
    flow_sent: tuple[int, ...] = ()
    flow_forward_lost: tuple[int, ...] = ()
    flow_reverse_lost: tuple[int, ...] = ()
    flow_unanswered: tuple[int, ...] = ()
    flow_discarded: tuple[int, ...] = ()
    flow_reordered: tuple[int, ...] = ()
    flow_lost_run: tuple[int, ...] = ()
    flow_rtt_p50_ns: tuple[int, ...] = ()
    flow_rtt_p99_ns: tuple[int, ...] = ()
    flow_responder_p50_ns: tuple[int, ...] = ()
    flow_forward_hops: tuple[int, ...] = ()
    flow_reverse_hops: tuple[int, ...] = ()
    hop: tuple[int, ...] = ()
    flow_forward_reach: tuple[int, ...] = ()
    flow_reverse_reach: tuple[int, ...] = ()


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
    location: str = ""

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
        """Return whether the finding is resolved or retracted."""
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
    state: RemediationState = RemediationState.STATE_UNSPECIFIED
    attempt: int = 0
    actor: str = ""
    guard: int = 0
    penalty: float | None = None
    cause: Cause = Cause.CAUSE_UNSPECIFIED
    repair_step: RepairStep = RepairStep.STEP_UNSPECIFIED
    part_number: str = ""
    step_helped: int = 0
    step_tried: int = 0
    repair_outcome: RepairOutcome = RepairOutcome.REPAIR_OUTCOME_UNSPECIFIED
    outcome_step: RepairStep = RepairStep.STEP_UNSPECIFIED
    instance: str = ""
    memory: str = ""


@dataclass(frozen=True, slots=True)
class Lemon:
    kind: LemonKind
    subject_id: str
    since_ns: int | None = None
    until_ns: int | None = None
    findings: int = 0
    failed_repairs: int = 0
    relapses: int = 0
    events: int = 0
    exposure: int = 0
    fleet_events: int = 0
    fleet_exposure: int = 0
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    part_kind: str = ""


@dataclass(frozen=True, slots=True)
class HostIssue:
    subject_id: str
    kind: str
    reason: str = ""
    source_id: str = ""


@dataclass(frozen=True, slots=True)
class HostLocality:
    host: str
    unit: str = ""
    group: tuple[str, ...] = ()
    pod: str = ""
    gpus: int = 0
    leaf: tuple[str, ...] = ()
    usability: HostUsability = HostUsability.USABILITY_UNSPECIFIED
    ratio: float | None = None
    issue: tuple[HostIssue, ...] = ()
    inventory_digest: str = ""


@dataclass(frozen=True, slots=True)
class RemediationResult:
    remediation_id: str
    outcome: Outcome
    at_ns: int | None = None
    actor: str = ""
    detail: str = ""
    prior_values: Mapping[str, str] = field(default_factory=dict)
    instance: str = ""


@dataclass(frozen=True, slots=True)
class Control:
    id: str
    kind: ControlKind
    subject_id: str = ""
    at_ns: int | None = None
    until_ns: int | None = None
    actor: str = ""
    reason: str = ""
    endless: bool = False
    sent_at_ns: int | None = None
    arrived_at_ns: int | None = None
    offset: int = 0

    @property
    def effective_ns(self) -> int:
        """Return the time from which it counts: its arrival; a recording without arrivals has the sender's time."""
        return self.arrived_at_ns or self.at_ns or 0


@dataclass(frozen=True, slots=True)
class ControlAnswer:
    control: Control | None
    effect: ControlEffect
    reason: str = ""
    nearest: tuple[str, ...] = ()
    identity: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InputLoss:
    consumer: str
    topic: str
    partition: int
    first_offset: int
    records: int
    at_ns: int
    is_recreated: bool = False
    refused: str = ""
    behind_ns: int = 0


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
class LevelExtreme:
    metric: Metric
    index: int
    value: float
    beyond_s: float
    readings: int


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
    extremes: tuple[LevelExtreme, ...] = ()


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
class HostRates:
    source: Source
    begin_ns: int
    end_ns: int
    host: tuple[str, ...]
    rate_bps: tuple[float, ...]
    speed_bps: tuple[float, ...]
    rails: tuple[int, ...]
    stalled: tuple[int, ...]
    retransmitting: tuple[int, ...]
    retry_host: tuple[int, ...] = ()
    retry_port: tuple[str, ...] = ()
    retry_ratio: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class StateTransfer:
    key: str
    former_pod: str
    pod: str
    inventory_digest: str
    at_ns: int
    epoch: int
    state: bytes


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
class ProbeWindow:
    shard: int
    at_ns: int
    probers: int
    left_out: int
    sent: int
    element: tuple[str, ...] = ()
    element_sent: tuple[int, ...] = ()
    flow_source: tuple[int, ...] = ()
    flow_target: tuple[int, ...] = ()
    flow_source_port: tuple[int, ...] = ()
    flow_sent: tuple[int, ...] = ()
    flow_forward_lost: tuple[int, ...] = ()
    flow_reverse_lost: tuple[int, ...] = ()
    flow_unanswered: tuple[int, ...] = ()
    flow_lost_run: tuple[int, ...] = ()
    flow_forward_hops: tuple[int, ...] = ()
    flow_reverse_hops: tuple[int, ...] = ()
    hop: tuple[int, ...] = ()
    flow_forward_reach: tuple[int, ...] = ()
    flow_reverse_reach: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RailProbes:
    device: str
    port: str
    shard: int
    begin_ns: int
    end_ns: int
    own_sent: int = 0
    own_lost: int = 0
    others_sent: int = 0
    others_lost: int = 0
    to_sent: int = 0
    to_lost: int = 0
    peers: int = 0


@dataclass(frozen=True, slots=True)
class RailDelays:
    device: str
    port: str
    shard: int
    begin_ns: int
    end_ns: int
    own_flows: int = 0
    own_delayed: int = 0
    peers: int = 0
    delay_ns: int = 0


@dataclass(frozen=True, slots=True)
class PortStates:
    device: str
    source: Source
    shard: int
    changed_ns: int
    silent_since_ns: int
    first_ns: int
    ports: tuple[str, ...]
    states: bytes
    changed: tuple[int, ...] = ()
    since_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PortReaders:
    shard: int
    devices: tuple[str, ...]
    sources: tuple[Source, ...]
    first_ns: tuple[int, ...]
    silent_since_ns: tuple[int, ...]
    unread_source: tuple[int, ...] = ()
    unread_port: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadingsHeartbeat:
    shard: int
    watermark_ns: int


@dataclass(frozen=True, slots=True)
class PortReadings:
    port: str
    begin_ns: int
    end_ns: int
    bits: float
    ber_limit: float
    ber: float | None = None
    raw_errors: float | None = None
    errors: float | None = None
    rx_power_dbm: float | None = None
    rx_power_limit_dbm: float | None = None
    tx_power_dbm: float | None = None
    tx_power_limit_dbm: float | None = None
    snr_db: float | None = None
    snr_limit_db: float | None = None
    rx_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class PortQuality:
    device: str
    source: Source
    readings: tuple[PortReadings, ...]


@dataclass(frozen=True, slots=True)
class PortModules:
    device: str
    source: Source
    observed_ns: int
    ports: tuple[str, ...] = ()
    part_numbers: tuple[str, ...] = ()


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
    name: str = ""
    user: str = ""
    team: str = ""
    tenant: str = ""
    gpus: int | None = None
    run: int = 0
    state: str = ""
    scheduler: str = ""
    scheduler_ids: tuple[str, ...] = ()
    array_job: str = ""
    stale_since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class SchedulerAnswer:
    name: str
    age_ns: int = 0
    problem: str = ""
    arrived_at_ns: int = 0

    @property
    def answered_ns(self) -> int:
        """Return the time of the last complete answer by the broker's clock."""
        return self.arrived_at_ns - self.age_ns


@dataclass(frozen=True, slots=True)
class Rejected:
    topic: str
    partition: int
    offset: int
    stage: str
    reason: str
    at_ns: int
    value: bytes

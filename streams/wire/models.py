"""Defines plain models of every message, with the fields of the .proto files, which document each.

Stages, collectors and tests use these; only the codec uses protobuf. A `google.protobuf.Timestamp` called `x` is `x_ns`
here, in Unix nanoseconds. An absent field with presence on the wire is None here.

This module defines findings, remediations and the responses to them. It exports the other messages, which telemetry.py,
internal_messages.py and symptoms.py define.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from streams.wire.internal_messages import *
from streams.wire.telemetry import *


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


class Outcome(IntEnum):
    OUTCOME_UNSPECIFIED = 0
    ACCEPTED = 1
    DONE = 2
    FAILED = 3
    REJECTED = 4
    EXTERNAL = 5


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
class Episode:
    finding: Finding
    down_at_ns: tuple[int, ...] = ()
    related: tuple[str, ...] = ()


Message = (
    Samples
    | Event
    | Facts
    | CollectorStatus
    | ProbeReport
    | Finding
    | Remediation
    | RemediationResult
    | Control
    | ControlAnswer
    | Progress
    | Symptom
    | SymptomsReplaced
    | StateTransfer
    | Window
    | PeerWindow
    | CablingReport
    | VersionCensus
    | HostRates
    | ProbeWindow
    | RailDelays
    | RailProbes
    | PortStates
    | ReadingsHeartbeat
    | PortQuality
    | PortModules
    | Lemon
    | HostLocality
    | Episode
    | SnapshotChunk
    | Snapshot
    | InventoryChunk
    | Job
    | SchedulerAnswer
    | Rejected
    | InputLoss
)

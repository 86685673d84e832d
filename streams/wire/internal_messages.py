"""Defines models of internal.proto: the messages between stages. streams.wire.models exports them."""

from dataclasses import dataclass
from enum import IntEnum

from streams.fabric.catalogue import Metric
from streams.fabric.lldp_verdict import NeighborMatch
from streams.wire.symptoms import CongestionState, Payload, SymptomKind
from streams.wire.telemetry import Source


class PeerGroup(IntEnum):
    """The ports of a device that a PeerWindow compares with each other."""

    HOST_RAILS = 1
    SWITCH_UPLINKS = 2


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

    The reported change lies in (since_ns, at_ns], between two readings of one source. `since_ns` is 0 if unknown, and
    for congestion, whose payload has its own times.
    """

    device: str
    port: str
    payload: Payload
    at_ns: int
    since_ns: int = 0
    source: Source = Source.SOURCE_UNSPECIFIED
    by_event: bool = False
    """True if the device reported an event; False if the symptom was derived from readings."""

    @property
    def kind(self) -> SymptomKind:
        return self.payload.kind


@dataclass(frozen=True, slots=True)
class SymptomsReplaced:
    """Replaces every symptom of one state of a port, as read by one source, whose `at_ns` is later than `since_ns`.

    Sent if a late reading changes the result of later readings. `replacements` may be empty.
    """

    device: str
    port: str
    source: Source
    state: CongestionState
    since_ns: int
    replacements: tuple[Symptom, ...] = ()


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
    """The rates of hosts; each list has one value per host."""

    source: Source
    begin_ns: int
    end_ns: int
    host: tuple[str, ...]
    rate_bps: tuple[float, ...]
    speed_bps: tuple[float, ...]
    rails: tuple[int, ...]
    stalled: tuple[int, ...]
    retransmitting: tuple[int, ...]


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
    """Probes in one window; the lists `flow_*` have one value per flow that lost probes; `hop` as in ProbeReport."""

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


class PortState(IntEnum):
    """The state of a port, one byte of `PortStates.states`. Only UP carries traffic."""

    NOT_OBSERVED = 0
    UP = 1
    DOWN = 2
    ADMIN_DOWN = 3


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

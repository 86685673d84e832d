"""The topics: each is declared here once, with its message, its key and its retention.

A record is (key, value, headers). Binary topics hold protobuf; public conclusions are CloudEvents 1.0 in Kafka's
binary mode, whose value is canonical JSON. A header `type` names a message that is not the main one of its topic.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache

from aiokafka.partitioner import murmur2

from streams.wire import codec
from streams.wire.errors import Reject
from streams.wire.models import (
    CablingReport,
    CollectorStatus,
    Control,
    ControlKind,
    Episode,
    Event,
    Facts,
    Finding,
    HostLocality,
    HostRates,
    InputLoss,
    InventoryChunk,
    Job,
    Lemon,
    Message,
    PeerWindow,
    PortModules,
    PortQuality,
    PortStates,
    ProbeReport,
    ProbeWindow,
    Progress,
    RailDelays,
    RailProbes,
    ReadingsHeartbeat,
    Rejected,
    Remediation,
    RemediationResult,
    Samples,
    SnapshotChunk,
    StateTransfer,
    Symptom,
    SymptomsReplaced,
    VersionCensus,
    Window,
)

Headers = Sequence[tuple[str, bytes]]

_HOUR = 3600
_DAY = 24 * _HOUR


class PartitionScheme(Enum):
    """The setting that determines the number of partitions of a topic."""

    TELEMETRY = "telemetry"  # one number for samples, events, facts and status, fixed for the life of v1
    POD = "pod"
    SINGLE = "one"  # totally ordered: DESIGN 2.2


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. `retention_s` is None for a compacted topic; `ce_type` marks CloudEvents.

    `retention_bytes` limits a partition; None means no limit by size.
    """

    name: str
    model: type[Message] | None
    scheme: PartitionScheme
    retention_s: int | None = None
    ce_type: str = ""
    json: bool = False
    other_models: tuple[type[Message], ...] = ()
    """The other messages of the topic, distinguished by the header `type`."""
    retention_bytes: int | None = None

    def broker_config(self) -> dict[str, str]:
        """Return the topic configuration; retention is by append time, so that replayed history does not expire."""
        settings = {"message.timestamp.type": "LogAppendTime"}
        if self.retention_s is None:
            return settings | {"cleanup.policy": "compact", "max.message.bytes": str(4 << 20)}
        size_limit = {} if self.retention_bytes is None else {"retention.bytes": str(self.retention_bytes)}
        return settings | {"cleanup.policy": "delete", "retention.ms": str(self.retention_s * 1000)} | size_limit


_TELEMETRY = PartitionScheme.TELEMETRY
# DESIGN 3: 6 h, bounded bytes. The largest fabric writes 16.5 MB/s, with snappy 4.9 (tests/bench/broker_cost.py): 356
# or 106 GB in 6 h. 8 partitions of 8 GiB are 69 GB: an outage of ClickHouse of an hour uncompressed, 4 h with snappy.
SAMPLES = Topic(
    "railsight.samples.v1", Samples, _TELEMETRY, 6 * _HOUR, other_models=(Progress,), retention_bytes=8 << 30
)
EVENTS = Topic("railsight.events.v1", Event, _TELEMETRY, 7 * _DAY)
FACTS = Topic("railsight.facts.v1", Facts, _TELEMETRY)
COLLECTOR_STATUS = Topic("railsight.collector-status.v1", CollectorStatus, _TELEMETRY)
# The largest fabric writes 1,640 reports/s of 6 kB: 10 MB/s. 8 partitions of 4 GiB are 34 GB: nearly 1 h uncompressed.
PROBES = Topic("railsight.probes.v1", ProbeReport, _TELEMETRY, 6 * _HOUR, retention_bytes=4 << 30)
TARGETS = Topic("railsight.targets.v1", None, _TELEMETRY, _DAY)
INVENTORY = Topic("railsight.inventory.v1", InventoryChunk, PartitionScheme.SINGLE)
JOBS = Topic("railsight.jobs.v1", Job, PartitionScheme.SINGLE)
SYMPTOMS = Topic(
    "railsight.symptoms.v1",
    Symptom,
    PartitionScheme.POD,
    6 * _HOUR,
    other_models=(Progress, CablingReport, SymptomsReplaced, StateTransfer),
)
SUMMARIES = Topic(
    "railsight.summaries.v1",
    Window,
    PartitionScheme.POD,
    6 * _HOUR,
    other_models=(Progress, PeerWindow, VersionCensus, HostRates, ProbeWindow, RailProbes, RailDelays),
)
EPISODES = Topic(
    "railsight.episodes.v1",
    Episode,
    PartitionScheme.SINGLE,
    7 * _DAY,
    other_models=(Progress, Symptom, VersionCensus, HostRates, ProbeWindow, SymptomsReplaced),
)
# Compacted: a reader without a snapshot gets the newest states of every source, the quality of the last minute, and the
# newest message of each state that begins and ends.
PORT_STATES = Topic(
    "railsight.port-states.v1",
    PortStates,
    PartitionScheme.SINGLE,
    other_models=(
        ReadingsHeartbeat,
        PortQuality,
        PortModules,
        Symptom,
        SymptomsReplaced,
        CablingReport,
        VersionCensus,
    ),
)
FINDINGS = Topic("railsight.findings.v1", Finding, PartitionScheme.SINGLE, 30 * _DAY, "railsight.finding.v1", json=True)
FINDINGS_OPEN = Topic(
    "railsight.findings-open.v1", Finding, PartitionScheme.SINGLE, None, "railsight.finding.v1", json=True
)
PROGRESS = Topic("railsight.progress.v1", Progress, PartitionScheme.SINGLE, _HOUR)
REMEDIATIONS = Topic(
    "railsight.remediations.v1", Remediation, PartitionScheme.SINGLE, 30 * _DAY, "railsight.remediation.v1", json=True
)
REMEDIATIONS_OPEN = Topic(
    "railsight.remediations-open.v1", Remediation, PartitionScheme.SINGLE, None, "railsight.remediation.v1", json=True
)
REMEDIATION_RESULTS = Topic(
    "railsight.remediation-results.v1", RemediationResult, PartitionScheme.SINGLE, 30 * _DAY, json=True
)
CONTROLS = Topic("railsight.controls.v1", Control, PartitionScheme.SINGLE, json=True)
LEMONS = Topic("railsight.lemons.v1", Lemon, PartitionScheme.SINGLE, json=True)
TOPOLOGY = Topic("railsight.topology.v1", HostLocality, PartitionScheme.SINGLE, json=True)
REJECTED = Topic("railsight.rejected.v1", Rejected, PartitionScheme.SINGLE, 7 * _DAY)
INPUT_LOSSES = Topic("railsight.input-losses.v1", InputLoss, PartitionScheme.SINGLE, 7 * _DAY, json=True)

STAGES = ("measure", "correlate", "attribute", "decide")
SNAPSHOTS = {
    stage: Topic(f"railsight.snapshots.{stage}.v1", SnapshotChunk, spread)
    for stage, spread in zip(
        STAGES, (_TELEMETRY, PartitionScheme.POD, PartitionScheme.SINGLE, PartitionScheme.SINGLE), strict=True
    )
}

TOPICS: tuple[Topic, ...] = (
    SAMPLES, EVENTS, FACTS, COLLECTOR_STATUS, PROBES, TARGETS, INVENTORY, JOBS, SYMPTOMS, SUMMARIES, EPISODES,
    PORT_STATES, FINDINGS, FINDINGS_OPEN, PROGRESS, REMEDIATIONS, REMEDIATIONS_OPEN, REMEDIATION_RESULTS, CONTROLS,
    LEMONS, TOPOLOGY, REJECTED, INPUT_LOSSES, *SNAPSHOTS.values(),
)  # fmt: skip
BY_NAME = {topic.name: topic for topic in TOPICS}


@dataclass(frozen=True, slots=True)
class Partitions:
    """The numbers of partitions, one for each partition scheme."""

    telemetry: int = 8
    pod: int = 4

    def count(self, topic: Topic) -> int:
        """Return the number of partitions of a topic."""
        return {PartitionScheme.TELEMETRY: self.telemetry, PartitionScheme.POD: self.pod, PartitionScheme.SINGLE: 1}[
            topic.scheme
        ]


def partition_of(name: str, partitions: int) -> int:
    """Return the partition of a device or pod: Kafka's murmur2 of its name, independent of the record's key."""
    return int((murmur2(name.encode()) & 0x7FFFFFFF) % partitions)


@dataclass(frozen=True, slots=True)
class Record:
    """One record to send. `route` is the device or pod that chooses the partition; `value` is None for a tombstone."""

    topic: Topic
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    route: str = ""

    def partition(self, partitions: Partitions) -> int:
        """Return the partition of the record."""
        return partition_of(self.route or self.key.decode(), partitions.count(self.topic))


def encode(
    topic: Topic,
    message: Message,
    *,
    key: str | None = None,
    route: str | None = None,
    cluster: str = "local",
) -> Record:
    """Return the record of a message; `key` and `route` default to those of its type."""
    default_key, default_route = _key_and_route(message)
    key = default_key if key is None else key
    headers: tuple[tuple[str, bytes], ...] = ()
    if topic.ce_type and isinstance(message, Finding | Remediation):
        headers = _cloud_event(topic.ce_type, message, cluster)
    elif topic.model is None or not isinstance(message, topic.model):
        headers = (("type", _type_header_value(type(message).__name__)),)
    value = codec.to_json(message) if topic.json else codec.to_bytes(message)
    return Record(topic, key.encode(), value, headers, (default_route or key) if route is None else route)


def tombstone(topic: Topic, key: str) -> Record:
    """Return the record that deletes a key from a compacted topic."""
    return Record(topic, key.encode(), None)


def decode_tombstone(topic: Topic, key: bytes | None) -> Message | None:
    """Return the message that a tombstone means to the reader of a compacted topic; None if it means nothing.

    A control that was removed is a control without a kind.
    """
    return Control(key.decode(errors="replace"), ControlKind.KIND_UNSPECIFIED) if topic is CONTROLS and key else None


def decode(topic: Topic, value: bytes | None, headers: Headers = ()) -> Message:
    """Decode the value of a record; raises Reject if it is not a message of the topic."""
    if value is None:
        raise Reject("a tombstone has no message")
    model = topic.model
    for name, data in headers:
        if name == "type" and data:
            model = next((other for other in topic.other_models if _type_header_value(other.__name__) == data), None)
            break
    if model is None:
        raise Reject(f"{topic.name} does not contain {_type_header(headers)}")
    return codec.from_json(model, value) if topic.json else codec.from_bytes(model, value)


@cache
def _type_header_value(name: str) -> bytes:
    """Return the value of the header `type` for a message name."""
    return name.lower().encode()


def _type_header(headers: Headers) -> str:
    """Return the header `type` of a record for an error."""
    return next((data.decode(errors="replace") for name, data in headers if name == "type" and data), "message")


def _key_and_route(message: Message) -> tuple[str, str]:
    """Return the (key, route) of a message by its type; symptoms and progress have no default key."""
    match message:
        case Samples(device=device) | Event(device=device) | ProbeReport(device=device):
            return device, device
        case Facts(device=device, source=source):
            return f"{device}/{source.name}", device
        case CollectorStatus(device=device, source=source, collector=collector):
            return f"{device}/{source.name}/{collector}", device
        case Finding(subject=subject):
            return subject.id, ""
        case Episode(finding=finding):
            return finding.subject.id, ""
        case Remediation(target=target):
            return target.id, ""
        case RemediationResult(remediation_id=identity) | Control(id=identity):
            return identity, ""
        case InventoryChunk(digest=digest, chunk=chunk):
            return f"{digest}/{chunk}", ""
        case Job(job=job, device=device, run=run):
            return f"{job}/{device}/{run}" if run else f"{job}/{device}", ""
        case SnapshotChunk():
            # Two generations alternate, so that an incomplete snapshot does not overwrite the last complete one; two
            # more are of snapshots that were read back before (streams/runtime/snapshots.py).
            return f"{message.partition}/{message.epoch}/{message.sequence % 4}.{message.chunk}", ""
        case Rejected(topic=topic, partition=partition, offset=offset):
            return f"{topic}/{partition}/{offset}", ""
        case Symptom(device=device) | SymptomsReplaced(device=device) | CablingReport(device=device):
            return device, ""
        case Window() | PeerWindow() | RailProbes() | RailDelays():
            return message.device, ""
        case _:
            return _own_key(message), ""


def _own_key(message: Message) -> str:
    """Return the key of a message of PORT_STATES, LEMONS, TOPOLOGY or INPUT_LOSSES; empty for other messages.

    That of a transfer of state is its pod.
    """
    match message:
        case StateTransfer(pod=pod):
            return pod
        case InputLoss(consumer=consumer, topic=topic, partition=partition):
            return f"{consumer}/{topic}/{partition}"
        case HostLocality(host=host):
            return host
        case Lemon(kind=kind, subject_id=subject_id):
            return f"{kind.name.lower()}/{subject_id}"
        case PortStates(device=device, source=source):
            return f"{device}/{source.name}"
        case PortQuality(device=device, source=source):
            return f"{device}/{source.name}/quality"
        case PortModules(device=device, source=source):
            return f"{device}/{source.name}/modules"
        case ReadingsHeartbeat(shard=shard):
            return f"shard/{shard}"
        case _:
            return ""


def _cloud_event(ce_type: str, message: Finding | Remediation, cluster: str) -> tuple[tuple[str, bytes], ...]:
    subject, at_ns = (
        (message.subject.id, message.observed_at_ns)
        if isinstance(message, Finding)
        else (message.target.id, message.decided_at_ns or 0)
    )
    attributes = {
        "ce_specversion": "1.0",
        "ce_type": ce_type,
        "ce_id": f"{message.id}/{message.revision}",
        "ce_source": f"/railsight/{cluster}",
        "ce_subject": subject,
        "ce_time": _rfc3339(at_ns),
        "content-type": "application/json",
    }
    return tuple((name, value.encode()) for name, value in attributes.items())


def _rfc3339(at_ns: int) -> str:
    seconds, nanos = divmod(at_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanos:09d}Z"

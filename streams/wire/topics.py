"""Declares the topics, each once, with its message, its key and its retention.

A record is (key, value, headers). Binary topics have protobuf values. Public conclusions are CloudEvents 1.0 in Kafka's
binary mode, whose value is canonical JSON. A header `type` names a message that is not the main one of its topic.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from aiokafka.partitioner import murmur2

from streams.wire import codec
from streams.wire import models as m
from streams.wire.errors import Reject

Headers = Sequence[tuple[str, bytes]]

_HOUR = 3600
_DAY = 24 * _HOUR


class PartitionScheme(Enum):
    """The setting that determines the number of partitions of a topic."""

    TELEMETRY = "telemetry"  # one number for samples, events, facts and status, fixed for all of v1
    POD = "pod"
    SINGLE = "one"  # totally ordered: DESIGN 2.2


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. `retention_s` is None for a compacted topic; `ce_type` marks CloudEvents.

    `retention_bytes` limits a partition; None means no limit by size.
    """

    name: str
    model: type[m.Message] | None
    scheme: PartitionScheme
    retention_s: int | None = None
    ce_type: str = ""
    json: bool = False
    other_models: tuple[type[m.Message], ...] = ()
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
# DESIGN 3: 6 h, bounded bytes. The largest fabric writes 16.5 MB/s, with snappy 4.9 (DECISIONS.md): 356
# or 106 GB in 6 h. 8 partitions of 8 GiB (69 GB) cover a ClickHouse outage of 1 h uncompressed, 4 h with snappy.
SAMPLES = Topic(
    "railsight.samples.v1", m.Samples, _TELEMETRY, 6 * _HOUR, other_models=(m.Progress,), retention_bytes=8 << 30
)
EVENTS = Topic("railsight.events.v1", m.Event, _TELEMETRY, 7 * _DAY)
FACTS = Topic("railsight.facts.v1", m.Facts, _TELEMETRY)
COLLECTOR_STATUS = Topic("railsight.collector-status.v1", m.CollectorStatus, _TELEMETRY)
# The largest fabric writes 1,640 reports/s of 6 kB: 10 MB/s. 8 partitions of 4 GiB are 34 GB: nearly 1 h uncompressed.
PROBES = Topic("railsight.probes.v1", m.ProbeReport, _TELEMETRY, 6 * _HOUR, retention_bytes=4 << 30)
TELEMETRY = (SAMPLES, EVENTS, FACTS, COLLECTOR_STATUS, PROBES)
"""The topics of collectors, whose records may have a MAC (streams/wire/identity.py)."""
TARGETS = Topic("railsight.targets.v1", None, _TELEMETRY, _DAY)
INVENTORY = Topic("railsight.inventory.v1", m.InventoryChunk, PartitionScheme.SINGLE)
JOBS = Topic("railsight.jobs.v1", m.Job, PartitionScheme.SINGLE)
SCHEDULERS = Topic("railsight.schedulers.v1", m.SchedulerAnswer, PartitionScheme.SINGLE)
SYMPTOMS = Topic(
    "railsight.symptoms.v1",
    m.Symptom,
    PartitionScheme.POD,
    6 * _HOUR,
    other_models=(m.Progress, m.CablingReport, m.SymptomsReplaced, m.StateTransfer),
)
SUMMARIES = Topic(
    "railsight.summaries.v1",
    m.Window,
    PartitionScheme.POD,
    6 * _HOUR,
    other_models=(
        m.Progress,
        m.PeerWindow,
        m.VersionCensus,
        m.HostRates,
        m.ProbeWindow,
        m.RailProbes,
        m.RailDelays,
        m.PortReaders,
    ),
)
EPISODES = Topic(
    "railsight.episodes.v1",
    m.Episode,
    PartitionScheme.SINGLE,
    7 * _DAY,
    other_models=(
        m.Progress,
        m.Symptom,
        m.VersionCensus,
        m.HostRates,
        m.ProbeWindow,
        m.SymptomsReplaced,
        m.PortReaders,
    ),
)
# Compacted: a reader without a snapshot gets the newest states of every source, the quality of the last minute, and the
# newest message of each state that starts and ends.
PORT_STATES = Topic(
    "railsight.port-states.v1",
    m.PortStates,
    PartitionScheme.SINGLE,
    other_models=(
        m.ReadingsHeartbeat,
        m.PortQuality,
        m.PortModules,
        m.Symptom,
        m.SymptomsReplaced,
        m.CablingReport,
        m.VersionCensus,
    ),
)
FINDINGS = Topic(
    "railsight.findings.v1", m.Finding, PartitionScheme.SINGLE, 30 * _DAY, "railsight.finding.v1", json=True
)
FINDINGS_OPEN = Topic(
    "railsight.findings-open.v1", m.Finding, PartitionScheme.SINGLE, None, "railsight.finding.v1", json=True
)
PROGRESS = Topic("railsight.progress.v1", m.Progress, PartitionScheme.SINGLE, _HOUR)
REMEDIATIONS = Topic(
    "railsight.remediations.v1", m.Remediation, PartitionScheme.SINGLE, 30 * _DAY, "railsight.remediation.v1", json=True
)
REMEDIATIONS_OPEN = Topic(
    "railsight.remediations-open.v1", m.Remediation, PartitionScheme.SINGLE, None, "railsight.remediation.v1", json=True
)
REMEDIATION_RESULTS = Topic(
    "railsight.remediation-results.v1", m.RemediationResult, PartitionScheme.SINGLE, 30 * _DAY, json=True
)
CONTROLS = Topic("railsight.controls.v1", m.Control, PartitionScheme.SINGLE, json=True)
CONTROL_ANSWERS = Topic("railsight.control-answers.v1", m.ControlAnswer, PartitionScheme.SINGLE, json=True)
LEMONS = Topic("railsight.lemons.v1", m.Lemon, PartitionScheme.SINGLE, json=True)
TOPOLOGY = Topic("railsight.topology.v1", m.HostLocality, PartitionScheme.SINGLE, json=True)
REJECTED = Topic("railsight.rejected.v1", m.Rejected, PartitionScheme.SINGLE, 7 * _DAY)
INPUT_LOSSES = Topic("railsight.input-losses.v1", m.InputLoss, PartitionScheme.SINGLE, 7 * _DAY, json=True)

STAGES = ("measure", "correlate", "attribute", "decide")
SNAPSHOTS = {
    stage: Topic(f"railsight.snapshots.{stage}.v1", m.SnapshotChunk, spread)
    for stage, spread in zip(
        STAGES, (_TELEMETRY, PartitionScheme.POD, PartitionScheme.SINGLE, PartitionScheme.SINGLE), strict=True
    )
}

TOPICS: tuple[Topic, ...] = (
    SAMPLES, EVENTS, FACTS, COLLECTOR_STATUS, PROBES, TARGETS, INVENTORY, JOBS, SCHEDULERS, SYMPTOMS, SUMMARIES,
    EPISODES, PORT_STATES, FINDINGS, FINDINGS_OPEN, PROGRESS, REMEDIATIONS, REMEDIATIONS_OPEN, REMEDIATION_RESULTS,
    CONTROLS, CONTROL_ANSWERS, LEMONS, TOPOLOGY, REJECTED, INPUT_LOSSES, *SNAPSHOTS.values(),
)  # fmt: skip
BY_NAME = {topic.name: topic for topic in TOPICS}


@dataclass(frozen=True, slots=True)
class Partitions:
    """The numbers of partitions by partition scheme."""

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
    """One record to send. `route` is the device or pod that selects the partition; `value` is None for a tombstone."""

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
    message: m.Message,
    *,
    key: str | None = None,
    route: str | None = None,
    cluster: str = "local",
) -> Record:
    """Return the record of a message; `key` and `route` default to those of its type."""
    if key is None:
        key = key_of(message) if (key_of := _KEYS.get(type(message))) else ""
    headers: tuple[tuple[str, bytes], ...] = ()
    if topic.ce_type and isinstance(message, m.Finding | m.Remediation):
        headers = _cloud_event(topic.ce_type, message, cluster)
    elif topic.model is None or not isinstance(message, topic.model):
        headers = (("type", _type_header_value(type(message).__name__)),)
    value = codec.to_json(message) if topic.json else codec.to_bytes(message)
    if route is None:
        route = message.device if isinstance(message, _ROUTED) else key
    return Record(topic, key.encode(), value, headers, route)


CLOCK_KEY = b"clock"
"""The key of tombstones whose only purpose is the broker's time in their acknowledgement."""


def tombstone(topic: Topic, key: str) -> Record:
    """Return the record that deletes a key from a compacted topic."""
    return Record(topic, key.encode(), None)


def decode_tombstone(topic: Topic, key: bytes | None) -> m.Message | None:
    """Return the message that a tombstone stands for in a compacted topic; None if it has no meaning.

    A removed control becomes a control without a kind.
    """
    if topic is not CONTROLS or not key or key == CLOCK_KEY:
        return None
    return m.Control(key.decode(errors="replace"), m.ControlKind.KIND_UNSPECIFIED)


def decode(topic: Topic, value: bytes | None, headers: Headers = ()) -> m.Message:
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


_REFUSALS = 1024
"""The number of refused controls whose answers are retained."""


def _answer_key(answer: m.ControlAnswer) -> str:
    """Return the key of an answer; a refused control does not replace the one that is in effect."""
    control = answer.control
    assert control is not None, "an answer names its control"
    return control.id if answer.effect is m.ControlEffect.TAKEN else f"refused/{control.offset % _REFUSALS}"


_KEYS: Mapping[type, Callable[[Any], str]] = {
    **dict.fromkeys((m.Samples, m.Event, m.ProbeReport), attrgetter("device")),
    **dict.fromkeys((m.Symptom, m.SymptomsReplaced, m.CablingReport), attrgetter("device")),
    **dict.fromkeys((m.Window, m.PeerWindow, m.RailProbes, m.RailDelays), attrgetter("device")),
    **dict.fromkeys((m.Facts, m.PortStates), "{0.device}/{0.source.name}".format),
    m.CollectorStatus: "{0.device}/{0.source.name}/{0.collector}".format,
    m.PortQuality: "{0.device}/{0.source.name}/quality".format,
    m.PortModules: "{0.device}/{0.source.name}/modules".format,
    m.ReadingsHeartbeat: "shard/{0.shard}".format,
    m.Finding: attrgetter("subject.id"),
    m.Episode: attrgetter("finding.subject.id"),
    m.Remediation: attrgetter("target.id"),
    m.RemediationResult: attrgetter("remediation_id"),
    m.Control: attrgetter("id"),
    m.ControlAnswer: _answer_key,
    m.Lemon: lambda lemon: f"{lemon.kind.name.lower()}/{lemon.subject_id}",
    m.HostLocality: attrgetter("host"),
    m.InventoryChunk: "{0.digest}/{0.chunk}".format,
    m.Job: lambda job: f"{job.job}/{job.device}/{job.run}" if job.run else f"{job.job}/{job.device}",
    m.SchedulerAnswer: attrgetter("name"),
    m.StateTransfer: attrgetter("pod"),
    # Two generations alternate, so that an incomplete snapshot does not overwrite the last complete one. Two more
    # belong to snapshots that were read back before (streams/runtime/snapshots.py).
    m.SnapshotChunk: lambda chunk: f"{chunk.partition}/{chunk.epoch}/{chunk.sequence % 4}.{chunk.chunk}",
    m.Rejected: "{0.topic}/{0.partition}/{0.offset}".format,
    m.InputLoss: "{0.consumer}/{0.topic}/{0.partition}".format,
}
"""The key of a message by its type; progress and summaries of a shard have no default key."""

_ROUTED = (m.Samples, m.Event, m.ProbeReport, m.Facts, m.CollectorStatus)
"""Messages whose device selects the partition, whatever their key."""


def _cloud_event(ce_type: str, message: m.Finding | m.Remediation, cluster: str) -> tuple[tuple[str, bytes], ...]:
    subject, at_ns = (
        (message.subject.id, message.observed_at_ns)
        if isinstance(message, m.Finding)
        else (message.target.id, message.decided_at_ns or 0)
    )
    attributes = {
        "ce_specversion": "1.0",
        "ce_type": ce_type,
        "ce_id": f"{message.id}/{message.revision}",
        "ce_source": f"/railsight/{cluster}",
        "ce_subject": subject,
        "ce_time": rfc3339(at_ns),
        "content-type": "application/json",
    }
    return tuple((name, value.encode()) for name, value in attributes.items())


def rfc3339(at_ns: int) -> str:
    """Return a time in UTC with nanoseconds."""
    seconds, nanos = divmod(at_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanos:09d}Z"


_Item = TypeVar("_Item")

ADMIN = "admin"
"""Creates topics, users and ACLs: `railsight topics`, `railsight acl`."""
OPERATOR = "operator"
"""A person who publishes the inventory, jobs, controls and lemons, and reads the results."""
READER = "reader"
"""A person or program that reads the results; its consumer groups begin with `reader.`."""
COLLECTOR, AUTOMATION = "collector", "automation"
PROBE = "probe"
"""The prober of a host; it has no access to the topics of other collectors."""
PROCESS, PERSIST, NOTIFY, TICKETS, LOCALITY = "process", "persist", "notify", "tickets", "locality"
"""`process` is a process that runs all stages; a separate stage has its own name."""


@dataclass(frozen=True, slots=True)
class Access:
    """The access of one part to Kafka; `group_prefixes` are of groups whose names have a part that users choose.

    Each room declares it beside its code; the ACLs of streams/runtime/acl.py are derived from it.
    """

    reads: tuple[Topic, ...] = ()
    writes: tuple[Topic, ...] = ()
    groups: tuple[str, ...] = ()
    group_prefixes: tuple[str, ...] = ()
    transactions: tuple[str, ...] = ()
    """Prefixes of transactional ids; the partition follows."""
    foreign_reads: tuple[str, ...] = ()
    """Topics of other systems."""
    checks_topics: bool = False
    """True if it reads the configuration of all topics of the registry, to refuse a wrong one."""
    administers: bool = False
    """True if it creates topics, users and ACLs; it reads and writes no records."""

    def __or__(self, other: "Access") -> "Access":
        """Return the combined access of two parts."""
        return Access(
            _merged(self.reads, other.reads),
            _merged(self.writes, other.writes),
            _merged(self.groups, other.groups),
            _merged(self.group_prefixes, other.group_prefixes),
            _merged(self.transactions, other.transactions),
            _merged(self.foreign_reads, other.foreign_reads),
            self.checks_topics or other.checks_topics,
            self.administers or other.administers,
        )


def _merged(first: tuple[_Item, ...], second: tuple[_Item, ...]) -> tuple[_Item, ...]:
    return tuple(dict.fromkeys((*first, *second)))

"""Defines the fabric-wide side of a detector: how `attribute` evaluates, explains, groups and rates its findings.

A detector sets the fields and hooks that differ from the defaults. `attribute` looks them up by condition and names no
detector. A hook is a pure function of the present findings.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, NamedTuple, Protocol

from streams.detect.evidence.device_evidence import DeviceEvidence
from streams.detect.evidence.episodes import Conclusion, Ledger, PublishedEpisodes
from streams.detect.evidence.link_history import FOREVER
from streams.detect.thresholds import ns
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Cause, Condition, Endpoint, Episode, Finding, Message, Source, Subject


class Loss(Enum):
    """The part of the network that carries no traffic while a finding is open."""

    NONE = "none"
    LINK = "link"
    LINK_INTERMITTENT = "link-intermittent"
    """The link goes down and recovers repeatedly; it counts as a lost link, but not as lost capacity."""
    DEVICE = "device"


LINK_LOSS = (Loss.LINK, Loss.LINK_INTERMITTENT)


PLANES = "planes"
"""The metric of the evidence that has the planes that a rail retains."""


class CapacityEffect(Enum):
    """The effect of a finding on the capacity of hosts, as given in its blast radius."""

    COMPUTED = "computed"
    """The share that hosts lose without the subject."""
    NONE = "none"
    """Hosts are named, but none of them loses capacity."""
    BY_DETECTOR = "by-detector"
    """The detector names the hosts itself, because its subject is not part of the topology."""


class GroupKind(IntEnum):
    """The property that the members of a group share.

    If two groups are equally large, the higher kind explains a finding.
    """

    COLLECTOR = 1
    BOARD = 2
    """The board and power of a host: its rails, and the NVLinks of its GPUs."""
    LINKS = 3
    """The device at which the links end."""
    PATH = 4
    """The pod, and the source that no longer reads its devices."""
    PLANE = 5
    POD = 6
    FABRIC = 7
    """Only the fabric: devices anywhere that are not read."""
    CLOCKS = 8
    """The site, whose devices have one source of time."""
    PART = 9
    """The part that the links share: a cage, a laser, a trunk."""


class GroupKey(NamedTuple):
    """Identifies the findings that may have one root cause if they start close together."""

    kind: GroupKind
    name: str = ""
    source: Source = Source.SOURCE_UNSPECIFIED
    is_planned: bool = False
    """True for findings in maintenance: planned work and a fault that starts at the same time have two causes."""


class Cases(Protocol):
    """The findings of the fabric, for the hooks."""

    @property
    def topology(self) -> Topology: ...

    def findings_at(self, device: str) -> list[Finding]:
        """Return the findings that are not retracted and have an end at a device, by id."""
        ...

    def findings_of(self, condition: Condition) -> list[Finding]:
        """Return the findings of a condition that are not retracted."""
        ...

    def link_faults_at(self, port: Endpoint) -> list[Finding]:
        """Return the findings at a port that are faults of its link or slot, by `FabricSide.link_fault_rank`."""
        ...

    def related_subjects(self, identity: str) -> tuple[str, ...]:
        """Return the ids of the subjects to which a finding's episode refers."""
        ...


class SeverityContext(Protocol):
    """The jobs, paths and planes around a finding, for the hooks."""

    def link_of(self, finding: Finding) -> TopologyLink | None:
        """Return the link at the finding's port, in the present inventory."""
        ...

    def has_job(self, host: str, finding: Finding) -> bool:
        """Return whether a job ran on a host when the finding started or while it was open."""
        ...

    def has_redundancy(self, link: TopologyLink, finding: Finding) -> bool:
        """Return whether the link's lower end keeps its floor of uplinks without it, or the rail enough planes."""
        ...

    def isolates_neighbor(self, device: str, finding: Finding) -> bool:
        """Return whether, without a switch, a neighbor lost its floor of uplinks, or a host a rail."""
        ...

    def silent_devices_at(self, at_ns: int) -> int | None:
        """Return the number of the inventory's devices that no source read at a time; None between two watermarks."""
        ...

    def was_critical(self, finding: Finding) -> bool:
        """Return whether the last published revision was CRITICAL."""
        ...

    def params_of(self, finding: Finding) -> Any:
        """Return the parameters of the finding's detector."""
        ...

    @property
    def watermark_ns(self) -> int: ...

    @property
    def device_count(self) -> int:
        """Return the number of devices of the inventory."""
        ...


def under_a_job(finding: Finding, context: SeverityContext) -> bool:
    """Rate a finding CRITICAL while a job runs on its host."""
    return context.has_job(device_at(finding.subject), finding)


def always(_finding: Finding, _context: SeverityContext) -> bool:
    """Rate every finding CRITICAL."""
    return True


class DeviceEvaluation(NamedTuple):
    """The conclusions of a detector on one device, by the part of it that it evaluates."""

    published: dict[str, PublishedEpisodes]
    episodes: list[Episode]
    """The episodes that changed."""
    due_ns: int = FOREVER
    """The watermark at which to evaluate again without new input."""


def evaluate_whole(
    ledger: Ledger, published: Mapping[str, PublishedEpisodes], conclusions: Iterable[Conclusion]
) -> DeviceEvaluation:
    """Return the evaluation of a detector that evaluates a device as a whole, without parts."""
    current, episodes, due_ns = ledger.reconcile(published.get("", ()), conclusions)
    return DeviceEvaluation({"": current}, episodes, due_ns)


@dataclass(frozen=True, slots=True)
class FabricEvaluator:
    """Evaluates the whole fabric. Its state is mutable and part of the snapshot of `attribute`."""

    new_state: type[Any]
    """Creates an empty state, a dataclass."""
    on_message: Callable[[Any, Message], None]
    """Adds a message to the state; ignores those of other types."""
    evaluate: Callable[[Any, Ledger, Any, Topology], list[Episode]] | None = None
    """Returns the episodes that changed; takes the detector's parameters, its ledger, the state and the topology."""
    on_published: Callable[[Any, Finding], None] | None = None
    """Adds a published finding of any detector to the state."""
    incomplete: Callable[[Any, Ledger, Any, Topology], Iterable[str]] | None = None
    """Returns the ids of the detector's findings that `complete` may change; takes the arguments of `evaluate`."""
    complete: Callable[[Any, Finding, Topology], Finding] | None = None
    """Returns a finding of the detector, completed from the state, before its blast radius is estimated."""


@dataclass(frozen=True, slots=True)
class FabricSide:
    """The treatment of one detector's findings by `attribute`."""

    loss: Loss = Loss.NONE
    is_silence: bool = False
    """True if the finding states that data is missing. It is the last choice for a root, and takes no capacity."""
    is_shown_by_one_end: bool = False
    """True if a healthy end of the link does not contradict the other: coverage and confidence count the ends that are
    read. Of other findings they count the ends that show the fault, because both would (a link that is down, a pause).
    """
    ends_with_parent: bool = False
    """True if the finding ends when its parent ends. If it is open long after that, it has its own root cause."""
    ends_after_ns: int = 0
    """The time for which the finding is still open after its end; it ends so much later than its parent."""
    explained_by_outages: bool = True
    """True if the outage of a device at one of its ends can be its parent."""
    link_fault_rank: int | None = None
    """The order in which faults of a link or slot explain other findings at that port; None for other findings."""
    capacity: CapacityEffect = CapacityEffect.COMPUTED
    severity_by_detector: bool = False
    """True if the detector's own severity stands; `is_critical` is not called."""
    is_critical: Callable[[Finding, SeverityContext], bool] | None = None
    """Rates a finding by DETECTION 3a: CRITICAL or WARNING. INFO always stands. None means never CRITICAL."""
    severity_due_ns: Callable[[Any, Finding], int] | None = None
    """Returns the watermark at which an open finding can become CRITICAL without input; takes the detector's
    parameters."""
    group_keys: Callable[[Finding, Topology], tuple[GroupKey, ...]] | None = None
    """Returns the groups to which a finding may belong."""
    explain: Callable[[Finding, Cases], tuple[Finding, Finding | None]] | None = None
    """Returns a finding, completed from other findings, and its parent; the finding has its blast radius. Called unless
    an outage explains it."""
    affected_by: Callable[[Finding, Cases], Iterable[str]] | None = None
    """Returns the ids of this detector's findings that change with a finding of any detector."""
    child_cause: Callable[[Finding, Finding], Cause | None] | None = None
    """Returns the cause that a parent of this detector gives to a child; None if the child keeps its own."""
    evaluate_device: (
        Callable[[Any, Ledger, Mapping[str, PublishedEpisodes], DeviceEvidence], DeviceEvaluation] | None
    ) = None
    """Evaluates a device from all evidence on it; takes the detector's parameters, its ledger, the published episodes
    and the evidence."""
    evaluator: FabricEvaluator | None = None
    silence_limit_ns: Callable[[Any, int], int] | None = None
    """Returns the longest permitted silence of a source with a cadence; takes the detector's parameters."""
    min_silent_ratio: Callable[[Any], float] | None = None
    """Returns the share of the inventory's devices from which its findings are one group of the fabric."""


def device_at(subject: Subject) -> str:
    """Return the device of a subject's first end; empty if it has none."""
    return subject.a.device if subject.a is not None else ""


def devices_of(finding: Finding) -> list[str]:
    """Return the devices at the ends of a finding's subject."""
    return sorted({end.device for end in (finding.subject.a, finding.subject.z) if end is not None})


_LOSS_SETTLED_NS, _SETTLED_NS = ns(180), ns(900)
"""The longest time between the end of a fault and its report, with reserve: of a loss (120 s, a device that restarts),
and of what ends after a quiet time (600 s, link/flap)."""


def planned_until_ns(topology: Topology, finding: Finding, side: FabricSide) -> int:
    """Return the time at which an open finding is planned work no more, as its fault has outlasted the maintenance of
    its devices by the inventory; 0 if it began in none.
    """
    until_ns = topology.maintenance_until_ns(devices_of(finding))
    if finding.started_at_ns >= until_ns:
        return 0
    is_lost = side.is_silence or side.loss in (Loss.LINK, Loss.DEVICE)
    return until_ns + (_LOSS_SETTLED_NS if is_lost else _SETTLED_NS)


def in_maintenance(topology: Topology, finding: Finding, side: FabricSide, now_ns: int) -> bool:
    """Return whether a finding is planned work: its fault began and ended in a maintenance, or may have."""
    if finding.resolved_at_ns is None:
        return now_ns < planned_until_ns(topology, finding, side)
    return max(finding.started_at_ns, finding.resolved_at_ns) < topology.maintenance_until_ns(devices_of(finding))


def detection_order(finding: Finding) -> tuple[int, int, str, str]:
    """Return the sort key by which the first detected of several findings is their root.

    The first detected finding hardly changes as more arrive. At equal times the subject decides, because an id differs
    between runs on different days.
    """
    return finding.detected_at_ns or finding.started_at_ns, finding.started_at_ns, finding.subject.id, finding.id


def takes_a_rail_from_a_job(finding: Finding, context: SeverityContext) -> bool:
    """Return whether an open finding is at a host's link, a job runs there, and no other plane of the rail is left."""
    link = context.link_of(finding)
    if finding.resolved_at_ns is not None or link is None or link.role != HOST_LINK:
        return False
    return context.has_job(link.lower.device, finding) and not context.has_redundancy(link, finding)


def link_keys(finding: Finding, topology: Topology) -> tuple[GroupKey, ...]:
    """Return the group keys of a link: the devices at its ends, the parts that it shares, and the board of its host."""
    devices = tuple(GroupKey(GroupKind.LINKS, device) for device in devices_of(finding))
    return devices + part_keys(finding, topology) + rail_keys(finding, topology)


def rail_keys(finding: Finding, topology: Topology) -> tuple[GroupKey, ...]:
    """Return the group key of a lost rail: the board of its host, unless an end reports another cause."""
    return board_keys(finding, topology) if finding.cause is Cause.UNKNOWN else ()


def board_keys(finding: Finding, topology: Topology) -> tuple[GroupKey, ...]:
    """Return the group key of the host at a finding's first end: its board."""
    known = topology.devices.get(device_at(finding.subject))
    return (GroupKey(GroupKind.BOARD, known.name),) if known is not None and known.kind == "host" else ()


def part_keys(finding: Finding, topology: Topology) -> tuple[GroupKey, ...]:
    """Return the group keys of the parts that a link shares with others."""
    return tuple(GroupKey(GroupKind.PART, part) for part in topology.parts_of(finding.subject.id))


def location_keys(pod: str, plane: int | None) -> tuple[GroupKey, ...]:
    """Return the group keys of a pod and of a plane, if known."""
    pods = (GroupKey(GroupKind.POD, pod),) if pod else ()
    planes = (GroupKey(GroupKind.PLANE, str(plane)),) if plane is not None else ()
    return pods + planes


def closure(
    first: Finding, related: Callable[[Finding], Iterable[Finding]], at_most: int = FOREVER
) -> dict[str, Finding]:
    """Return by id the findings that are related to one directly or through others, including it."""
    found, pending = {first.id: first}, [first]
    while pending and len(found) < at_most:
        fresh = {other.id: other for other in related(pending.pop()) if other.id not in found}
        found |= fresh
        pending += fresh.values()
    return found


def are_concurrent(one: Finding, other: Finding) -> bool:
    """Return whether both findings were open at the same time."""
    return all(
        later.resolved_at_ns is None or earlier.started_at_ns <= later.resolved_at_ns
        for earlier, later in ((one, other), (other, one))
    )

"""Defines the interface of a detector: a frozen descriptor of functions, which stages call without naming detectors.

A detector has up to two sides. `correlate` evaluates `pod` on the output of `measure` for one pod; `attribute`
evaluates `fabric` on the episodes of all pods. All functions are pure: they do no I/O, read no clock, and return the
new state instead of changing the old one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum, auto
from typing import Any, Generic, NamedTuple, TypeVar

from streams.detect.evidence.episodes import Conclusion, Ledger, PublishedEpisodes, Reconciled, prune
from streams.detect.evidence.link_history import FOREVER, LinkHistory
from streams.detect.evidence.params import SharedSettings
from streams.detect.evidence.shared import SharedEvidence
from streams.detect.evidence.subjects import port_subject
from streams.detect.fabric_side import FabricSide
from streams.detect.measure.monitors.monitor import Monitor
from streams.detect.thresholds import Thresholds, ns
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.intervals import Interval
from streams.fabric.topology import Topology
from streams.wire.models import (
    CablingReport,
    Condition,
    Coverage,
    Episode,
    PeerGroup,
    PeerWindow,
    RailDelays,
    RailProbes,
    Subject,
    Symptom,
    SymptomsReplaced,
    Window,
)
from streams.wire.symptoms import CongestionState, SymptomKind

Observation = Symptom | SymptomsReplaced | Window | PeerWindow | CablingReport | RailProbes | RailDelays
Input = (
    SymptomKind | CongestionState | PeerGroup | type[Window] | type[CablingReport] | type[RailProbes]
    | type[RailDelays]
)  # fmt: skip
"""One kind of observation. A CongestionState means all symptoms of that state, and their replacements."""

P = TypeVar("P", bound=Thresholds)
S = TypeVar("S")

BATCH_NS = ns(10)
"""The interval at which links of a pod are evaluated together."""

NOW = 0
"""As `Observed.evaluate_at_ns`: evaluate at once, before the next message."""


class Scope(Enum):
    """The key under which `correlate` holds a detector's state."""

    LINK = "link"
    """The id of the link of a port, or of the port if the inventory has no link there."""
    PORT = "port"
    """`device/port`: a part of a host."""
    DEVICE = "device"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class Context:
    """The inputs of a detector besides its own state, and the ledger of its episodes."""

    ledger: Ledger
    topology: Topology
    evidence: SharedEvidence
    hosts_by_pod: Mapping[str, Sequence[str]]

    @property
    def settings(self) -> SharedSettings:
        return self.ledger.settings

    @property
    def watermark_ns(self) -> int:
        return self.ledger.watermark_ns

    def reconcile(
        self, published: PublishedEpisodes, conclusions: Sequence[Conclusion], pruned_until_ns: int = 0
    ) -> Reconciled:
        """Match conclusions with published episodes; see `Ledger`.

        The coverage of a link with sources that contradict each other is unknown, so that it needs approval.
        """
        return self.ledger.reconcile(published, [self._checked(one) for one in conclusions], pruned_until_ns)

    def _checked(self, one: Conclusion) -> Conclusion:
        """Return a conclusion, without its coverage if its evidence is contradicted."""
        history = self.evidence.links.get(one.subject.id)
        found = [] if history is None else list(history.contradictions(one.begin_ns, one.resolved_ns or FOREVER))
        if not found:
            return one
        ports = tuple(dict.fromkeys(f"{s.device}/{s.port}" for s in found))
        return replace(one, coverage=Coverage(missing=ports))

    def next_ns(self, *times_ns: int) -> int:
        """Return the earliest of these times that is in the future; FOREVER if there is none."""
        return min((at_ns for at_ns in times_ns if at_ns > self.watermark_ns), default=FOREVER)

    @property
    def next_batch_ns(self) -> int:
        """Return when to evaluate all links of a pod together: load of all of them is else evaluated for each link."""
        return (self.watermark_ns // BATCH_NS + 1) * BATCH_NS

    def subject_at(self, port: Port) -> Subject:
        """Return the link that ends at a port, or the port if no link is known."""
        return port_subject(self.topology, port)

    def restarts(self, device: str) -> Sequence[Interval]:
        return self.evidence.restarts.get(device, ())

    def is_reporting(self, device: str) -> bool:
        """Return whether no source of a device is silent."""
        return not self.evidence.silent.get(device)

    def training_intervals(self, port: Port) -> list[Interval]:
        """Return the intervals in which the link at a port was down, trained or was administratively down."""
        return self.evidence.training_intervals(self.settings.link, self.topology.subject_id(port))

    @property
    def retained_since_ns(self) -> int:
        return self.watermark_ns - self.settings.link_retention_ns


class Observed(NamedTuple, Generic[S]):
    """The state after an observation (None: nothing is retained), and when to evaluate it.

    `evaluate_at_ns` is None for a known observation, NOW, or a watermark, which replaces the scheduled time.
    """

    state: S | None
    evaluate_at_ns: int | None = None
    is_for_fabric: bool = False
    """True if `attribute` also receives the observation, for the `FabricEvaluator` of the detector."""


class Evaluation(NamedTuple, Generic[S]):
    """The state after an evaluation (None: closed), the episodes to publish, and the time of the next evaluation."""

    state: S | None
    episodes: Sequence[Episode] = ()
    evaluate_at_ns: int = FOREVER


@dataclass(frozen=True, slots=True)
class PodSide(Generic[P, S]):
    """The side of a detector that `correlate` evaluates, per key of its scope."""

    state: type[S]
    """The part of a snapshot for one key: a dataclass or a tuple type that pydantic can validate."""
    scope: Scope
    evaluate: Callable[[P, str, Any, Context], Evaluation[S]]
    """(params, key, state, context): concludes from the retained state, also if only the watermark advanced. With
    `observe` it is called only for keys with a state."""
    inputs: tuple[Input, ...] = ()
    observe: Callable[[P, S | None, Any, Context], Observed[S]] | None = None
    """(params, state, observation, context): adds one of `inputs` to the state."""
    follows_link_history: bool = False
    """Evaluated, together with all detectors with this flag, whenever the history of its link changes.

    Without `observe` its state is None until it returns one.
    """
    link_retention_ns: Callable[[P, float], int] | None = None
    """(params, lateness_s): the required retention of a link's history; the longest of all detectors applies."""
    device_of: Callable[[S], str] | None = None
    """The device whose restart triggers an evaluation; None if restarts have no effect."""
    subject_of: Callable[[S], Subject] | None = None
    rebase: Callable[[S, Subject, Context], Observed[S]] | None = None
    """(state, subject, context): adopts the subject of a new inventory; its id may be another."""
    merge: Callable[[S, S], S] | None = None
    """(moved, existing): joins two states that a new inventory makes one."""
    end_moved: Callable[[S, Callable[[Subject], bool], int], tuple[S, list[Symptom]]] | None = None
    """(state of a pod, whether a link has moved to another pod, time): ends the states of moved links; returns the
    symptoms that began the open ones, which are sent to their pods."""


class Placement(IntEnum):
    """The effect of an open finding on its subject, for the placement of jobs."""

    DOUBTFUL = 1
    """The subject is up, but a job on it may be slow or fail."""
    OUT = 2
    """The subject carries nothing, or may not be used."""


class JobDomain(Enum):
    """The part of the cluster to which a finding counts in the verdict on a job."""

    NETWORK = "network"
    HOST = "host"
    NEITHER = "neither"


class FaultOf(Enum):
    """The part to whose history of faults a finding belongs."""

    LINK = auto()
    HOST = auto()


@dataclass(frozen=True, slots=True)
class Detector(Generic[P]):
    """One detector: its condition, thresholds and evaluation, and the meaning of its findings for other rooms.

    Every detector must state the fields without a default, which other rooms read.
    """

    condition: Condition
    version: str
    opens_when: str
    """The row of the table of detectors in README.md, which `make docs` writes: without a period, no `|`."""
    params: type[P]
    section: str
    """Its thresholds are `[detect.<section>]`."""
    placement: Placement | None
    """None if the finding concerns no capacity that a placement could use."""
    job_domain: JobDomain
    lemon: FaultOf | None
    """The history from which lemons are chosen; None if the finding is not a hardware fault."""
    hidden_in: Mapping[str, str]
    """Simulated fabric (`bench detection --fabric`) -> the reason why its sources never show the fault."""
    fabric: FabricSide = field(default_factory=FabricSide)
    pod: PodSide[P, Any] | None = None
    monitor: Callable[[P], Monitor] | None = None
    """Creates the monitor that it adds to `measure`, from its own parameters."""
    state_metric: Metric | None = None
    """The metric to print if the evidence of a finding names no sampled metric."""
    slug: str = field(init=False)
    """The condition as `family/name`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "slug", self.condition.slug)

    def ledger(self, settings: SharedSettings, watermark_ns: int) -> Ledger:
        return Ledger(self.condition, self.version, settings, watermark_ns)


def link_follower(
    evaluate: Callable[[P, str, PublishedEpisodes | None, Context], Evaluation[PublishedEpisodes]],
    link_retention_ns: Callable[[P, float], int] | None = None,
) -> PodSide[P, PublishedEpisodes]:
    """Return the side of a detector that concludes only from the history of a link."""
    return PodSide(
        PublishedEpisodes, Scope.LINK, evaluate, follows_link_history=True, link_retention_ns=link_retention_ns,
        merge=lambda moved, existing: (*moved, *existing),
    )  # fmt: skip


def follow_link(
    context: Context, history: LinkHistory, published: PublishedEpisodes | None, conclusions: Sequence[Conclusion],
    waits: Iterable[int],
) -> Evaluation[PublishedEpisodes]:  # fmt: skip
    """Return the evaluation of a link's history; `waits` are the times of possible further conclusions."""
    known = prune(published or (), context.retained_since_ns)
    known, episodes, due_ns = context.reconcile(known, conclusions, history.pruned_until_ns)
    return Evaluation(known or None, episodes, min(due_ns, context.next_ns(*waits)))


def input_of(observation: Observation) -> tuple[type, Any]:
    """Return the key of an observation's kind, in the form of `input_key`."""
    match observation:
        case Symptom(payload=payload):
            state = getattr(payload, "state", None)
            return (SymptomKind, payload.kind) if state is None else (CongestionState, state)
        case SymptomsReplaced(state=state):
            return CongestionState, state
        case PeerWindow(group=group):
            return PeerGroup, group
        case _:
            return type, type(observation)


def input_key(value: Input) -> tuple[type, Any]:
    """Return a key for a table of inputs; it includes the type, because members of two IntEnums may be equal."""
    return (type(value), value) if isinstance(value, IntEnum) else (type, value)

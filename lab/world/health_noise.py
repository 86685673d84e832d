"""Simulates the episodes of a noisy fleet: many short faults that need no action, and a few outages that do.

The base is a published fleet of 288 nodes with 190,000 health events a day, of which 99.1 % needed no action. A fault
is reported repeatedly while it lasts; an episode has one revision for the events of a window. Few parts cause most of
them. The shares and durations of the conditions are choices; no published fleet has them.
"""

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import exp

from streams.fabric.ids import Port, finding_id, port_id
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Cause, Condition, Coverage, Endpoint, Episode, Finding, Severity, Status, Subject

NOISIEST_EVENTS, NOISIEST_NODES = 190_000, 288
"""The health events per day, and the nodes, of the published fleet."""

OUTAGES, GPU_LOSSES = 7, 5
"""Outages of switches and lost GPUs per day, each of which must page: about ten times the rates of 2,048 GPUs (choice;
a published trace has one network fault in 5 days on 400 servers)."""

_S = 10**9
_MIN_S, _MAX_S = 1.0, 900.0
_OUTAGE_S = 1800.0
_SKEW = 1.2
"""The skew of the parts: the n-th worst has a share in proportion to n to the power of minus this."""
_WINDOW_NS = 60 * _S
"""`measure` emits windows of this width (WindowParams)."""
_TRIES = 30
_DOWN_HOLD_S = 30.0
"""link/down is detected after a link was down for this long (DownParams)."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of noise: its share of all findings, its places, and the median of its duration."""

    condition: Condition
    share: float
    places: str
    median_s: float
    severity: Severity = Severity.WARNING
    cause: Cause = Cause.CAUSE_UNSPECIFIED


KINDS = (
    Kind(Condition.HOST_GPU_FAULT, 0.46, "gpus", 60),
    Kind(Condition.LINK_FLAP, 0.20, "host links", 30),
    Kind(Condition.LINK_FLAP, 0.05, "fabric links", 30),
    Kind(Condition.CONGESTION_INCAST, 0.12, "host links", 60),
    Kind(Condition.LINK_DEGRADING, 0.05, "links", 300, Severity.INFO),
    Kind(Condition.LINK_DEGRADING, 0.05, "links", 300),
    Kind(Condition.CONGESTION_IMBALANCE, 0.06, "fabric links", 120),
    Kind(Condition.LINK_DOWN, 0.01, "links", 90),
)
"""The shares of the findings; the injected outages are additional."""


@dataclass(frozen=True, slots=True)
class NoiseSpec:
    """The amount of noise, and the outages within it."""

    findings: int
    events: int
    hours: float
    seed: int
    outages: int = OUTAGES
    """Switches that lose half of their uplinks at once: each must page."""
    gpu_losses: int = GPU_LOSSES
    """GPUs off the bus: each must page."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: an episode from its start to its end."""

    condition: Condition
    subject: Subject
    start_ns: int
    end_ns: int
    severity: Severity
    cause: Cause = Cause.CAUSE_UNSPECIFIED


@dataclass(slots=True)
class Noise:
    """The faults of a period, ordered by their start."""

    spec: NoiseSpec
    faults: list[Fault] = field(default_factory=list)
    outages: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Maps an outage that must page to its start and end."""

    def episodes(self) -> Iterator[tuple[int, Episode, Fault]]:
        """Yield the revisions of all episodes in the order of time."""
        events = self.spec.events / len(self.faults)
        waiting: list[tuple[int, int, Iterator[tuple[int, Episode]], Episode, Fault]] = []
        pending = iter(enumerate(self.faults))
        following = next(pending, None)
        while waiting or following is not None:
            while following is not None and (not waiting or following[1].start_ns <= waiting[0][0]):
                number, fault = following
                _push(waiting, number, _revisions(fault, events), fault)
                following = next(pending, None)
            at_ns, number, revisions, episode, fault = heapq.heappop(waiting)
            yield at_ns, episode, fault
            _push(waiting, number, revisions, fault)


def _push(
    waiting: list[tuple[int, int, Iterator[tuple[int, Episode]], Episode, Fault]], number: int,
    revisions: Iterator[tuple[int, Episode]], fault: Fault,
) -> None:  # fmt: skip
    if (head := next(revisions, None)) is not None:
        heapq.heappush(waiting, (head[0], number, revisions, head[1], fault))


def simulate_noise(topology: Topology, spec: NoiseSpec, start_ns: int) -> Noise:
    """Draw the faults of a period; raises ValueError if the fabric has no room for them."""
    return _Builder(topology, spec, start_ns).build()


class _Builder:
    """Draws faults so that one part has one fault of a condition at a time."""

    def __init__(self, topology: Topology, spec: NoiseSpec, start_ns: int) -> None:
        self._topology, self._spec, self._start_ns = topology, spec, start_ns
        self._chance = random.Random(spec.seed)  # noqa: S311 — no secret
        links = list(topology.links.values())
        hosts = [device.name for device in topology.devices.values() if device.kind == "host"]
        host_links = [_link_subject(link) for link in links if link.role == HOST_LINK]
        fabric_links = [_link_subject(link) for link in links if link.role != HOST_LINK]
        if not fabric_links:
            raise ValueError("the fabric has no links between switches; take more GPUs, or switches of fewer ports")
        self._leaves = [device.name for device in topology.devices.values() if device.tier == "T0"]
        gpus = [
            Subject(port_id(Port(host, f"gpu{gpu}")), Endpoint(host, f"gpu{gpu}"), pod=topology.pod_of(host))
            for host in hosts
            for gpu in range(topology.devices[host].gpus or 8)
        ]
        self._places = {
            "gpus": gpus, "host links": host_links, "fabric links": fabric_links, "links": [*host_links, *fabric_links],
        }  # fmt: skip
        self._draws = {name: self._skewed(places) for name, places in self._places.items()}
        self._busy: dict[tuple[Condition, str], list[tuple[int, int]]] = {}
        self._noise = Noise(spec)

    def build(self) -> Noise:
        """Return the faults in the order of their start."""
        for number in range(self._spec.outages):
            self._add_outage(number)
        for number in range(self._spec.gpu_losses):
            self._add_gpu_loss(number)
        for kind in KINDS:
            for _ in range(round(self._spec.findings * kind.share)):
                self._add_single(kind)
        self._noise.faults.sort(key=lambda fault: (fault.start_ns, fault.subject.id, fault.condition))
        return self._noise

    def _skewed(self, places: Sequence[Subject]) -> Callable[[], Subject]:
        """Return a function that draws one of these places; it draws a few of them most often."""
        ordered = list(places)
        self._chance.shuffle(ordered)
        total = 0.0
        cumulative = [total := total + (n + 10) ** -_SKEW for n in range(len(ordered))]
        return lambda: self._chance.choices(ordered, cum_weights=cumulative)[0]

    def _moment_ns(self, duration_s: float) -> int:
        """Return a random time after the first minutes and a quarter of an hour or more before the end."""
        length_s = self._spec.hours * 3600
        return self._start_ns + round(self._chance.uniform(60, max(61, length_s - duration_s - 900)) * _S)

    def _duration_s(self, median_s: float) -> float:
        return min(_MAX_S, max(_MIN_S, median_s * exp(self._chance.gauss(0, 1))))

    def _add_single(self, kind: Kind) -> None:
        for _ in range(_TRIES):
            least_s = _DOWN_HOLD_S + 1 if kind.condition is Condition.LINK_DOWN else _MIN_S
            duration_s = max(least_s, self._duration_s(kind.median_s))
            start_ns = self._moment_ns(duration_s)
            # Links that are down are drawn evenly: otherwise the two worst links would often be down together.
            is_even = kind.condition is Condition.LINK_DOWN
            subject = self._chance.choice(self._places[kind.places]) if is_even else self._draws[kind.places]()
            fault = Fault(
                kind.condition, subject, start_ns, start_ns + round(duration_s * _S), kind.severity, kind.cause
            )
            if self._add(fault):
                return
        raise ValueError(f"no room for {self._spec.findings:,} findings in {self._spec.hours:g} hours on this fabric")

    def _add(self, fault: Fault) -> bool:
        """Add a fault unless its part has a fault of the same condition at that time, or shortly before or after."""
        key, gap_ns = (fault.condition, fault.subject.id), 60 * _S
        taken = self._busy.setdefault(key, [])
        if any(begin - gap_ns < fault.end_ns and fault.start_ns < end + gap_ns for begin, end in taken):
            return False
        taken.append((fault.start_ns, fault.end_ns))
        self._noise.faults.append(fault)
        return True

    def _add_outage(self, number: int) -> None:
        """Take down half of the uplinks of a leaf at once, as a line card does; its hosts lose a quarter or more."""
        leaf = self._chance.choice(self._leaves)
        length_ns = self._spec.hours * 3600 * _S - 900 * _S
        duration_s = min(_OUTAGE_S, length_ns / _S / (self._spec.outages + 1) / 2)
        start_ns = self._start_ns + round(length_ns * (number + self._chance.uniform(0.2, 0.5)) / self._spec.outages)
        self._lose(leaf, duration_s, start_ns)

    def _lose(self, leaf: str, duration_s: float, start_ns: int) -> None:
        uplinks = [link for link in self._topology.links_of[leaf] if link.lower.device == leaf]
        links = self._chance.sample(uplinks, round(0.5 * len(uplinks)))
        self._noise.outages[f"{leaf} loses {len(links)} uplinks"] = start_ns, start_ns + round(duration_s * _S)
        for link in links:
            begin_ns = start_ns + round(self._chance.uniform(0, 2) * _S)
            end_ns = begin_ns + round((duration_s + self._chance.uniform(0, 5)) * _S)
            self._add(Fault(Condition.LINK_DOWN, _link_subject(link), begin_ns, end_ns, Severity.WARNING))

    def _add_gpu_loss(self, number: int) -> None:
        subject = self._chance.choice(self._places["gpus"])
        start_ns = self._moment_ns(_OUTAGE_S)
        end_ns = start_ns + round(_OUTAGE_S * _S)
        name = f"{subject.id} off the bus ({number + 1})"
        fault = Fault(
            Condition.HOST_GPU_FAULT, subject, start_ns, end_ns, Severity.CRITICAL, Cause.GPU_OFF_BUS,
        )  # fmt: skip
        if self._add(fault):
            self._noise.outages[name] = start_ns, end_ns


def _link_subject(link: TopologyLink) -> Subject:
    return Subject(link.id, Endpoint(*link.lower), Endpoint(*link.upper), link.role, link.rail, link.plane, link.pod)


def _revisions(fault: Fault, events: float) -> Iterator[tuple[int, Episode]]:
    """Yield the revisions of a fault's episode: it opens, each window reports its events, and it ends."""
    detected_ns = fault.start_ns + (round(_DOWN_HOLD_S * _S) if fault.condition is Condition.LINK_DOWN else 0)
    identity = finding_id(fault.condition.slug, fault.subject.id, str(fault.start_ns))
    opened = Finding(
        identity, 1, False, fault.condition, Status.OPEN, fault.severity, fault.subject, fault.start_ns, detected_ns,
        detected_at_ns=detected_ns, summary=f"{fault.condition.slug} at {fault.subject.id}", cause=fault.cause,
        confidence=0.95, coverage=Coverage(2, 2), detector=fault.condition.slug,
    )  # fmt: skip
    downs = (fault.start_ns,) if fault.condition in (Condition.LINK_DOWN, Condition.LINK_FLAP) else ()
    yield detected_ns, Episode(opened, downs)
    revision = 1
    for at_ns in range(detected_ns + _WINDOW_NS, fault.end_ns, _WINDOW_NS):
        revision += 1
        reported = max(1, round(events * (at_ns - fault.start_ns) / (fault.end_ns - fault.start_ns)))
        again = replace(
            opened, revision=revision, status=Status.UPDATED, observed_at_ns=at_ns,
            summary=f"{opened.summary}, reported {reported} times",
        )  # fmt: skip
        yield at_ns, Episode(again, downs)
    ended = replace(
        opened, revision=revision + 1, status=Status.RESOLVED, observed_at_ns=fault.end_ns, resolved_at_ns=fault.end_ns,
        final=True,
    )  # fmt: skip
    yield fault.end_ns, Episode(ended, downs)

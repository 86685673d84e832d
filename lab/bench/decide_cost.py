"""Measures one decision of `decide`: all guards of one proposal, with the states of all links of a fabric.

Each decision has a new context, as after a new message, so that it evaluates all links of a pod: the worst case. Caps,
rates and budgets are high, so that none of these guards ends a decision before the others. Then the stage processes
controls while many approvals are open, and evaluates the guards again for each approval; the controls revoke none.
"""

import gc
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import NamedTuple, TypeVar

from lab.bench.statistics import Spread, spread_of
from streams.decide.capacity import Capacity
from streams.decide.guard_context import GuardContext, Proposal
from streams.decide.guards import evaluate
from streams.decide.link_states import LinkStates
from streams.decide.optimizer import Candidate, select
from streams.decide.params import DecideParams
from streams.decide.stage import Decide
from streams.decide.state import Isolations, TargetKind
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.ids import device_id
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.internal_messages import PortState
from streams.wire.models import (
    Action,
    Condition,
    Control,
    ControlKind,
    Coverage,
    Endpoint,
    Finding,
    PortStates,
    Remediation,
    RemediationState,
    Severity,
    Source,
    Status,
    Subject,
    Verdict,
)

T = TypeVar("T")

LIMIT_MS = 10.0
"""The limit of one decision for the fabric of 131,072 GPUs (99th percentile)."""

APPROVALS_LIMIT_MS = 100.0
"""The limit of one control with 300 open approvals (choice: a kill switch must not wait for a second)."""

_NOW_NS = 1_800_000_000 * 10**9
_CANDIDATES = 20
"""Links of one pod that the optimizer selects from."""


@dataclass(frozen=True, slots=True)
class Options:
    """The size of the fabric, the number of decisions of each kind, and the state of the fabric."""

    gpus: int = 131_072
    decisions: int = 300
    down: float = 0.001
    """The share of the links that are down at one end."""
    unobserved: float = 0.001
    """The share of the devices that no source reads."""
    isolated: int = 10
    """The number of links between switches that earlier decisions have isolated."""
    approvals: int = 300
    """The number of approvals that are open when a control arrives."""
    seed: int = 1


class Timing(NamedTuple):
    """The CPU time and the duration of one kind of decision, in milliseconds, and the number of approved ones."""

    kind: str
    cpu: Spread
    duration: Spread
    approved: int


class ApprovalsTiming(NamedTuple):
    """The CPU time and the duration of one control, in milliseconds, and the number of open approvals."""

    approvals: int
    cpu: Spread
    duration: Spread


@dataclass(frozen=True, slots=True)
class DecideCost:
    """The results of one run."""

    links: int
    devices: int
    down: int
    unobserved: int
    isolated: int
    build_s: float
    """The CPU time to build the capacity for a new version of the inventory."""
    timings: tuple[Timing, ...]
    approvals: ApprovalsTiming | None = None

    @property
    def worst_p99_ms(self) -> float:
        """Return the highest 99th percentile of CPU time; other processes on the machine lengthen the duration."""
        return max(timing.cpu.p99 or 0.0 for timing in self.timings)

    @property
    def is_passed(self) -> bool:
        """Return True if every kind of decision, and a control with open approvals, are within their limits."""
        return self.worst_p99_ms <= LIMIT_MS and self.approvals_p99_ms <= APPROVALS_LIMIT_MS

    @property
    def approvals_p99_ms(self) -> float:
        """Return the 99th percentile of the CPU time of a control with open approvals."""
        return (self.approvals.cpu.p99 or 0.0) if self.approvals is not None else 0.0


class _NoControls:
    """Controls that have been read completely and are empty."""

    loaded = True

    def kill_switch(self, now_ns: int) -> Control | None:
        return None

    def maintenance(self, target: Subject, now_ns: int) -> Control | None:
        return None

    def exclusion(self, target: Subject, now_ns: int) -> Control | None:
        return None


def measure(options: Options) -> DecideCost:
    """Build the fabric and its state, and time the decisions."""
    chance = random.Random(options.seed)  # noqa: S311 — no secret
    topology = Topology(generate(GenerateParams(gpus=options.gpus)))
    links = tuple(topology.links.values())
    began = thread_time()
    capacity = Capacity(topology)
    build_s = thread_time() - began
    down = {link.id for link in links if chance.random() < options.down}
    unobserved = {device for device in topology.devices if chance.random() < options.unobserved}
    messages = list(_messages(topology, down, unobserved))
    states = _states(topology, messages)
    isolations = Isolations()
    fabric_links = [link for link in links if link.role != HOST_LINK]
    for link in chance.sample(fabric_links, min(options.isolated, len(fabric_links))):
        isolations.isolate(link.id, TargetKind.LINK, link.pod, _NOW_NS)
    gc.collect()
    gc.freeze()  # as the reader of the inventory does in a worker process
    fabric = _Fabric(topology, capacity, states, isolations)
    uplinks = [link for link in fabric_links if topology.devices[link.lower.device].tier == "T0"]
    timings = tuple(_time_kinds(fabric, fabric_links, uplinks, options, chance))
    approvals = None
    if uplinks and options.approvals:
        approvals = measure_approvals(topology, messages, uplinks, _NOW_NS, options.approvals, chance)
    return DecideCost(
        len(links), len(topology.devices), len(down), len(unobserved), len(isolations.active), build_s, timings,
        approvals,
    )  # fmt: skip


def _time_kinds(
    fabric: "_Fabric", fabric_links: list[TopologyLink], uplinks: list[TopologyLink], options: Options,
    chance: random.Random,
) -> Iterator[Timing]:  # fmt: skip
    """Yield the timing of each kind of decision."""
    topology = fabric.topology
    links, tiers = topology.links.values(), topology.devices
    kinds: dict[str, Iterable[TopologyLink]] = {
        "host link": (link for link in links if link.role == HOST_LINK),
        "uplink of a T0": (link for link in fabric_links if tiers[link.lower.device].tier == "T0"),
        "uplink of a T1": (link for link in fabric_links if tiers[link.lower.device].tier == "T1"),
    }
    for kind, members in kinds.items():
        choices = list(members)
        if choices:
            proposals = [_drain(link) for link in chance.choices(choices, k=options.decisions)]
            yield _time(kind, proposals, fabric.decide)
    hosts = [device.name for device in topology.devices.values() if device.kind == "host"]
    yield _time("host", [_cordon(host) for host in chance.choices(hosts, k=options.decisions)], fabric.decide)
    if uplinks:
        batches = [_candidates(fabric.capacity, uplinks, chance) for _ in range(max(1, options.decisions // 10))]
        yield _time(f"optimizer, {_CANDIDATES} links of one pod", batches, fabric.optimize)


class _Fabric:
    """The state of the fabric, and the two calls that are measured."""

    def __init__(self, topology: Topology, capacity: Capacity, states: LinkStates, isolations: Isolations) -> None:
        self.topology, self.capacity, self._states, self._isolations = topology, capacity, states, isolations
        self._params = DecideParams(
            mode="act", fabric_cap=10**6, fabric_cap_ratio=1, pod_cap=10**6, pod_cap_ratio=1, actions_per_hour=10**6
        )

    def _context(self) -> GuardContext:
        return GuardContext(
            _NOW_NS, self._params, self.topology, _NoControls(), self._states, self._isolations, self.capacity,
            approved_by="a person",
        )  # fmt: skip

    def decide(self, proposal: Proposal) -> bool:
        """Return True if the guards approve a proposal."""
        return evaluate(proposal, self._context()).verdict is Verdict.APPROVED

    def optimize(self, candidates: list[Candidate]) -> bool:
        """Return True if all candidates can be isolated together."""
        capacity = self._context().current_capacity(candidates[0].link)
        return not select(capacity, candidates, self._params.capacity_floor).waiting


def _states(topology: Topology, messages: Iterable[PortStates]) -> LinkStates:
    """Return the states of all links."""
    states = LinkStates()
    states.set_topology(topology)
    for message in messages:
        states.update(message)
    states.advance(_NOW_NS)
    return states


def _messages(topology: Topology, down: set[str], unobserved: set[str]) -> Iterator[PortStates]:
    """Yield the states of the ports of each device; the lower end of a link in `down` is down."""
    for device, links in topology.links_of.items():
        if device in unobserved:
            continue
        ends = [(link, link.lower if link.lower.device == device else link.upper) for link in links]
        codes = bytes(PortState.DOWN if link.id in down and end == link.lower else PortState.UP for link, end in ends)
        ports = tuple(end.port for _, end in ends)
        yield PortStates(device, Source.SOURCE_GNMI, 0, _NOW_NS, 0, _NOW_NS, ports, codes)


def _time(kind: str, inputs: Iterable[T], call: Callable[[T], bool]) -> Timing:
    """Time a call for each input; the first call is not counted, because it prepares data for later calls."""
    cpu_ms: list[float] = []
    durations_ms: list[float] = []
    approved = 0
    inputs = list(inputs)
    call(inputs[0])
    for one in inputs:
        began, cpu_began = perf_counter(), thread_time()
        approved += call(one)
        cpu_ms.append((thread_time() - cpu_began) * 1e3)
        durations_ms.append((perf_counter() - began) * 1e3)
    return Timing(kind, spread_of(cpu_ms), spread_of(durations_ms), approved)


def table_lines(cost: DecideCost) -> Iterator[str]:
    """Yield the lines of the table."""
    yield (
        f"{cost.links:,} links of {cost.devices:,} devices; {cost.down:,} links down, {cost.unobserved:,} devices not"
        f" observed, {cost.isolated} links isolated; capacity built in {cost.build_s * 1e3:.0f} ms of CPU time"
    )
    yield f"{'':<54}{'CPU time, ms':>23}{'duration, ms':>25}"
    yield f"{'decision':<36}{'count':>7}{'approved':>10}" + 2 * f"{'p50':>9}{'p99':>8}{'worst':>8}"
    for kind, cpu, duration, approved in cost.timings:
        figures = (f"{s.p50 or 0:>9.2f}{s.p99 or 0:>8.2f}{s.worst or 0:>8.2f}" for s in (cpu, duration))
        yield f"{kind:<36}{cpu.count:>7,}{approved:>10,}" + "".join(figures)
    if (control := cost.approvals) is not None:
        figures = (f"{s.p50 or 0:>9.2f}{s.p99 or 0:>8.2f}{s.worst or 0:>8.2f}" for s in control[1:])
        kind = f"a control, {control.approvals} approvals open"
        yield f"{kind:<36}{control.cpu.count:>7,}{'':>10}" + "".join(figures)
    if cost.approvals is not None:
        yield (
            f"{'yes' if cost.approvals_p99_ms <= APPROVALS_LIMIT_MS else 'NO '} one control within"
            f" {APPROVALS_LIMIT_MS:g} ms: {cost.approvals_p99_ms:.2f} ms (CPU time, 99th percentile)"
        )
    yield (
        f"{'yes' if cost.worst_p99_ms <= LIMIT_MS else 'NO '} one decision within {LIMIT_MS:g} ms:"
        f" {cost.worst_p99_ms:.2f} ms (CPU time, 99th percentile of the slowest kind)"
    )


def _drain(link: TopologyLink) -> Proposal:
    subject = _subject(link)
    return Proposal(Action.DRAIN_LINK, subject, _finding(subject), link)


def _subject(link: TopologyLink) -> Subject:
    return Subject(link.id, Endpoint(*link.lower), Endpoint(*link.upper), link.role, pod=link.pod)


def _cordon(host: str) -> Proposal:
    subject = Subject(device_id(host), Endpoint(host))
    return Proposal(Action.CORDON_HOST, subject, _finding(subject), None)


def _finding(subject: Subject) -> Finding:
    return Finding(
        f"finding/{subject.id}", 1, False, Condition.LINK_FLAP, Status.OPEN, Severity.WARNING, subject, _NOW_NS,
        _NOW_NS, confidence=0.95, coverage=Coverage(2, 2),
    )  # fmt: skip


def _candidates(capacity: Capacity, uplinks: list[TopologyLink], chance: random.Random) -> list[Candidate]:
    """Return some uplinks of one pod's T0s, with random penalties."""
    first = chance.choice(uplinks)
    in_pod = [link for link in uplinks if link.pod == first.pod]
    found = (capacity.number_of(link) for link in chance.sample(in_pod, min(_CANDIDATES, len(in_pod))))
    return [Candidate(number, chance.random()) for number in found if number is not None]


_SETTLED_NS = 11 * 10**9
_UNLIMITED = 10**6


def measure_approvals(
    topology: Topology,
    states: Iterable[PortStates],
    links: list[TopologyLink],
    now_ns: int,
    approvals: int,
    chance: random.Random,
    controls: int = 20,
) -> ApprovalsTiming:
    """Approve drains of random ones of these links, and time controls."""
    stage = Decide(DecideParams(
        mode="act", fabric_cap=_UNLIMITED, fabric_cap_ratio=1, pod_cap=_UNLIMITED, pod_cap_ratio=1,
        actions_per_hour=_UNLIMITED,
    ))  # fmt: skip
    stage.start_epoch(1)
    stage.set_topology(topology)
    stage.recover([])
    stage.process(list(states))
    stage.process([_finding(_subject(link)) for link in chance.sample(links, min(approvals, len(links)))])
    outputs = stage.advance_watermark(now_ns + _SETTLED_NS)
    is_open = (
        isinstance(one.message, Remediation) and one.message.state is RemediationState.APPROVED for one in outputs
    )
    count = sum(is_open) // 2  # each approval is on two topics
    cpu_ms, durations_ms = [], []
    for number in range(controls + 1):
        control = Control(f"exclude-{number}", ControlKind.EXCLUDE, "device:none", now_ns, actor="bench", endless=True)
        began, cpu_began = perf_counter(), thread_time()
        revoked = stage.process([control])
        cpu_ms.append((thread_time() - cpu_began) * 1e3)
        durations_ms.append((perf_counter() - began) * 1e3)
        assert not revoked
    return ApprovalsTiming(count, spread_of(cpu_ms[1:]), spread_of(durations_ms[1:]))

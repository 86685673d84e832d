"""Measures one decision of `decide`: all guards of one proposal, with the states of all links of a fabric.

Each decision has a new context, as after a new message, so that it evaluates all links of a pod: the worst case. Caps,
rates and budgets are high, so that none of these guards ends a decision before the others. Then the stage processes
controls while many approvals are open, and evaluates the guards again for each approval; the controls revoke none.
"""

import gc
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from time import thread_time
from typing import TypeVar

from lab.bench.timing import Timing, timed, timing_lines
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
from streams.wire.models import (
    Action,
    Condition,
    Control,
    ControlKind,
    Coverage,
    Endpoint,
    Finding,
    PortState,
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
    """The options of the command."""

    gpus: int
    decisions: int
    down: float
    unobserved: float
    isolated: int
    approvals: int
    seed: int = 1


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
    approved: dict[str, int]
    """By kind of decision, the number of approved ones; of a control, the number of open approvals."""

    @property
    def is_passed(self) -> bool:
        """Return True if every kind of decision, and a control with open approvals, are within their limits."""
        return all(timing.is_passed for timing in self.timings)


class _NoControls:
    """Controls that have been read completely and are empty."""

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
    measured = [*_time_kinds(fabric, fabric_links, uplinks, options, chance)]
    if uplinks and options.approvals:
        measured.append(
            _time_controls(topology, messages, chance.sample(uplinks, min(options.approvals, len(uplinks))))
        )
    return DecideCost(
        len(links), len(topology.devices), len(down), len(unobserved), len(isolations.active), build_s,
        tuple(timing for timing, _ in measured), {timing.kind: count for timing, count in measured},
    )  # fmt: skip


def _time_kinds(
    fabric: "_Fabric", fabric_links: list[TopologyLink], uplinks: list[TopologyLink], options: Options,
    chance: random.Random,
) -> Iterator[tuple[Timing, int]]:  # fmt: skip
    """Yield the timing of each kind of decision, and the number of approved ones."""
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


def _time(kind: str, inputs: Iterable[T], call: Callable[[T], bool]) -> tuple[Timing, int]:
    """Time a call for each input, after one that prepares data for later calls."""
    calls = [partial(call, one) for one in inputs]
    calls[0]()
    timing, approved = timed(kind, calls, LIMIT_MS)
    return timing, sum(approved)


def table_lines(cost: DecideCost, load_s: float = 1.0) -> Iterator[str]:
    """Yield the results as a table."""
    yield (
        f"{cost.links:,} links of {cost.devices:,} devices; {cost.down:,} links down, {cost.unobserved:,} devices not"
        f" observed, {cost.isolated} links isolated; capacity built in {cost.build_s * 1e3:.0f} ms of CPU time"
    )
    yield from timing_lines(cost.timings, load_s)
    yield f"approved: {', '.join(f'{count:,} of {kind}' for kind, count in cost.approved.items())}"


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
        _NOW_NS, confidence=0.95, coverage=Coverage(2, 2), occurrences=2,
    )  # fmt: skip


def _candidates(capacity: Capacity, uplinks: list[TopologyLink], chance: random.Random) -> list[Candidate]:
    """Return some uplinks of one pod's T0s, with random penalties."""
    first = chance.choice(uplinks)
    in_pod = [link for link in uplinks if link.pod == first.pod]
    found = (capacity.number_of(link) for link in chance.sample(in_pod, min(_CANDIDATES, len(in_pod))))
    return [Candidate(number, chance.random()) for number in found if number is not None]


_SETTLED_NS = 11 * 10**9
_UNLIMITED = 10**6
_CONTROLS = 20


def _time_controls(
    topology: Topology, states: Iterable[PortStates], links: Iterable[TopologyLink]
) -> tuple[Timing, int]:
    """Approve drains of these links, and time controls that revoke none; return the number of open approvals too."""
    stage = Decide(DecideParams(
        mode="act", fabric_cap=_UNLIMITED, fabric_cap_ratio=1, pod_cap=_UNLIMITED, pod_cap_ratio=1,
        actions_per_hour=_UNLIMITED,
    ))  # fmt: skip
    stage.start_epoch(1)
    stage.set_topology(topology)
    stage.recover([])
    stage.process(list(states))
    stage.process([_finding(_subject(link)) for link in links])
    outputs = stage.advance_watermark(_NOW_NS + _SETTLED_NS)
    is_open = (
        isinstance(one.message, Remediation)
        and (one.message.action, one.message.state) == (Action.DRAIN_LINK, RemediationState.APPROVED)
        for one in outputs
    )
    count = sum(is_open) // 2  # each approval is on two topics
    host = next(device.name for device in topology.devices.values() if device.kind == "host")
    controls = [
        [Control(f"exclude-{number}", ControlKind.EXCLUDE, f"device:{host}", _NOW_NS, actor="bench", endless=True)]
        for number in range(_CONTROLS + 1)
    ]
    stage.process(controls[0])
    timing, outputs_of = timed("a control", [partial(stage.process, one) for one in controls[1:]], APPROVALS_LIMIT_MS)
    assert not any(isinstance(one.message, Remediation) for outputs in outputs_of for one in outputs)
    return timing, count

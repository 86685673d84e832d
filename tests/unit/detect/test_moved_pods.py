"""An open episode whose link gets another pod is continued by the owner of that pod, under its id (DESIGN 2.3)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from orjson import loads

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.detect.attribute.stage import Attribute
from streams.detect.correlate.stage import Correlate
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.inventory import digest
from streams.fabric.topology import Topology
from streams.runtime.bindings import BINDINGS
from streams.wire import codec
from streams.wire.models import IDLE_NS, Condition, Episode, Finding, Message, Samples, StateTransfer, Status
from streams.wire.stage import Output
from streams.wire.topics import EPISODES, FINDINGS, SUMMARIES, SYMPTOMS
from tests.contract.detect.cases import LABELLED, case_messages
from tests.worlds.live_stages import LiveStages
from tests.worlds.observations import after, at
from tests.worlds.small_fabric import begun, inventory, topology
from tests.worlds.small_world import SmallWorld

HOST = "p1-h1"
MOVES_AT = 300.0


def moved_topology() -> Topology:
    """Return the fabric with one host, the lower end of its links, in pod p3."""
    own = inventory()
    devices = tuple(device._replace(pod="p3") if device.name == HOST else device for device in own.devices)
    other = replace(own, devices=devices)
    return Topology(other, digest(other))


@dataclass
class Pods:
    """One measure, a correlate for each pod with epochs of its own, and attribute; records of a topic stay in order."""

    epochs: dict[str, int]
    top: Topology = field(default_factory=topology)
    findings: list[Finding] = field(default_factory=list)
    episodes: list[Finding] = field(default_factory=list)
    transfers: list[StateTransfer] = field(default_factory=list)
    repeat_transfers: int = 1

    def __post_init__(self) -> None:
        self.measure, self.attribute = Measure(DetectParams()), Attribute(DetectParams())
        self.correlates = {pod: self._correlate(pod, self.top) for pod in self.epochs}
        for stage in (self.measure, self.attribute):
            stage.start_epoch(1)
            stage.set_topology(self.top)
        self.watermark_ns = 0

    def _correlate(self, pod: str, top: Topology) -> Correlate:
        stage = Correlate(DetectParams())
        stage.start_epoch(self.epochs[pod])
        self._route(stage.set_topology(top))
        return stage

    def process(self, message: Message) -> None:
        self._route(self.measure.process([message]))
        if self.watermark_ns < self.measure.watermark_ns < IDLE_NS:
            self.advance(self.measure.watermark_ns)

    def advance(self, watermark_ns: int) -> None:
        self.watermark_ns = watermark_ns
        for stage in self.correlates.values():
            self._route(stage.advance_watermark(watermark_ns))
        self._route(self.attribute.advance_watermark(watermark_ns))

    def change(self, top: Topology, order: Sequence[str]) -> None:
        """Let all stages adopt a version, the correlates in this order."""
        self.top = top
        self._route(self.measure.set_topology(top))
        for pod in order:
            self._route(self.correlates[pod].set_topology(top))
        self.attribute.set_topology(top)

    def take_over(self, pod: str) -> None:
        """Replace the owner of a pod by one with the next epoch."""
        self.epochs[pod] += 1
        successor = Correlate(DetectParams())
        successor.start_epoch(self.epochs[pod])
        successor.restore(self.correlates[pod].snapshot())
        self.correlates[pod] = successor
        self._route(successor.set_topology(self.top))

    def _route(self, outputs: list[Output]) -> None:
        for output in outputs:
            message = output.message
            if output.topic in (SYMPTOMS, SUMMARIES):
                times = 1
                if isinstance(message, StateTransfer):
                    message = codec.from_bytes(StateTransfer, codec.to_bytes(message))
                    self.transfers.append(message)
                    times = self.repeat_transfers
                for _ in range(times):
                    if output.key in self.correlates and message is not None:
                        self._route(self.correlates[output.key].process([message]))
            elif output.topic is EPISODES and message is not None:
                if isinstance(message, Episode):
                    self.episodes.append(message.finding)
                self._route(self.attribute.process([message]))
            elif output.topic is FINDINGS and isinstance(message, Finding):
                self.findings.append(message)


def rounds(world: SmallWorld, until_s: float) -> list[Samples]:
    return sorted(world.rounds(until_s), key=lambda own: own.sampled_at_ns)


WORLDS = {
    "down": SmallWorld(down={f"{HOST}/e0": [(100, 700)]}),
    "flapping": SmallWorld(down={f"{HOST}/e0": [(t, t + 10) for t in (60, 160, 260, 360, 460)]}),
    "losing frames": SmallWorld(lossy={f"{HOST}/e0": [(60, 700)]}),
}
EPOCHS = {"p1": 7, "p2": 2, "p3": 3}
ORDERS = (("p1", "p2", "p3"), ("p3", "p2", "p1"))


def play(
    world: SmallWorld, pods: Pods, order: Sequence[str] = (), taken_over: Sequence[tuple[float, str]] = ()
) -> None:
    pending = sorted(taken_over)
    moved = False
    for own in rounds(world, 1500):
        t = own.sampled_at_ns / 1e9 - at(0) / 1e9
        if order and not moved and t >= MOVES_AT:
            pods.change(moved_topology(), order)
            moved = True
        while pending and t >= pending[0][0]:
            pods.take_over(pending.pop(0)[1])
        pods.process(own)
    pods.advance(at(1600))


def last(findings: Sequence[Finding]) -> list[Finding]:
    newest = {one.id: one for one in findings}
    return [one for one in newest.values() if one.status is not Status.RETRACTED]


@pytest.mark.parametrize(("name", "order"), list(itertools.product(WORLDS, ORDERS)))
def test_an_open_episode_is_handed_over_under_its_id(name: str, order: Sequence[str]) -> None:
    """Whichever owner adopts the version first: one finding, that of a fabric whose pods do not change."""
    still = Pods(dict(EPOCHS))
    play(WORLDS[name], still)
    (expected,) = last(still.findings)
    pods = Pods(dict(EPOCHS))
    play(WORLDS[name], pods, order)
    (found,) = last(pods.findings)
    assert len({one.id for one in pods.findings}) == 1
    assert found.id == expected.id
    assert (found.status, found.final) == (Status.RESOLVED, True)
    assert (found.started_at_ns, found.resolved_at_ns) == (expected.started_at_ns, expected.resolved_at_ns)
    assert [one.pod for one in pods.transfers].count("p3") == len(pods.transfers) > 0
    revisions = [one.revision for one in pods.episodes]
    assert revisions == sorted(revisions), "attribute ignores lower ones"


@pytest.mark.parametrize("name", WORLDS)
def test_takeovers_and_repeated_transfers_change_nothing(name: str) -> None:
    """Both owners are replaced before and after the transfer, which arrives three times."""
    pods = Pods(dict(EPOCHS))
    play(WORLDS[name], pods, ORDERS[0])
    repeated = Pods(dict(EPOCHS), repeat_transfers=3)
    play(
        WORLDS[name], repeated, ORDERS[0],
        [(290, "p1"), (290, "p3"), (305, "p1"), (310, "p3"), (420, "p3"), (720, "p3")],
    )  # fmt: skip
    assert [replace(one, revision=0) for one in repeated.findings] == [
        replace(one, revision=0) for one in pods.findings
    ]
    revisions = [one.revision for one in repeated.episodes]
    assert revisions == sorted(revisions)


def test_nothing_is_retained_by_the_old_owner() -> None:
    """Its state of the link is gone; a link without observations is not sent."""
    pods = Pods(dict(EPOCHS))
    play(WORLDS["down"], pods, ORDERS[0])
    assert not loads(pods.correlates["p1"].snapshot())["evidence"]["links"]
    assert [one.condition for one in last(pods.findings)] == [Condition.LINK_DOWN]
    assert {one.at_ns <= at(MOVES_AT) + ns(10) for one in pods.transfers} == {True}


def test_the_owner_of_a_pod_may_write_to_the_input_of_another() -> None:
    """The access lists of the brokers follow the binding."""
    assert SYMPTOMS in BINDINGS["correlate"].access("c").writes


def test_a_version_with_the_same_pods_moves_nothing() -> None:
    """Another digest, as after a new device elsewhere."""
    pods = Pods(dict(EPOCHS))
    for own in rounds(WORLDS["down"], 200):
        pods.process(own)
    pods.change(Topology(inventory(), "another"), ORDERS[0])
    assert pods.transfers == []


def test_a_link_that_moves_back_and_away_again_is_accepted_each_time() -> None:
    """The same version may be adopted a second time, after a rollback."""
    pods = Pods(dict(EPOCHS))
    other = moved_topology()
    changes = [(300.0, other), (360.0, topology()), (420.0, other), (480.0, topology())]
    for own in rounds(WORLDS["down"], 1500):
        while changes and own.sampled_at_ns >= at(changes[0][0]):
            pods.change(changes.pop(0)[1], ORDERS[0])
        pods.process(own)
    pods.advance(at(1600))
    (found,) = last(pods.findings)
    assert len({one.id for one in pods.findings}) == 1
    assert (found.status, found.final) == (Status.RESOLVED, True)


IN_PODS: dict[str, set[tuple[str, float, float]]] = {
    "congestion/collapse": {("pod1", 100, 300), ("podX", 100, 400)},
    "congestion/incast": set(),  # of one link: the revisions of the owner with the higher epoch are valid
    "rail/degraded": {("pod1", 80, 260), ("podX", 260, 500)},
}
"""Detector -> pod, begin and end of its findings."""


@pytest.mark.parametrize("order", [("pod1", "podX"), ("podX", "pod1")])
@pytest.mark.parametrize("slug", IN_PODS)
def test_a_finding_on_a_pod_ends_where_its_hosts_leave_it(slug: str, order: Sequence[str]) -> None:
    """All hosts get another pod while the fault lasts: nothing stays open in the former pod."""
    own = demo_fabric.inventory(DemoShape(pods=1, hosts=5, planes=1, spines=1, uplinks=1), at(0))
    other = replace(own, devices=tuple(one._replace(pod="podX") if one.kind == "host" else one for one in own.devices))
    pods, has_moved = Pods({"pod1": 1, "podX": 1}, LABELLED[slug][0].topology), False
    for message in case_messages(slug):
        if not has_moved and pods.watermark_ns >= at(MOVES_AT):
            pods.change(Topology(other, digest(other)), order)
            has_moved = True
        pods.process(message)
    pods.advance(at(5_000))
    found = last(pods.findings)
    assert {(one.status, one.final) for one in found} == {(Status.RESOLVED, True)}
    if expected := IN_PODS[slug]:
        assert {(one.subject.pod, after(one.started_at_ns), after(one.resolved_at_ns)) for one in found} == expected


def states_of(stage: Correlate, slug: str) -> dict[str, Any]:
    """Return the states of a detector by key, as a snapshot has them."""
    states: dict[str, Any] = loads(stage.snapshot())["detectors"].get(slug, {})
    return states


@pytest.mark.parametrize("slug", ["host/gpu-fault", "host/pcie-degraded", "rail/degraded"])
def test_a_takeover_moves_no_state_of_parts_and_devices(slug: str) -> None:
    """A restored state has no topology yet; its parts stay."""
    world = LABELLED[slug][0]
    live = LiveStages(world.topology)
    number = 0
    for message in case_messages(slug):
        live.process(message)
        stage = live.stages[1]
        assert isinstance(stage, Correlate)
        if (states := states_of(stage, slug)) and (number := number + 1) % 50 == 1:
            successor = Correlate(DetectParams())
            successor.start_epoch(2)
            successor.restore(stage.snapshot())
            assert successor.set_topology(world.topology) == []
            assert states_of(successor, slug) == states
    assert number


@pytest.mark.parametrize("slug", ["host/gpu-fault", "host/pcie-degraded"])
def test_the_state_of_a_part_moves_with_its_host(slug: str) -> None:
    """It is sent to the new pod, and evaluated there with the same result."""
    world = LABELLED[slug][0]
    host = LABELLED[slug][1].device
    own = demo_fabric.inventory(DemoShape(pods=1, hosts=5, planes=1, spines=1, uplinks=1), at(0))
    other = replace(own, devices=tuple(one._replace(pod="podX") if one.name == host else one for one in own.devices))
    moved = Topology(other, digest(other))
    live = LiveStages(world.topology)
    for message in case_messages(slug):
        live.process(message)
        stage = live.stages[1]
        assert isinstance(stage, Correlate)
        if states_of(stage, slug):
            break
    stage = live.stages[1]
    assert isinstance(stage, Correlate)
    before = states_of(stage, slug)
    (transfer,) = [one.message for one in stage.set_topology(moved)]
    assert isinstance(transfer, StateTransfer)
    assert transfer.pod == "podX"
    assert not states_of(stage, slug)
    receiver = begun(Correlate(DetectParams()), moved)
    receiver.advance_watermark(transfer.at_ns)
    receiver.process([transfer])
    assert states_of(receiver, slug).keys() == before.keys()

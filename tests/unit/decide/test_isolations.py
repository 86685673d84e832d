"""Tests the history of isolations, and that no sequence of decisions exceeds a cap, rate, budget or floor."""

from dataclasses import replace
from math import ceil

import orjson
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pydantic import TypeAdapter

from streams.decide.capacity import Capacity
from streams.decide.guard_context import GuardContext, Proposal
from streams.decide.guards import ISOLATES, evaluate, isolation_of
from streams.decide.params import DecideParams
from streams.decide.state import WEEK_S, Isolations, TargetKind
from streams.fabric.ids import device_id
from streams.fabric.inventory_rows import HOST_LINK
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Action, Condition, Coverage, Endpoint, Finding, Severity, Status, Subject, Verdict
from tests.fakes.guard_views import FakeControls, FakeLinkStates
from tests.worlds.observations import at
from tests.worlds.other_fabrics import three_tiers
from tests.worlds.small_fabric import topology as small_fabric

HOUR_NS = 3600 * 10**9


def test_a_target_is_active_from_the_decision_to_the_restore() -> None:
    """A second isolation of an active target starts nothing; a restore leaves the history."""
    isolations = Isolations()
    for t in (10, 20):
        isolations.isolate("link", TargetKind.LINK, "p", at(t))
    assert (isolations.count(), isolations.count_started(at(0)), isolations.changed_ns["link"]) == (1, 1, at(20))
    isolations.restored("link", at(30))
    assert (isolations.count(), isolations.count_started(at(0)), isolations.changed_ns["link"]) == (0, 1, at(30))


def test_an_answer_for_another_target_changes_nothing() -> None:
    """A restore of a target that is in service starts no cool-down, and no earlier time shortens one."""
    isolations = Isolations()
    isolations.restored("link", at(30))
    assert isolations.changed_ns == {}
    isolations.isolate("link", TargetKind.LINK, "p", at(50))
    isolations.restored("link", at(40))
    assert isolations.changed_ns == {"link": at(50)}


def test_counts_by_kind_pod_and_target() -> None:
    """Each count selects what it names."""
    isolations = Isolations()
    isolations.isolate("a", TargetKind.LINK, "p", at(1))
    isolations.isolate("b", TargetKind.LINK, "q", at(2))
    isolations.isolate("h", TargetKind.HOST, "p", at(3))
    assert isolations.count() == 3
    assert isolations.count(TargetKind.LINK) == 2
    assert isolations.count(pod="p") == 2
    assert isolations.count(TargetKind.LINK, pod="p") == 1
    assert isolations.count_started(at(1)) == 2
    assert isolations.count_started(at(1), "b") == 1


def test_history_older_than_a_week_is_evicted() -> None:
    """Active isolations remain; a week is the longest interval of a budget."""
    isolations = Isolations()
    isolations.isolate("old", TargetKind.LINK, "p", at(0))
    isolations.isolate("new", TargetKind.LINK, "p", at(1))
    isolations.reset("nic", at(0))
    isolations.prune(at(WEEK_S))
    assert isolations.started_ns == {"new": [at(1)]}
    assert (isolations.resets_ns, set(isolations.changed_ns), set(isolations.active)) == ({}, {"new"}, {"old", "new"})


def test_isolations_are_plain_values() -> None:
    """A snapshot has all of them."""
    isolations = Isolations()
    isolations.isolate("a", TargetKind.LINK, "p", at(1))
    isolations.reset("nic", at(0))
    assert TypeAdapter(Isolations).validate_json(orjson.dumps(isolations)) == isolations


FABRICS = (small_fabric(), three_tiers(), three_tiers(aggs=8, tops=4, hosts=2), three_tiers(aggs=5, tops=2, hosts=3))
PARAMS = DecideParams(
    mode="act", fabric_cap=5, fabric_cap_ratio=0.05, pod_cap=3, pod_cap_ratio=0.04, actions_per_hour=6, cool_down_s=300
)
ANY = st.integers(0, 10_000)
"""The number of a link or a device; the fabric has fewer, so that it counts modulo their number."""


def proposal(link: TopologyLink | None, host: str, action: Action, confidence: float, relapse: bool) -> Proposal:
    subject = (
        Subject(link.id, Endpoint(*link.lower), Endpoint(*link.upper), link.role, pod=link.pod)
        if link
        else Subject(device_id(host), Endpoint(host))
    )
    finding = Finding(
        "f",
        1,
        False,
        Condition.LINK_FLAP,
        Status.OPEN,
        Severity.WARNING,
        subject,
        0,
        0,
        confidence=confidence,
        coverage=Coverage(2, 2),
    )
    return Proposal(action, subject, finding, link, relapse=relapse)


class Decisions(RuleBasedStateMachine):
    """Proposes anything at any time while links fail, devices fall silent and targets are restored."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = at(WEEK_S)
        self.states = FakeLinkStates(self.now_ns)
        self.isolations = Isolations()
        self.use(FABRICS[0])

    @initialize(top=st.sampled_from(FABRICS))
    def use(self, top: Topology) -> None:
        self.top, self.capacity = top, Capacity(top)
        self.links = tuple(top.links.values())
        self.fabric_links = tuple(link for link in self.links if link.role != HOST_LINK)
        self.hosts = tuple(device.name for device in top.devices.values() if device.kind == "host")

    def propose(self, target: Proposal, approved_by: str) -> None:
        context = GuardContext(
            self.now_ns, PARAMS, self.top, FakeControls(), self.states, self.isolations, self.capacity,
            approved_by=approved_by,
        )  # fmt: skip
        decision = evaluate(target, context)
        changed_ns = self.isolations.changed_ns.get(target.target.id)
        if decision.verdict is not Verdict.APPROVED:
            assert decision.guard > 0
            return
        assert not self.states.unobserved & set(target.devices)
        assert approved_by or (target.finding is not None and (target.finding.confidence or 0) >= 0.8)
        assert changed_ns is None or self.now_ns - changed_ns >= 300 * 10**9 or target.relapse
        if target.action is Action.RESET_NIC:
            self.isolations.reset(target.target.id, self.now_ns)
        elif target.action in ISOLATES:
            self.isolations.isolate(target.target.id, *isolation_of(target, context), self.now_ns)
            self.check_floors(target)

    def check_floors(self, target: Proposal) -> None:
        """Count all groups of the target from the states of the links alone."""
        recounted = Capacity(self.top)
        number = None if target.link is None else recounted.number_of(target.link)
        if number is None:
            return
        for pod in range(len(self.top.graph.pods)):
            recounted.refresh(pod, {*self.states.not_carrying, *self.isolations.active})
        assert not recounted.below([number], PARAMS.capacity_floor)

    @rule(
        link=ANY,
        action=st.sampled_from([Action.DRAIN_LINK, Action.REPAIR_LINK, Action.RESET_NIC]),
        confidence=st.sampled_from([0.6, 0.95]),
        relapse=st.booleans(),
        approved_by=st.sampled_from(["", "ops"]),
    )
    def propose_for_link(self, link: int, action: Action, confidence: float, relapse: bool, approved_by: str) -> None:
        relapse = relapse and action is Action.DRAIN_LINK
        target = self.links[link % len(self.links)]
        self.propose(proposal(target, "", action, confidence, relapse), approved_by)

    @rule(host=ANY, action=st.sampled_from([Action.CORDON_HOST, Action.REBOOT_HOST]))
    def propose_for_host(self, host: int, action: Action) -> None:
        self.propose(proposal(None, self.hosts[host % len(self.hosts)], action, 0.95, relapse=False), "ops")

    @rule(link=ANY)
    def propose_for_all_uplinks(self, link: int) -> None:
        lower = self.fabric_links[link % len(self.fabric_links)].lower.device
        for uplink in self.top.uplinks_of[lower]:
            self.propose(proposal(uplink, "", Action.DRAIN_LINK, 0.95, relapse=False), "")

    @rule(link=ANY, carries=st.booleans())
    def change_state(self, link: int, carries: bool) -> None:
        changed = self.states.not_carrying.discard if carries else self.states.not_carrying.add
        changed(self.links[link % len(self.links)].id)

    @rule(link=ANY, observed=st.booleans())
    def change_observation(self, link: int, observed: bool) -> None:
        changed = self.states.unobserved.discard if observed else self.states.unobserved.add
        changed(self.links[link % len(self.links)].lower.device)

    @rule(number=ANY)
    def restore(self, number: int) -> None:
        if active := sorted(self.isolations.active):
            self.isolations.restored(active[number % len(active)], self.now_ns)

    @rule(seconds=st.sampled_from([1, 60, 299, 300, 1800, 7200]))
    def pass_time(self, seconds: int) -> None:
        self.now_ns += seconds * 10**9
        self.states = replace(self.states, observed_at_ns=self.now_ns)
        self.isolations.prune(self.now_ns)

    @rule()
    def restart(self) -> None:
        """Continue from the snapshot; the capacity is built from the inventory."""
        self.isolations = TypeAdapter(Isolations).validate_json(orjson.dumps(self.isolations))
        self.capacity = Capacity(self.top)

    @invariant()
    def no_cap_is_exceeded(self) -> None:
        counts = self.capacity.population
        assert self.isolations.count() <= 5
        for pod in {isolation.pod for isolation in self.isolations.active.values()}:
            assert self.isolations.count(pod=pod) <= 3
            for kind in TargetKind:
                assert self.isolations.count(kind, pod) <= ceil(0.04 * counts(kind, pod) - 1e-9)
                assert self.isolations.count(kind) <= ceil(0.05 * counts(kind) - 1e-9)

    @invariant()
    def no_rate_or_budget_is_exceeded(self) -> None:
        """In every hour, two hours and week that end now, and so in every one."""
        hour_ago = self.now_ns - HOUR_NS
        assert self.isolations.count_started(hour_ago) + self.isolations.count_resets(hour_ago) <= 6
        for target in self.isolations.changed_ns:
            assert self.isolations.count_started(self.now_ns - 2 * HOUR_NS, target) <= 3
            assert self.isolations.count_resets(self.now_ns - WEEK_S * 10**9, target) <= 2


TestDecisions = Decisions.TestCase
TestDecisions.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)

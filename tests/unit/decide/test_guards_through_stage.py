"""Tests through the whole stage that its guards fail closed, and that its limits bind what it publishes."""

from dataclasses import replace
from typing import Any

import pytest

from streams.decide.stage import Decide
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import (
    Action,
    Cause,
    Condition,
    Control,
    ControlKind,
    Coverage,
    Endpoint,
    Finding,
    Outcome,
    PortStates,
    ReadingsHeartbeat,
    Remediation,
    RemediationResult,
    Severity,
    Source,
    Subject,
    Verdict,
)
from streams.wire.models import RemediationState as State
from tests.fixtures.decide_stage import (
    NO_CAPS,
    TOP,
    accept,
    answer,
    carry_out,
    deciding,
    decisions,
    ended,
    finding,
    port_states,
    remediations,
    removed_keys,
)
from tests.worlds.observations import at
from tests.worlds.other_fabrics import two_pods

ALL_CAPS_OFF: dict[str, Any] = {
    "fabric_cap": 1000, "fabric_cap_ratio": 1, "pod_cap": 1000, "pod_cap_ratio": 1, "actions_per_hour": 1000,
    "isolation_budget": 1000,
}  # fmt: skip


def binding(record: Remediation) -> tuple[State, int, str]:
    return record.state, record.guard, record.constraint


def acting(top: Topology, **changes: Any) -> Decide:
    """Return the stage of a fabric in which all ports are up and observed."""
    stage = deciding(states=False, **changes)
    stage.set_topology(top)
    for device, links in top.links_of.items():
        ports = tuple(end.port for link in links for end in (link.lower, link.upper) if end.device == device)
        stage.process([PortStates(device, Source.SOURCE_GNMI, 0, at(0), 0, at(0), ports, b"\x01" * len(ports))])
    return stage


def of_link(link: TopologyLink, condition: Condition, **changes: Any) -> Finding:
    subject = Subject(link.id, Endpoint(*link.lower), Endpoint(*link.upper), link.role, pod=link.pod)
    return finding("p1-l0/u0", condition, **{"id": f"{condition.name}/{link.id}", "subject": subject, **changes})


@pytest.mark.parametrize("approving", [False, True])
def test_of_forty_links_that_the_inventory_does_not_have_none_is_drained(approving: bool) -> None:
    """A link without a group has no floor that would limit it: unknown is denied, and no person can approve it."""
    subjects = [
        Subject(f"link:x/{n}--y/{n}", Endpoint("p1-l0", f"x{n}"), Endpoint("s1", f"y{n}"), "fabric-link", pod="p1")
        for n in range(40)
    ]
    stage = deciding(**ALL_CAPS_OFF)
    found = decisions(stage, *(finding("p1-l0/u0", id=f"f{n}", subject=own) for n, own in enumerate(subjects)))
    assert {binding(one) for one in found} == {(State.DENIED, 7, "inventory")}
    assert len(found) == 40
    if approving:
        answers = [Control(one.id, ControlKind.APPROVE, one.id, actor="anna", endless=True) for one in found]
        assert remediations(stage.process(answers)) == []
    assert stage._state.isolations.active == {}


@pytest.mark.parametrize(("confidence", "approved"), [(0.6, 0), (0.95, 6)])
def test_the_links_down_of_a_switch_do_not_waive_its_floor(confidence: float, approved: int) -> None:
    """All 24 uplinks of a leaf report down: by one end no action is approved, by both ends none below 75 %."""
    top = two_pods(1, 24, 0)
    stage = acting(top, **ALL_CAPS_OFF)
    uplinks = top.uplinks_of["p-l0"]
    claims = [of_link(link, Condition.LINK_FLAP, confidence=confidence) for link in uplinks]
    found = decisions(stage, *claims)
    assert sum(one.state is State.APPROVED for one in found) == approved
    assert len(found) == 24
    stage = acting(top, **ALL_CAPS_OFF)
    claims = [of_link(link, Condition.LINK_DOWN, confidence=confidence) for link in uplinks]
    found = decisions(stage, *claims)
    assert {binding(one)[:2] for one in found} == {(State.DENIED, 8)}, "each counts as lost, by its own report"
    assert len(found) == 24


@pytest.mark.parametrize(("state", "name"), [(3, "administratively down"), (0, "not observed"), (2, "down")])
def test_links_that_are_not_proven_to_carry_are_no_capacity(state: int, name: str) -> None:
    """One of four uplinks is lost: a drain of another would leave a half, and is denied."""
    stage = deciding()
    stage.process([port_states("p1-l0", t=1, u1=state)])
    (denied,) = decisions(stage, finding("p1-l0/u0"))
    assert binding(denied) == (State.DENIED, 8, "surviving-capacity"), name
    assert (denied.constraint_limit, denied.constraint_observed) == (0.75, 0.5)


@pytest.mark.parametrize(
    ("state", "expected"), [(1, State.APPROVED), (0, State.WAITING), (2, State.WAITING), (3, State.WAITING)]
)
def test_the_last_plane_of_a_host_is_not_drained_without_approval(state: int, expected: State) -> None:
    """The other plane of the rail is proven to carry, or a person decides."""
    stage = deciding()
    stage.process([port_states("p1-h1", t=1, e1=state)])
    (decision,) = decisions(stage, finding("p1-h1/e0"))
    assert binding(decision) == (expected, *((0, "") if state == 1 else (8, "surviving-capacity")))


def test_without_an_inventory_nothing_is_approved() -> None:
    """Neither uplink of a switch whose fabric is unknown, whatever its ports report."""
    stage = deciding(**ALL_CAPS_OFF)
    stage.set_topology(Topology(Inventory()))
    found = decisions(stage, finding("p1-l0/u0"), finding("p1-l0/u1"))
    assert [one.state for one in found] == [State.DENIED, State.DENIED]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"confidence": None}, (State.DENIED, 5, "confidence")),
        ({"confidence": 0.79}, (State.WAITING, 5, "confidence")),
        ({"coverage": Coverage(1, 2)}, (State.WAITING, 5, "one-sided evidence")),
        ({"confidence": 0.8, "coverage": Coverage(2, 2)}, (State.APPROVED, 0, "")),
    ],
)
def test_weak_evidence_is_not_acted_on(changes: dict[str, Any], expected: tuple[State, int, str]) -> None:
    """Without a confidence nothing, below the floor or with one end only a person decides."""
    (decision,) = decisions(deciding(), finding("p1-l0/u0", **changes))
    assert binding(decision) == expected


def test_a_target_that_was_not_observed_lately_is_not_acted_on() -> None:
    """The heartbeat of the ports is 31 s old; with the next one the drain is approved."""
    stage = deciding(freshness_s=30)
    stage.process([ReadingsHeartbeat(0, at(0))])
    (denied,) = decisions(stage, finding("p1-l0/u0"), t=31)
    assert (*binding(denied), denied.constraint_observed) == (State.DENIED, 6, "freshness", 31)
    stage.process([ReadingsHeartbeat(0, at(40))])
    found = remediations(stage.advance_watermark(at(42)))
    assert found[-1].state is State.APPROVED


def drains(stage: Decide, *ports: str, t: float = 10) -> list[tuple[str, State, str]]:
    found = decisions(stage, *(finding(port, t=t - 10) for port in ports), t=t)
    return sorted((one.target.id, one.state, one.constraint) for one in found)


LIMITS: dict[str, tuple[dict[str, Any], tuple[str, ...], str]] = {
    "cap of the pod": ({"pod_cap": 1}, ("p1-l0/u0", "p1-l1/u0"), "pod cap"),
    "relative cap of the pod": ({"pod_cap_ratio": 0.05}, ("p1-l0/u0", "p1-l1/u0"), "pod cap"),
    "cap of the fabric": ({"fabric_cap": 1}, ("p1-l0/u0", "p2-l1/u0"), "fabric cap"),
    "relative cap of the fabric": ({"fabric_cap_ratio": 0.005}, ("p1-l0/u0", "p2-l1/u0"), "fabric cap"),
    "hourly rate": ({"actions_per_hour": 1}, ("p1-l0/u0", "p2-l1/u0"), "hourly rate"),
}


@pytest.mark.parametrize(("changes", "ports", "constraint"), LIMITS.values(), ids=LIMITS)
def test_limits_of_all_isolations_bind(changes: dict[str, Any], ports: tuple[str, ...], constraint: str) -> None:
    """Of two drains of one batch the second is denied; without the limit both are approved."""
    free = drains(deciding(**ALL_CAPS_OFF), *ports)
    assert [(state, own) for _, state, own in free] == [(State.APPROVED, ""), (State.APPROVED, "")]
    limited = drains(deciding(**{**ALL_CAPS_OFF, **changes}), *ports)
    assert sorted((state, own) for _, state, own in limited) == [(State.DENIED, constraint), (State.APPROVED, "")]


def test_the_budget_of_a_link_binds() -> None:
    """Three drains that automation reports as failed are its budget of two hours; no answer returns one of them."""
    stage = deciding(**{**ALL_CAPS_OFF, "isolation_budget": 3, "cool_down_s": 0})
    for n in range(3):
        opened = finding("p1-l0/u0", t=100 * n)
        (drain,) = [one for one in decisions(stage, opened, t=100 * n + 10) if one.state is State.APPROVED]
        carry_out(stage, drain, Outcome.FAILED)
        stage.process([ended(opened, final=True)])
    (fourth,) = decisions(stage, finding("p1-l0/u0", t=400), t=410)
    assert binding(fourth) == (State.DENIED, 11, "isolation budget")
    assert remediations(stage.advance_watermark(at(7200))) == []
    found = remediations(stage.advance_watermark(at(7221)))
    assert found[-1].state is State.APPROVED, "the first one is two hours old"


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.REJECTED])
def test_a_failed_answer_does_not_shorten_the_cool_down(outcome: Outcome) -> None:
    """Another finding on the link within 600 s of the answer is denied by guard 12, and approved after it."""
    stage = deciding(**ALL_CAPS_OFF)
    first = finding("p1-l0/u0")
    (drain,) = decisions(stage, first)
    accept(stage, drain)
    stage.advance_watermark(at(100))
    stage.process([answer(drain, outcome), ended(first, final=True)])
    (denied,) = [one for one in decisions(stage, finding("p1-l0/u0", t=200), t=688) if one.id != drain.id]
    assert binding(denied) == (State.DENIED, 12, "cool-down")
    assert (denied.constraint_limit, denied.constraint_observed) == (600, 588)
    assert remediations(stage.advance_watermark(at(699))) == []
    found = remediations(stage.advance_watermark(at(709)))
    assert [one.state for one in found if one.attempt == 2] == [State.APPROVED]


@pytest.mark.parametrize("actor", ["netbot", "mallory"])
def test_a_forged_result_in_shadow_mode_leads_to_no_restore(actor: str) -> None:
    """DONE from anybody, with or without ACCEPTED, and the end of the finding publish no order."""
    stage = deciding("shadow")
    example = finding("p1-l0/u0")
    (shadow,) = decisions(stage, example)
    assert (shadow.state, shadow.verdict) == (State.SHADOW, Verdict.SHADOW)
    for outcome in (Outcome.DONE, Outcome.ACCEPTED, Outcome.DONE):
        assert stage.process([RemediationResult(shadow.id, outcome, actor=actor)]) == []
    found = remediations([*stage.process([ended(example, final=True)]), *stage.advance_watermark(at(20_000))])
    assert {one.action for one in found} == {Action.DRAIN_LINK}
    assert {one.verdict for one in found} == {Verdict.REVOKED}
    assert stage._state.isolations.active == {}


@pytest.mark.parametrize("first", ["denied", "waiting", "expired", "failed"])
@pytest.mark.parametrize("change", ["severity", "cause"])
def test_a_finding_that_changes_is_decided_again(first: str, change: str) -> None:
    """Whatever became of the first decision, the next attempt has another id."""
    example = finding("p1-l0/u0", confidence={"denied": None, "waiting": 0.6}.get(first, 0.95))
    stage = deciding(**NO_CAPS, cool_down_s=0, failed_s=100_000)
    (decision,) = decisions(stage, example)
    if first == "expired":
        stage.advance_watermark(at(310))
    if first == "failed":
        carry_out(stage, decision, Outcome.FAILED)
    assert stage._state.remedies[decision.id].state is State[first.upper()]
    changes: dict[str, Any] = {"severity": Severity.CRITICAL} if change == "severity" else {"cause": Cause.OPTIC}
    found = decisions(stage, replace(example, revision=2, confidence=0.95, **changes), t=320)
    assert [(one.id, one.state) for one in found if one.id == decision.id] == [(decision.id, State.CLOSED)]
    assert [(one.state, one.attempt) for one in found if one.id != decision.id] == [(State.APPROVED, 2)]


@pytest.mark.parametrize("restart", [False, True])
def test_an_open_finding_that_arrives_after_its_final_revision_is_not_approved(restart: bool) -> None:
    """Also by the successor that restored a snapshot, and after the settling time."""
    example = finding("p1-l0/u0")
    stage = deciding()
    decisions(stage, example)
    outputs = stage.process([ended(example, revision=5, final=True)])
    assert len(removed_keys(outputs)) == 1
    if restart:
        successor = deciding(states=False, loaded=False)
        successor.restore(stage.snapshot())
        successor.set_topology(TOP)
        successor.recover([])
        stage = successor
    assert remediations(stage.process([replace(example, revision=3), example])) == []
    for t in (11, 25, 1000, 80_000):
        assert remediations(stage.advance_watermark(at(t))) == []


@pytest.mark.parametrize("way", ["tombstone", "end"])
def test_an_ended_kill_switch_lets_decisions_pass(way: str) -> None:
    """Before it ends nothing is approved, after it the denied drain is; so with a restart in between."""
    stage = deciding()
    stage.process([Control("stop", ControlKind.KILL_SWITCH, at_ns=at(0), actor="anna", endless=True)])
    (denied,) = decisions(stage, finding("p1-l0/u0"))
    assert binding(denied) == (State.DENIED, 1, "kill-switch")
    successor = deciding(loaded=False)
    successor.restore(stage.snapshot())
    successor.set_topology(TOP)
    successor.recover([])
    assert remediations(successor.advance_watermark(at(20))) == []
    until = Control("stop", ControlKind.KILL_SWITCH, at_ns=at(0), until_ns=at(25), actor="anna")
    successor.process([until if way == "end" else Control("stop", ControlKind.KIND_UNSPECIFIED)])
    found = remediations(successor.advance_watermark(at(30)))
    assert [(one.id == denied.id, one.state) for one in found] == [(True, State.CLOSED), (False, State.APPROVED)]


def test_a_cold_start_approves_nothing_before_the_controls_are_read_and_then_decides() -> None:
    """A proposal is denied by guard 1; once the topic was read to its end without a kill switch, it is approved."""
    stage = deciding(loaded=False)
    (denied,) = decisions(stage, finding("p1-l0/u0"))
    assert binding(denied) == (State.DENIED, 1, "kill-switch")
    assert remediations(stage.advance_watermark(at(60))) == []
    stage.recover([])
    found = remediations(stage.advance_watermark(at(71)))
    assert [one.state for one in found] == [State.CLOSED, State.APPROVED]


def test_a_person_approves_what_expired_without_an_answer() -> None:
    """The next attempt has the approval; the same answer again, or one for the old id, changes nothing."""
    stage = deciding()
    (waiting,) = decisions(stage, finding("p1-l0/u0", confidence=0.6))
    stage.advance_watermark(at(3610))
    assert stage._state.remedies[waiting.id].state is State.EXPIRED
    approval = Control("c", ControlKind.APPROVE, waiting.id, at(3620), at(9000), actor="anna")
    closed, approved = remediations(stage.process([approval]))
    assert (closed.id, closed.state) == (waiting.id, State.CLOSED)
    assert (approved.state, approved.attempt, approved.approved_by) == (State.APPROVED, 2, "anna")
    assert stage.process([approval, replace(approval, id="d")]) == []


@pytest.mark.parametrize("kind", [ControlKind.APPROVE, ControlKind.REJECT])
def test_an_answer_that_expired_changes_nothing(kind: ControlKind) -> None:
    """Its end is before event time."""
    stage = deciding()
    (waiting,) = decisions(stage, finding("p1-l0/u0", confidence=0.6))
    stage.advance_watermark(at(100))
    control = Control("c", kind, waiting.id, at(20), at(50), actor="anna")
    assert stage.process([control]) == []
    assert stage._state.remedies[waiting.id].state is State.WAITING

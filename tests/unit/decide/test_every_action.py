"""Tests that the shipped policy leads to every action, through the whole stage and to its end.

The findings have the subjects that the detectors give them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from streams.decide.params import DecideParams
from streams.decide.policy import load_policy
from streams.decide.stage import Decide
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
    Remediation,
    Severity,
    Subject,
    Verdict,
)
from streams.wire.models import RemediationState as State
from tests.fixtures.decide_stage import (
    TOP,
    Scheduled,
    accept,
    carry_out,
    deciding,
    ended,
    finding,
    open_states,
    port_states,
    remediations,
)
from tests.worlds.observations import at
from tests.worlds.small_fabric import inventory, job, topology

CRITICAL = Severity.CRITICAL
COHORT = Subject("cohort:switch/mellanox/sn5600/gnmi/1.2", Endpoint("p1-l0"), role="switch")
GPU = Subject("port:p1-h1/gpu3", Endpoint("p1-h1", "gpu3"), role="gpu", pod="p1")
POD = Subject("pod:p1", role="pod", pod="p1", site="x")


@dataclass(frozen=True)
class Way:
    """A finding, when its action is decided, the states after its result, and the end of its finding."""

    fault: Finding
    t: float
    target: str
    state: State
    after: State
    constraint: str = ""


def _fault(port: str, condition: Condition, **changes: Any) -> Finding:
    return finding(port, condition, **changes)


WAYS = {
    Action.OBSERVE: Way(
        _fault("p1-l0/u0", Condition.LINK_FLAP, occurrences=1), 10, "link:p1-l0/u0--s1/p1-l0", State.APPROVED,
        State.CLOSED,
    ),
    Action.DRAIN_LINK: Way(
        _fault("p1-l0/u0", Condition.LINK_FLAP), 10, "link:p1-l0/u0--s1/p1-l0", State.APPROVED, State.DRAINED,
    ),
    Action.REPAIR_LINK: Way(
        _fault("p1-l0/u0", Condition.LINK_DOWN), 10, "link:p1-l0/u0--s1/p1-l0", State.APPROVED, State.VERIFYING,
    ),
    Action.RESET_NIC: Way(
        _fault("p1-h1/e0", Condition.RAIL_DEGRADED, cause=Cause.NIC), 1800, "link:p1-h1/e0--p1-l0/d1", State.APPROVED,
        State.PROBATION,
    ),
    Action.CORDON_HOST: Way(
        _fault("p1-h1", Condition.HOST_GPU_FAULT, severity=CRITICAL, subject=GPU, confidence=1.0), 10, "device:p1-h1",
        State.APPROVED, State.DRAINED,
    ),
    Action.UPGRADE_FIRMWARE: Way(
        _fault("p1-l0", Condition.FLEET_VERSION_DRIFT, subject=COHORT, cause=Cause.VERSION_FAULTY,
               coverage=Coverage(9, 9)),
        86_400, COHORT.id, State.WAITING, State.PROBATION, "surviving-capacity",
    ),
    Action.TUNE_CONGESTION: Way(
        _fault("p1-l0", Condition.CONGESTION_COLLAPSE, subject=POD, severity=CRITICAL), 3600, "pod:p1", State.APPROVED,
        State.PROBATION,
    ),
}  # fmt: skip
"""The actions that are a first action of a finding; the others follow one."""

FOLLOWING = {Action.RESTORE_LINK, Action.UNCORDON_HOST, Action.REBOOT_HOST}
"""Those that follow a drain or a cordon: test_restore.py and test_host_restarts.py carry them out."""


def acting(made: Decide | None = None) -> Decide:
    """Return the stage with the shipped policy or its own, and a job on another host."""
    stage = made or deciding(stage=Scheduled)
    begin = datetime.fromtimestamp(at(0) / 1e9, UTC).isoformat()
    stage.set_topology(topology(inventory(jobs=[job("llm", "p2-h2", begin)])))
    return stage


def reached(stage: Decide, fault: Finding, t: float, action: Action) -> Remediation:
    """Return the decision on an action, at the end of the steps of its ladder."""
    found = list(remediations(stage.process([fault])))
    for now in (10, 400, t - 1, t, t + 1) if t > 10 else (t,):
        found += remediations(stage.advance_watermark(at(now)))
    own = [one for one in found if one.action is action]
    assert own, f"{action.name} is not reached: {[(one.action.name, one.state.name) for one in found]}"
    return own[-1] if t > 10 else own[0]


def approved(stage: Decide, record: Remediation) -> Remediation:
    """Return an approved decision; a person approves it if it waits."""
    if record.state is not State.WAITING:
        return record
    control = Control("go", ControlKind.APPROVE, record.id, actor="anna", endless=True)
    (record,) = remediations(stage.process([control]))
    return record


def states_of(found: Sequence[Remediation], identity: str) -> list[State]:
    return [one.state for one in found if one.id == identity]


def test_every_action_has_a_way() -> None:
    """The list of issue 16, and nothing else, is the list of actions."""
    assert WAYS.keys() | FOLLOWING == set(Action) - {Action.ACTION_UNSPECIFIED}


@pytest.mark.parametrize("action", WAYS, ids=lambda action: action.name)
def test_the_shipped_policy_reaches_an_action(action: Action) -> None:
    """It is decided for its target, carried out by automation, and leads to the state that follows."""
    way, stage = WAYS[action], acting()
    record = reached(stage, way.fault, way.t, action)
    assert (record.target.id, record.state, record.constraint) == (way.target, way.state, way.constraint)
    if action is Action.OBSERVE:
        return
    record = approved(stage, record)
    assert record.verdict is Verdict.APPROVED
    assert states_of(carry_out(stage, record), record.id) == [State.ACCEPTED, way.after]


@pytest.mark.parametrize("action", [one for one, way in WAYS.items() if way.after is State.PROBATION], ids=str)
def test_an_action_that_isolates_nothing_ends_with_its_probation(action: Action) -> None:
    """Its finding ended: after an hour it is CLOSED. A failure of it is tried again, or waits for a person."""
    way, stage = WAYS[action], acting()
    record = approved(stage, reached(stage, way.fault, way.t, action))
    carry_out(stage, record)
    stage.process([ended(way.fault, final=True)])
    found = remediations(stage.advance_watermark(at(way.t + 3700)))
    assert states_of(found, record.id) == [State.CLOSED]
    failing = acting()
    record = approved(failing, reached(failing, way.fault, way.t, action))
    assert states_of(carry_out(failing, record, Outcome.FAILED), record.id) == [State.ACCEPTED, State.FAILED]


@pytest.mark.parametrize("action", [Action.TUNE_CONGESTION, Action.RESET_NIC])
def test_an_action_without_effect_is_repeated_after_growing_pauses_and_then_a_person_decides(action: Action) -> None:
    """Its finding goes on in each revision; the attempts of the policy are not spent within seconds."""
    way = WAYS[action]
    rules = tuple(
        rule.model_copy(update={"ladder": (rule.ladder[0], rule.ladder[1].model_copy(update={"attempts": 3}))})
        if action in [step.action for step in rule.ladder] else rule
        for rule in load_policy().rules
    )  # fmt: skip

    class Acting(Scheduled):
        def __init__(self, params: DecideParams) -> None:
            super().__init__(params, load_policy().model_copy(update={"rules": rules}))

    stage = acting(deciding(stage=Acting, cool_down_s=30, reset_budget=9))
    record, begins = reached(stage, way.fault, way.t, action), []
    for second in range(round(way.t) + 2, round(way.t) + 900, 2):
        if record.state is State.APPROVED:
            begins.append(second)
            carry_out(stage, record)
        seen = replace(way.fault, revision=second, observed_at_ns=at(second))
        found = remediations([*stage.process([seen]), *stage.advance_watermark(at(second))])
        record = next((one for one in found[::-1] if one.action is action), replace(record, state=State.CLOSED))
    assert [round(b - a, -1) for a, b in pairwise(begins)] == [60, 120]
    assert list(open_states(stage).values()) == [State.ESCALATED]


@pytest.mark.parametrize("why", ["stale", "unknown pod"])
def test_the_congestion_of_a_pod_is_not_tuned_on_unknown_evidence(why: str) -> None:
    """A switch of the pod was never observed, or the inventory has no switch there: denied."""
    stage, way = deciding(states=False), WAYS[Action.TUNE_CONGESTION]
    stage.process([port_states(device) for device in TOP.links_of if device != "p1-l1"])
    fault, expected = way.fault, (6, "freshness")
    if why == "unknown pod":
        fault = finding("p1-l0", Condition.CONGESTION_COLLAPSE, subject=Subject("pod:x", role="pod", pod="x"))
    record = reached(stage, fault, way.t, Action.TUNE_CONGESTION)
    assert (record.state, record.guard, record.constraint) == (State.DENIED, *expected)


def test_the_congestion_of_a_pod_is_not_tuned_in_its_maintenance() -> None:
    """A maintenance of the pod, or of one of its switches, denies it."""
    for subject in ("pod:p1", "p1-l1"):
        stage, way = acting(), WAYS[Action.TUNE_CONGESTION]
        stage.process([Control("m", ControlKind.MAINTENANCE, subject, endless=True, actor="anna")])
        record = reached(stage, way.fault, way.t, Action.TUNE_CONGESTION)
        assert (record.state, record.constraint) == (State.DENIED, "maintenance"), subject


@pytest.mark.parametrize("action", [Action.TUNE_CONGESTION, Action.UPGRADE_FIRMWARE, Action.RESET_NIC])
def test_an_action_that_isolates_nothing_has_no_answer_without_a_page_at_once(action: Action) -> None:
    """A pod and a group of devices are no links or devices of the inventory; they were not removed from it."""
    stage, way = acting(), WAYS[action]
    record = reached(stage, way.fault, way.t, action)
    if record.state is State.WAITING:
        control = Control("yes", ControlKind.APPROVE, record.id, endless=True, actor="anna")
        (record,) = remediations(stage.process([control]))
    accept(stage, record)
    found = [
        one.state
        for seconds in (601, 602)
        for one in remediations(stage.advance_watermark(at(way.t + 20 + seconds)))
        if one.id == record.id
    ]
    assert found == [State.NO_ANSWER]

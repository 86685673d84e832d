"""decide: which action a finding asks for, when, and how the decision is told."""

from dataclasses import replace

import pytest

from streams.decide.params import DecideParams
from streams.decide.policy import POLICY, rule_for
from streams.fabric.ids import remediation_id
from streams.wire.models import Action, Cause, Condition, Finding, Severity, Status, Verdict
from streams.wire.topics import REMEDIATIONS_OPEN
from tests.fixtures.decide_stage import deciding, decisions, finding, remediations
from tests.worlds.observations import after, at

POLICY_CASES = [
    (Condition.LINK_FLAP, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.LINK_FLAP, 2, Severity.WARNING, Action.DRAIN_LINK),
    (Condition.LINK_FLAP, 9, Severity.WARNING, Action.DRAIN_LINK),
    (Condition.LINK_DOWN, 1, Severity.WARNING, Action.REPAIR_LINK),
    (Condition.LINK_DEGRADING, 1, Severity.INFO, Action.OBSERVE),
    (Condition.LINK_DEGRADING, 1, Severity.WARNING, Action.DRAIN_LINK),
    (Condition.LINK_DEGRADING, 3, Severity.CRITICAL, Action.DRAIN_LINK),
    (Condition.DEVICE_DOWN, 3, Severity.WARNING, Action.OBSERVE),
    (Condition.TELEMETRY_STALE, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.RAIL_DEGRADED, 5, Severity.WARNING, Action.OBSERVE),
    (Condition.HOST_GPU_FAULT, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.HOST_GPU_FAULT, 1, Severity.CRITICAL, Action.CORDON_HOST),
    (Condition.HOST_PCIE_DEGRADED, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.CONGESTION_INCAST, 2, Severity.WARNING, Action.OBSERVE),
    (Condition.CONGESTION_IMBALANCE, 3, Severity.WARNING, Action.OBSERVE),
    (Condition.CONGESTION_COLLAPSE, 2, Severity.CRITICAL, Action.OBSERVE),
    (Condition.LINK_MISCABLED, 5, Severity.WARNING, Action.OBSERVE),
    (Condition.FLEET_VERSION_DRIFT, 1, Severity.INFO, Action.OBSERVE),
    (Condition.FLEET_VERSION_DRIFT, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.CONDITION_UNSPECIFIED, 5, Severity.WARNING, None),
]


@pytest.mark.parametrize(("condition", "occurrences", "severity", "action"), POLICY_CASES)
def test_the_policy_goes_from_condition_count_and_severity_to_action(
    condition: Condition, occurrences: int, severity: Severity, action: Action | None
) -> None:
    """First observe; what comes back or loses frames is drained; what is down is repaired; a forecast moves nobody."""
    rule = rule_for(finding("p1-l0/u0", condition, occurrences=occurrences, severity=severity))
    assert (rule and rule.action) == action


CAUSE_CASES = [(Cause.NIC, Action.DRAIN_LINK), (Cause.PCIE, Action.DRAIN_LINK), (Cause.SWITCH, Action.OBSERVE)]


@pytest.mark.parametrize(("cause", "action"), CAUSE_CASES)
def test_the_root_of_a_storm_is_drained_where_it_is_a_host(cause: Cause, action: Action) -> None:
    """A switch that pauses has all its hosts behind it: that is for people."""
    rule = rule_for(finding("p1-l0/u0", Condition.CONGESTION_PFC_STORM, occurrences=1, cause=cause))
    assert rule is not None
    assert rule.action == action


def test_every_rule_has_a_case() -> None:
    """A rule that no case reaches could never fire."""
    reached = {rule_for(finding("p1-l0/u0", c, occurrences=n, severity=s)) for c, n, s, _ in POLICY_CASES}
    reached |= {
        rule_for(finding("p1-l0/u0", Condition.CONGESTION_PFC_STORM, occurrences=1, cause=cause))
        for cause, _ in CAUSE_CASES
    }
    assert set(POLICY) == reached - {None}


NOTHING = {
    "too young": (finding("p1-l0/u0"), 9.9),
    "explained by another": (finding("p1-l0/u0", parent_id="p"), 60),
    "over by then": (finding("p1-l0/u0", status=Status.RESOLVED, resolved_at_ns=at(5)), 60),
    "only recorded": (finding("p1-l0/u0", shadow=True), 60),
    "only information": (finding("p1-l0/u0", severity=Severity.INFO), 60),
    "known later than it began": (finding("p1-l0/u0", detected_at_ns=at(200)), 209),
}


@pytest.mark.parametrize(("own", "t"), NOTHING.values(), ids=NOTHING)
def test_when_nothing_is_decided(own: Finding, t: float) -> None:
    """What is unsettled, explained, over, shadowed or harmless is left alone."""
    assert decisions(deciding(), own, t=t) == []


@pytest.mark.parametrize(("mode", "verdict"), [("act", Verdict.APPROVED), ("shadow", Verdict.SHADOW)])
def test_a_decision_is_published_with_its_reason_and_its_end(mode: str, verdict: Verdict) -> None:
    """Once settled: the action, the surviving capacity, when it expires; in shadow nobody is told to act."""
    own = finding("p1-l0/u0")
    stage = deciding(mode)
    outputs = [*stage.process([own]), *stage.advance_watermark(at(10))]
    (said,) = remediations(outputs)
    assert (said.id, said.action, said.verdict) == (remediation_id(own.id, "DRAIN_LINK", 1), Action.DRAIN_LINK, verdict)
    assert (after(said.decided_at_ns), after(said.expires_at_ns)) == (10, 610)
    assert (said.surviving_capacity_ratio, said.constraint) == (0.75, "")
    assert said.reason == "it broke (2nd link/flap in 28 days)"
    assert said.finding_ids == (own.id,)
    assert [o.key for o in outputs if o.topic is REMEDIATIONS_OPEN] == [said.id]
    assert stage.process([own]) == stage.process([replace(own, revision=2)]) == stage.advance_watermark(at(100)) == []


def test_shadow_is_the_default() -> None:
    """Nobody who did not ask for it is acted upon."""
    assert DecideParams().mode == "shadow"

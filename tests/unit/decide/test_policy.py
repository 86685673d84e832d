"""Tests which action a finding leads to, when, and how the decision is published."""

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
    (Condition.HOST_THERMAL_THROTTLE, 1, Severity.CRITICAL, Action.OBSERVE),
    (Condition.CONGESTION_INCAST, 2, Severity.WARNING, Action.OBSERVE),
    (Condition.CONGESTION_IMBALANCE, 3, Severity.WARNING, Action.OBSERVE),
    (Condition.CONGESTION_COLLAPSE, 2, Severity.CRITICAL, Action.OBSERVE),
    (Condition.LINK_MISCABLED, 5, Severity.WARNING, Action.OBSERVE),
    (Condition.FLEET_VERSION_DRIFT, 1, Severity.INFO, Action.OBSERVE),
    (Condition.FLEET_VERSION_DRIFT, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.CONDITION_UNSPECIFIED, 5, Severity.WARNING, None),
]


@pytest.mark.parametrize(("condition", "occurrences", "severity", "action"), POLICY_CASES)
def test_the_policy_maps_condition_occurrences_and_severity_to_an_action(
    condition: Condition, occurrences: int, severity: Severity, action: Action | None
) -> None:
    """A first fault is observed, a repeated or lossy one drained, a down link repaired, a forecast observed."""
    rule = rule_for(finding("p1-l0/u0", condition, occurrences=occurrences, severity=severity))
    assert (rule and rule.action) == action


CAUSE_CASES = [(Cause.NIC, Action.DRAIN_LINK), (Cause.PCIE, Action.DRAIN_LINK), (Cause.SWITCH, Action.OBSERVE)]


@pytest.mark.parametrize(("cause", "action"), CAUSE_CASES)
def test_the_origin_of_a_storm_is_drained_if_it_is_a_host(cause: Cause, action: Action) -> None:
    """All hosts of a pausing switch depend on it, so a person decides."""
    rule = rule_for(finding("p1-l0/u0", Condition.CONGESTION_PFC_STORM, occurrences=1, cause=cause))
    assert rule is not None
    assert rule.action == action


def test_every_rule_has_a_case() -> None:
    """A rule without a case might never apply."""
    reached = {rule_for(finding("p1-l0/u0", c, occurrences=n, severity=s)) for c, n, s, _ in POLICY_CASES}
    reached |= {
        rule_for(finding("p1-l0/u0", Condition.CONGESTION_PFC_STORM, occurrences=1, cause=cause))
        for cause, _ in CAUSE_CASES
    }
    assert set(POLICY) == reached - {None}


NO_DECISION = {
    "too young": (finding("p1-l0/u0"), 9.9),
    "has a parent": (finding("p1-l0/u0", parent_id="p"), 60),
    "ended before": (finding("p1-l0/u0", status=Status.RESOLVED, resolved_at_ns=at(5)), 60),
    "shadow": (finding("p1-l0/u0", shadow=True), 60),
    "severity INFO": (finding("p1-l0/u0", severity=Severity.INFO), 60),
    "detected long after its start": (finding("p1-l0/u0", detected_at_ns=at(200)), 209),
}


@pytest.mark.parametrize(("example", "t"), NO_DECISION.values(), ids=NO_DECISION)
def test_when_no_decision_is_made(example: Finding, t: float) -> None:
    """Findings that are too young, have a parent, have ended, are shadow or INFO lead to no decision."""
    assert decisions(deciding(), example, t=t) == []


@pytest.mark.parametrize(("mode", "verdict"), [("act", Verdict.APPROVED), ("shadow", Verdict.SHADOW)])
def test_a_decision_is_published_with_its_reason_and_expiry(mode: str, verdict: Verdict) -> None:
    """After the settling time it has the action, the surviving capacity and the expiry; in shadow mode it is SHADOW."""
    example = finding("p1-l0/u0")
    stage = deciding(mode)
    outputs = [*stage.process([example]), *stage.advance_watermark(at(10))]
    (decision,) = remediations(outputs)
    assert (decision.id, decision.action, decision.verdict) == (
        remediation_id(example.id, "DRAIN_LINK", 1),
        Action.DRAIN_LINK,
        verdict,
    )
    assert (after(decision.decided_at_ns), after(decision.expires_at_ns)) == (10, 610)
    assert (decision.surviving_capacity_ratio, decision.constraint) == (0.75, "")
    assert decision.reason == "it broke (2nd link/flap in 28 days)"
    assert decision.finding_ids == (example.id,)
    assert [o.key for o in outputs if o.topic is REMEDIATIONS_OPEN] == [decision.id]
    assert (
        stage.process([example])
        == stage.process([replace(example, revision=2)])
        == stage.advance_watermark(at(100))
        == []
    )


def test_shadow_is_the_default() -> None:
    """Without configuration no action is taken."""
    assert DecideParams().mode == "shadow"

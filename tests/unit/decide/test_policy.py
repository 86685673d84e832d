"""Tests which action a finding leads to, when, and how the decision is published."""

from dataclasses import replace
from pathlib import Path

import pytest

from streams.decide.params import DecideParams
from streams.decide.policy import Policy, load_policy, parse_policy
from streams.decide.stage import Decide
from streams.fabric.ids import remediation_id
from streams.wire.errors import Misconfigured
from streams.wire.models import Action, Cause, Condition, Finding, Severity, Status, Verdict
from streams.wire.topics import REMEDIATIONS_OPEN
from tests.fixtures.decide_stage import TOP, deciding, decisions, finding, remediations
from tests.worlds.observations import after, at

DEFAULT_POLICY = load_policy()

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
    (Condition.DEVICE_CLOCK_SKEW, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.RAIL_DEGRADED, 5, Severity.WARNING, Action.OBSERVE),
    (Condition.HOST_GPU_FAULT, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.HOST_GPU_FAULT, 1, Severity.CRITICAL, Action.CORDON_HOST),
    (Condition.HOST_PCIE_DEGRADED, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.PATH_LOSS, 1, Severity.WARNING, Action.OBSERVE),
    (Condition.RAIL_UNREACHABLE, 1, Severity.CRITICAL, Action.OBSERVE),
    (Condition.HOST_THERMAL_THROTTLE, 1, Severity.CRITICAL, Action.OBSERVE),
    (Condition.HOST_NVLINK_DEGRADED, 1, Severity.CRITICAL, Action.OBSERVE),
    (Condition.HOST_POWER_CAPPED, 1, Severity.CRITICAL, Action.OBSERVE),
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
    example = finding("p1-l0/u0", condition, occurrences=occurrences, severity=severity)
    rule = DEFAULT_POLICY.action_for(example, at(10))
    assert (rule and rule.action) == action


CAUSE_CASES = [(Cause.NIC, Action.DRAIN_LINK), (Cause.PCIE, Action.DRAIN_LINK), (Cause.SWITCH, Action.OBSERVE)]


@pytest.mark.parametrize(("cause", "action"), CAUSE_CASES)
def test_the_origin_of_a_storm_is_drained_if_it_is_a_host(cause: Cause, action: Action) -> None:
    """All hosts of a pausing switch depend on it, so a person decides."""
    example = finding("p1-l0/u0", Condition.CONGESTION_PFC_STORM, occurrences=1, cause=cause)
    rule = DEFAULT_POLICY.action_for(example, at(10))
    assert rule is not None
    assert rule.action == action


LADDER_CASES = [
    (Condition.RAIL_DEGRADED, Cause.NIC, 1799, {}, Action.OBSERVE),
    (Condition.RAIL_DEGRADED, Cause.NIC, 1800, {}, Action.RESET_NIC),
    (Condition.RAIL_DEGRADED, Cause.NIC, 1800, {Action.RESET_NIC: 2}, Action.OBSERVE),
    (Condition.RAIL_DEGRADED, Cause.PCIE, 1800, {}, Action.OBSERVE),
    (Condition.CONGESTION_COLLAPSE, Cause.CONGESTION, 3600, {}, Action.TUNE_CONGESTION),
    (Condition.CONGESTION_COLLAPSE, Cause.CONGESTION, 3600, {Action.TUNE_CONGESTION: 1}, Action.OBSERVE),
    (Condition.HOST_GPU_FAULT, Cause.GPU_OFF_BUS, 10, {}, Action.CORDON_HOST),
    (Condition.HOST_GPU_FAULT, Cause.GPU_OFF_BUS, 1800, {}, Action.REBOOT_HOST),
    (Condition.HOST_GPU_FAULT, Cause.GPU_OFF_BUS, 1800, {Action.REBOOT_HOST: 1}, None),
    (Condition.HOST_GPU_FAULT, Cause.GPU_MEMORY, 1800, {}, Action.CORDON_HOST),
    (Condition.FLEET_VERSION_DRIFT, Cause.VERSION_FAULTY, 86399, {}, Action.OBSERVE),
    (Condition.FLEET_VERSION_DRIFT, Cause.VERSION_FAULTY, 86400, {}, Action.UPGRADE_FIRMWARE),
    (Condition.FLEET_VERSION_DRIFT, Cause.VERSION_ROLLOUT, 86400, {}, Action.OBSERVE),
    (Condition.LINK_FLAP, Cause.OPTIC, 10, {Action.DRAIN_LINK: 2}, Action.DRAIN_LINK),
    (Condition.LINK_FLAP, Cause.OPTIC, 10, {Action.DRAIN_LINK: 3}, None),
]


@pytest.mark.parametrize(("condition", "cause", "age_s", "attempts", "action"), LADDER_CASES)
def test_the_ladder_escalates_with_time_and_attempts(
    condition: Condition, cause: Cause, age_s: float, attempts: dict[Action, int], action: Action | None
) -> None:
    """The first step observes; later ones begin with time, or after attempts without effect; then a person decides."""
    example = finding("p1-l0/u0", condition, severity=Severity.CRITICAL, cause=cause)
    proposed = DEFAULT_POLICY.action_for(example, at(age_s), attempts)
    assert (proposed and proposed.action) == action


def test_a_step_names_the_time_of_the_next() -> None:
    """The stage evaluates the finding again then, although no message arrives."""
    example = finding("p1-l0/u0", Condition.RAIL_DEGRADED, cause=Cause.NIC, detected_at_ns=at(100))
    for t, following in ((110, 1900), (1900, 86500), (86500, None)):
        proposed = DEFAULT_POLICY.action_for(example, at(t))
        assert proposed is not None
        assert after(proposed.next_ns) == following


def test_a_condition_without_a_rule_in_the_default_policy_is_observed() -> None:
    """So a new detector needs no rule; a policy of one's own has no such default."""
    assert {rule.condition for rule in DEFAULT_POLICY.rules} == {condition for condition in Condition if condition}
    defaults = [rule for rule in DEFAULT_POLICY.rules if rule.name == rule.condition.slug]
    assert [step.action for rule in defaults for step in rule.ladder] == [Action.OBSERVE] * len(defaults)
    assert policy_of(RULE).rule_for(finding("p1-l0/u0", Condition.LINK_DOWN)) is None


def test_every_rule_and_every_action_has_a_case() -> None:
    """A rule without a case might never apply; the restoring actions follow an action that has one."""
    cases: list[tuple[Condition, int, Severity, Cause | None, float, dict[Action, int]]]
    cases = [(c, n, s, None, 10, {}) for c, n, s, _ in POLICY_CASES]
    cases += [(Condition.CONGESTION_PFC_STORM, 1, Severity.WARNING, cause, 10, {}) for cause, _ in CAUSE_CASES]
    cases += [(c, 2, Severity.CRITICAL, cause, t, attempts) for c, cause, t, attempts, _ in LADDER_CASES]
    reached = [
        DEFAULT_POLICY.action_for(
            finding("p1-l0/u0", c, occurrences=n, severity=s, cause=cause or Cause.UNKNOWN), at(t), attempts
        )
        for c, n, s, cause, t, attempts in cases
    ]
    written = {rule.name for rule in DEFAULT_POLICY.rules if rule.name != rule.condition.slug}
    assert written == {one.rule for one in reached if one}
    actions = {one.action for one in reached if one}
    reversals = {DEFAULT_POLICY.reversals.get(action) for action in actions}
    assert actions | reversals - {None} == set(Action) - {Action.ACTION_UNSPECIFIED}


RULE = '[[rules]]\nname = "mine"\ncondition = "link/flap"\nladder = [{ action = "OBSERVE" }]\n'


def policy_of(text: str) -> Policy:
    return parse_policy(text, "mine.toml")


def test_a_rule_for_a_role_precedes_one_for_all_roles() -> None:
    """The narrower rule applies whatever its place in the file."""
    for_hosts = RULE.replace("mine", "hosts").replace("OBSERVE", "TUNE_CONGESTION") + 'roles = ["host-link"]\n'
    policy = policy_of(for_hosts + RULE)
    uplink, host_link = finding("p1-l0/u0"), finding("p1-h1/e0")
    assert [(rule := policy.rule_for(one)) and rule.name for one in (uplink, host_link)] == ["mine", "hosts"]


def test_before_the_first_step_nothing_is_proposed() -> None:
    """A ladder may begin later."""
    policy = policy_of(RULE.replace('OBSERVE"', 'OBSERVE", after_s = 60'))
    assert policy.action_for(finding("p1-l0/u0"), at(59.9)) is None
    assert policy.action_for(finding("p1-l0/u0"), at(60)) is not None


WRONG_POLICIES = [
    (RULE.replace("OBSERVE", "DRAIN"), "mine.toml: rule mine: ladder.0.action: unknown action 'DRAIN'"),
    (RULE.replace("link/flap", "link/flaps"), "mine.toml: rule mine: condition: unknown condition 'link/flaps'; did you"
     " mean 'link/flap'?"),
    (RULE.replace("\nladder", "\nlader = 1\nladder"), "mine.toml: rule mine: lader: unknown key"),
    (RULE.replace("OBSERVE\"", "OBSERVE\", after = 1"), "mine.toml: rule mine: ladder.0.after: unknown key"),
    (RULE.replace('name = "mine"\n', ""), "mine.toml: rule 1: name: required and not set"),
    (RULE + 'causes = ["optics"]\n', "mine.toml: rule mine: causes.0: unknown cause 'optics'; did you mean 'optic'?"),
    (RULE + 'severity = "HIGH"\n', "mine.toml: rule mine: severity: unknown severity 'HIGH'"),
    (RULE + "occurrences = 0\n", "mine.toml: rule mine: occurrences: must be at least 1"),
    (RULE.replace("OBSERVE", "RESTORE_LINK"), "mine.toml: rule mine: ladder.0: RESTORE_LINK cannot be a step; it"
     " follows a proof ([reversals])"),
    (RULE.replace("OBSERVE", "DRAIN_LINK"), "mine.toml: reversals.DRAIN_LINK: required, because a rule has it"),
    (RULE + RULE, "mine.toml: the rule mine exists twice; rename one"),
    (RULE + RULE.replace("mine", "other"), "mine.toml: the rules mine and other match the same findings; remove one or"
     " narrow it"),
    (RULE + '[reversals]\nDRAIN_LINK = "OBSERVE"\n', "mine.toml: reversals.DRAIN_LINK: OBSERVE brings nothing back; use"
     " RESTORE_LINK or UNCORDON_HOST"),
    (RULE + '[reversals]\nDRAIN_LINK = "UNCORDON_HOST"\n', "mine.toml: reversals.DRAIN_LINK: UNCORDON_HOST is for"
     " another kind of target"),
    (RULE.replace("}]", "}, { action = \"OBSERVE\", after_s = 1 }, { action = \"OBSERVE\" }]"), "mine.toml: rule mine:"
     " after_s of the ladder must not decrease"),
    ("rules = 1", "mine.toml: rules: must be a list"),
    ("", "mine.toml: rules: required and not set"),
    ("rules = [", "cannot parse mine.toml: Invalid value (at end of document)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line"), WRONG_POLICIES, ids=[line for _, line in WRONG_POLICIES])
def test_a_wrong_policy_is_refused_with_the_rule_and_the_field(text: str, line: str) -> None:
    """Each problem is one line that names the file, the rule, the field and the value."""
    with pytest.raises(Misconfigured) as refused:
        policy_of(text)
    lines = str(refused.value).splitlines()
    assert any(one.startswith(line) for one in lines), lines


def test_a_policy_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """The error names the file and the setting."""
    with pytest.raises(Misconfigured, match=r"cannot read .*none\.toml: No such file or directory; set decide\.policy"):
        load_policy(tmp_path / "none.toml")


def test_the_stage_decides_by_a_policy_of_its_own() -> None:
    """The setting `[decide] policy` replaces the default as a whole."""
    stage = Decide(DecideParams(mode="act"), policy_of(RULE))
    stage.set_topology(TOP)
    (decision,) = decisions(stage, finding("p1-l0/u0"))
    assert decision.action is Action.OBSERVE


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
    assert (after(decision.decided_at_ns), after(decision.expires_at_ns)) == (10, 310)
    assert (decision.surviving_capacity_ratio, decision.constraint) == (0.75, "mode" if mode == "shadow" else "")
    assert decision.reason == "it broke (2nd link/flap in 28 days)"
    assert decision.finding_ids == (example.id,)
    assert [o.key for o in outputs if o.topic is REMEDIATIONS_OPEN] == [decision.id]
    assert (
        stage.process([example])
        == stage.process([replace(example, revision=2)])
        == stage.advance_watermark(at(100))
        == []
    )

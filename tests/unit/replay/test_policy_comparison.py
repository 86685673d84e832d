"""Tests the comparison of two policies: the decisions of each, the lowest capacity, and the results in memory."""

from dataclasses import replace
from pathlib import Path

import pytest

from streams.cli.backtest import with_policy
from streams.cli.main import main
from streams.replay.backtest import Recording, run
from streams.replay.policy_comparison import ACTOR, PolicyComparison, PolicyRun
from streams.report.render_backtest import policy_lines
from streams.wire.models import Action, Outcome, Remediation, RemediationState, Subject, Verdict
from tests.recordings import DATA

AT = 1_772_323_200_000_000_000
DRAIN = Remediation(
    "r1", 1, ("f1",), Action.DRAIN_LINK, Verdict.APPROVED, Subject("link:a/1--b/1"), decided_at_ns=AT,
    surviving_capacity_ratio=0.75, state=RemediationState.APPROVED,
)  # fmt: skip
DENIED = replace(DRAIN, id="r2", finding_ids=("f2",), verdict=Verdict.DENIED, constraint="cool-down", decided_at_ns=AT)
OBSERVE = replace(DRAIN, id="r3", finding_ids=("f3",), action=Action.OBSERVE, surviving_capacity_ratio=None)
ONLY_OBSERVE = '[[rules]]\nname = "all"\ncondition = "link/flap"\nladder = [{ action = "OBSERVE" }]\n'


def policy_run(*remediations: Remediation) -> PolicyRun:
    run_ = PolicyRun()
    for remediation in remediations:
        run_.record(remediation)
    return run_


def test_a_decision_counts_once_with_the_verdict_that_it_reached() -> None:
    """Attempts and revisions of one intent are one decision: it was denied at first, and approved in the end."""
    again = replace(DENIED, id="r4", verdict=Verdict.APPROVED, decided_at_ns=AT + 1, surviving_capacity_ratio=0.5)
    revoked = replace(again, verdict=Verdict.REVOKED)
    run_ = policy_run(DRAIN, DENIED, OBSERVE, again, revoked, DENIED)
    assert run_.counts() == {(Action.DRAIN_LINK, Verdict.APPROVED): 2, (Action.OBSERVE, Verdict.APPROVED): 1}
    assert run_.lowest == again


def test_an_approved_action_is_accepted_and_done_once() -> None:
    """Later revisions of it are not orders; what was not approved is not carried out."""
    run_ = PolicyRun()
    results = run_.answers([DRAIN, DENIED, DRAIN, replace(DRAIN, id="r5", state=RemediationState.ACCEPTED)])
    assert [(r.remediation_id, r.outcome, r.actor) for r in results] == [
        ("r1", Outcome.ACCEPTED, ACTOR),
        ("r1", Outcome.DONE, ACTOR),
    ]
    assert run_.answers([DRAIN]) == []


def test_the_text_has_counts_the_lowest_capacity_and_the_differences() -> None:
    """A decision that differs is one line: from the other policy to the first."""
    comparison = PolicyComparison(policy_run(DRAIN, OBSERVE), policy_run(OBSERVE, DENIED))
    assert list(policy_lines(comparison)) == [
        "action            verdict           policy  against",
        "OBSERVE           APPROVED               1        1",
        "DRAIN_LINK        APPROVED               1        0",
        "DRAIN_LINK        DENIED                 0        1",
        "lowest capacity with policy: 75.0% after DRAIN_LINK link:a/1--b/1 at 2026-03-01 00:00:00Z",
        "lowest capacity with against: no action takes capacity",
        "2026-03-01 00:00:00Z  DRAIN_LINK        link:a/1--b/1  nothing -> APPROVED",
        "2026-03-01 00:00:00Z  DRAIN_LINK        link:a/1--b/1  DENIED (cool-down) -> nothing",
    ]
    assert comparison.as_dict()["differences"] == 2
    assert comparison.as_dict()["policy"]["lowest_capacity"] == 0.75


def test_one_policy_alone_has_no_differences() -> None:
    """Without --against only its decisions are counted."""
    comparison = PolicyComparison(policy_run(DRAIN))
    assert comparison.differences() == []
    assert next(iter(policy_lines(comparison))).split() == ["action", "verdict", "policy"]


def test_a_policy_that_cannot_be_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before any history is read: one line, exit 2."""
    with pytest.raises(SystemExit) as ended:
        main(["backtest", "--samples", "x.csv", "--inventory", str(tmp_path), "--out", "o", "--policy", "none.toml"])
    assert ended.value.code == 2
    assert "cannot read none.toml" in capsys.readouterr().err


def test_both_policies_decide_the_same_findings(tmp_path: Path) -> None:
    """A recording of a link that flaps: the default policy reaches at least each finding of one that observes."""
    folder = DATA / "timeseries/clos-100g-flapper"
    if not folder.is_dir():
        pytest.skip(f"no recording in {folder}; set RAILSIGHT_DATA to their folder")
    policy = tmp_path / "observe.toml"
    policy.write_text(ONLY_OBSERVE)
    source = Recording((folder / "samples.csv.gz",), (), None, None, None, folder / "inventory")
    observing = with_policy(None, policy)
    default = observing.model_copy(update={"decide": observing.decide.model_copy(update={"policy": None})})
    summary = run(source, default, tmp_path / "out", observing, policies=True)
    assert summary.policies is not None and summary.policies.second is not None
    assert {action for action, _ in summary.policies.second.counts()} <= {Action.OBSERVE}
    assert summary.policies.second.lowest is None
    findings = {intent[0] for intent in summary.policies.second.decisions}
    assert findings <= {intent[0] for intent in summary.policies.first.decisions}
    assert findings

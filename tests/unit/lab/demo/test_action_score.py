"""The score of actions: it is computed from the truth about bad links, and each of its three numbers can fail."""

from dataclasses import replace

import pytest

from lab.demo.report import ActionScore, BadLinkTruth, build_report, score_actions
from lab.demo.state import DemoState
from streams.decide.policy import load_policy
from streams.fabric.ids import Port
from streams.replay.score import Score
from streams.wire.models import Action, Endpoint, Remediation, Subject, Verdict
from streams.wire.models import RemediationState as State
from tests.fixtures.findings import NS

END_NS = 300 * NS
BAD = BadLinkTruth(Port("leaf1", "e1"), Port("spine1", "e1"), 100 * NS, None, END_NS, (100 * NS, 150 * NS))


def drain(state: State, at_s: int, *, leaf: str = "leaf1", identity: str = "d1", revision: int = 1) -> Remediation:
    """Return a revision of the drain of a leaf's first uplink."""
    target = Subject(f"link:{leaf}/e1--spine1/e1", Endpoint(leaf, "e1"), Endpoint("spine1", "e1"))
    return Remediation(
        identity, revision, ("f1",), Action.DRAIN_LINK, Verdict.APPROVED, target, decided_at_ns=at_s * NS, state=state
    )


def scored(*revisions: Remediation, truth: BadLinkTruth = BAD) -> ActionScore:
    """Return the score under the default policy, which drains a link at its second flap."""
    return score_actions(revisions, [truth], load_policy(None))


def counts(score: ActionScore) -> tuple[int, int, int]:
    """Return the numbers of right, wrong and missing actions."""
    return len(score.right), len(score.wrong), len(score.missing)


def test_a_drain_of_a_bad_link_is_right() -> None:
    """Each remediation counts once, although it has several revisions."""
    first = drain(State.DRAINED, 160)
    assert counts(scored(first, drain(State.VERIFYING, 170, revision=2), replace(first, revision=3))) == (1, 0, 0)


def test_a_drain_of_a_sound_link_is_wrong_and_fails_the_demo() -> None:
    """The report names the drain; the bad link is missing as well."""
    score = scored(drain(State.DRAINED, 160, leaf="leaf2"))
    assert counts(score) == (0, 1, 1)
    report = build_report(DemoState(0.0), Score((), (), ()), (), (), score)
    assert not report.is_passed
    lines = "\n".join(report.lines())
    assert "actions: 0 right, 1 wrong, 1 missing" in lines
    assert "wrong: d1 drained link:leaf2/e1--spine1/e1" in lines
    assert "missing: leaf1/e1 -- spine1/e1" in lines


@pytest.mark.parametrize(("at_s", "expected"), [(99, (0, 1, 0)), (199, (1, 0, 0)), (200, (0, 1, 0))])
def test_a_drain_before_the_part_is_bad_or_after_its_repair_is_wrong(at_s: int, expected: tuple[int, int, int]) -> None:
    """A link that was cured needs no remediation at the end."""
    assert counts(scored(drain(State.DRAINED, at_s), truth=replace(BAD, cured_ns=200 * NS))) == expected


def test_a_bad_link_without_a_remediation_is_missing() -> None:
    """No decision at all, or only one that is over."""
    assert counts(scored()) == (0, 0, 1)
    assert counts(scored(drain(State.CLOSED, 290))) == (0, 0, 1)
    assert counts(scored(drain(State.SHADOW, 290))) == (0, 0, 1)


@pytest.mark.parametrize("state", [State.WAITING, State.DENIED, State.ESCALATED])
def test_a_decision_that_a_person_sees_is_not_missing(state: State) -> None:
    """It drains nothing, and its reason is shown; it is no right action either."""
    assert counts(scored(drain(state, 160))) == (0, 0, 0)


@pytest.mark.parametrize("state", [State.APPROVED, State.ACCEPTED, State.FAILED, State.NO_ANSWER])
def test_a_drain_that_automation_never_carries_out_is_missing(state: State) -> None:
    """Without automation nothing is drained; only a decision of the last 20 s may still be answered."""
    assert counts(scored(drain(state, 160))) == (0, 0, 1)
    assert counts(scored(drain(state, 281))) == (0, 0, 0)


def test_what_the_policy_only_observes_is_not_missing() -> None:
    """The first flap is observed; a second one too close to the end may not be decided yet."""
    assert counts(scored(truth=replace(BAD, episodes=(100 * NS,)))) == (0, 0, 0)
    assert counts(scored(truth=replace(BAD, episodes=(100 * NS, 281 * NS)))) == (0, 0, 0)
    assert counts(scored(truth=replace(BAD, episodes=(100 * NS, 280 * NS)))) == (0, 0, 1)

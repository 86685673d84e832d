"""Tests which repair step comes next, by hand-computed scores."""

import pytest

from streams.decide import repair_steps
from streams.decide.repair_steps import ORDER, RepairCounts, StepCount, hint
from streams.wire.models import Action, Cause, Remediation, RepairOutcome, RepairStep, Subject, Verdict

CLEAN, TRANSCEIVER, CABLE, PORT = ORDER


def outcome(
    step: RepairStep,
    result: RepairOutcome,
    cause: Cause = Cause.UNKNOWN,
    part: str = "PN1",
    identity: str = "r1",
) -> Remediation:
    return Remediation(
        identity, 1, ("f",), Action.DRAIN_LINK, Verdict.APPROVED, Subject("link:a--b"), cause=cause, part_number=part,
        repair_outcome=result, outcome_step=step,
    )  # fmt: skip


def counted(*outcomes: Remediation) -> RepairCounts:
    counts = RepairCounts()
    for one in outcomes:
        counts.record(one)
    return counts


HELPED, NOT, BACK = RepairOutcome.HELPED, RepairOutcome.NOT_QUALIFIED, RepairOutcome.RELAPSED


def test_without_counts_the_steps_come_in_the_order_of_corropt() -> None:
    """Clean, transceiver, cable, port; a cause that names a part begins with it."""
    counts = RepairCounts()
    for cause, steps in ((Cause.UNKNOWN, ORDER), (Cause.OPTIC, ORDER[1:]), (Cause.CABLE, ORDER[2:])):
        tried: list[RepairStep] = []
        while (step := counts.choose(cause, "PN1", tried)) is not None:
            tried.append(step)
        assert tuple(tried) == steps


def test_a_step_that_failed_for_the_part_gives_way_to_the_next() -> None:
    """Clean: (0 + 2) / (1 + 4) = 0.4 equals the prior of the transceiver and stays first; 2 / 6 does not."""
    once, twice = counted(outcome(CLEAN, NOT)), counted(outcome(CLEAN, NOT), outcome(CLEAN, BACK))
    assert once.choose(Cause.UNKNOWN, "PN1") is CLEAN
    assert twice.choose(Cause.UNKNOWN, "PN1") is TRANSCEIVER


def test_a_step_that_helped_comes_first() -> None:
    """Cable: (3 + 4 x 0.3) / (3 + 4) = 0.6 is more than 0.5 of cleaning; one success, 2.2 / 5 = 0.44, is not."""
    assert counted(*[outcome(CABLE, HELPED)] * 3).choose(Cause.UNKNOWN, "PN1") is CABLE
    assert counted(outcome(CABLE, HELPED)).choose(Cause.UNKNOWN, "PN1") is CLEAN


def test_counts_of_another_part_or_cause_change_nothing() -> None:
    """Each pair of cause and part number has its own counts."""
    counts = counted(*[outcome(PORT, HELPED)] * 9)
    assert counts.choose(Cause.UNKNOWN, "PN1") is PORT
    assert counts.choose(Cause.UNKNOWN, "PN2") is CLEAN
    assert counts.choose(Cause.NIC, "PN1") is CLEAN


def test_a_cheaper_step_comes_into_question_for_a_named_part_if_it_helped() -> None:
    """An optic whose cleaning helped 2 of 2 times, (2 + 0.8) / 6 = 0.47, is first cleaned; else never."""
    assert counted(*[outcome(CLEAN, HELPED, Cause.OPTIC)] * 2).choose(Cause.OPTIC, "PN1") is TRANSCEIVER
    assert counted(*[outcome(CLEAN, HELPED, Cause.OPTIC)] * 4).choose(Cause.OPTIC, "PN1") is CLEAN
    assert RepairCounts().choose(Cause.OPTIC, "PN1", ORDER[1:]) is None


def test_the_hint_shows_the_counts() -> None:
    """People see how often the step helped; without counts only the step."""
    counts = counted(*[outcome(CLEAN, HELPED)] * 4, outcome(CLEAN, BACK), outcome(CLEAN, NOT))
    text = hint(CLEAN, "PN1", counts.count(Cause.UNKNOWN, "PN1", CLEAN))
    assert text == "clean and reseat both ends (helped 4 of 6 times for this cause and part PN1)"
    assert hint(CABLE, "PN1", StepCount()) == "replace the cable"
    assert hint(RepairStep.STEP_UNSPECIFIED, "", StepCount()) == ""


def test_a_revision_without_an_outcome_or_a_step_counts_nothing() -> None:
    """Repairs of hosts have no step, and most revisions reveal no outcome."""
    none = RepairOutcome.REPAIR_OUTCOME_UNSPECIFIED
    assert counted(outcome(CLEAN, none), outcome(RepairStep.STEP_UNSPECIFIED, HELPED)).groups == {}


def test_the_least_used_group_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory is bounded: of groups with equally few repairs the oldest is dropped, never the newest."""
    monkeypatch.setattr(repair_steps, "MAX_GROUPS", 2)
    counts = counted(
        outcome(CLEAN, HELPED, part="A"), outcome(CLEAN, HELPED, part="A"), outcome(CLEAN, HELPED, part="B"),
        outcome(CLEAN, HELPED, part="C"),
    )  # fmt: skip
    assert (list(counts.groups), counts.dropped) == (["unknown/A", "unknown/C"], 1)


def test_counts_are_recovered_from_published_revisions() -> None:
    """A repeated revision of the same outcome counts once."""
    history = [
        outcome(CLEAN, NOT),
        outcome(CLEAN, NOT),
        outcome(TRANSCEIVER, HELPED),
        outcome(CLEAN, HELPED, identity="r2"),
    ]
    counts = RepairCounts()
    counts.recover(history)
    assert counts.count(Cause.UNKNOWN, "PN1", CLEAN) == StepCount(1, 2)
    assert counts.count(Cause.UNKNOWN, "PN1", TRANSCEIVER) == StepCount(1, 1)

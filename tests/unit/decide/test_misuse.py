"""Each record and each change that must not lead to an action, or must not block one for ever, through the stage."""

import math
from dataclasses import replace

import pytest

from streams.decide.stage import Decide
from streams.fabric.topology import Topology
from streams.wire.models import (
    Action,
    Condition,
    Control,
    ControlKind,
    Coverage,
    Endpoint,
    Outcome,
    Remediation,
    Severity,
    Subject,
)
from streams.wire.models import RemediationState as State
from streams.wire.stage import Output
from tests.fixtures.decide_stage import (
    NO_CAPS,
    TOP,
    accept,
    answer,
    carry_out,
    deciding,
    decisions,
    finding,
    out_of_service,
    readings,
    remediations,
    sound,
)
from tests.worlds.observations import at
from tests.worlds.small_fabric import inventory, topology

PORT = "p1-l0/u0"
LINK = next(link for link in TOP.links.values() if ("p1-l0", "u0") in (link.lower, link.upper))


def successor(stage: Decide) -> Decide:
    """Return the stage of the next owner, with the state of the snapshot."""
    following = deciding(states=False, loaded=False)
    following.restore(stage.snapshot())
    following.start_epoch(2)
    following.set_topology(TOP)
    return following


def drained(stage: Decide, t: float, began: float = 0) -> Remediation:
    """Return the drain of a link that automation carried out."""
    (drain,) = [one for one in decisions(stage, finding(PORT, t=began), t=t) if one.state is State.APPROVED]
    assert [one.state for one in carry_out(stage, drain)][-1] is State.DRAINED
    remediations(stage.advance_watermark(at(t + 1)))
    return drain


def repaired(subject: str, t: float | None) -> Control:
    return Control("fixed", ControlKind.REPAIRED, subject, None if t is None else at(t), actor="anna")


def restored_once(stage: Decide, report: Control) -> Remediation:
    """Return the second drain of a link, whose first one ended by a report of its repair, and whose fault is back."""
    first = drained(stage, 10)
    assert [one.state for one in remediations(stage.process([report])) if one.id == first.id] == [State.VERIFYING]
    stage.process(sound(LINK.id, 0, 1020))
    (restore,) = [one for one in remediations(stage.advance_watermark(at(1020))) if one.action is Action.RESTORE_LINK]
    carry_out(stage, restore)
    return drained(stage, 1100, began=1050)


@pytest.mark.parametrize("clock_ahead", [0, 7200])
def test_a_report_of_a_repair_does_not_count_for_the_next_drain_of_its_target(clock_ahead: float) -> None:
    """A successor reads all controls again; one that names the target, by a clock that was ahead, counted once more."""
    report = repaired(LINK.id, 12 + clock_ahead)
    stage = deciding(**NO_CAPS)
    second = restored_once(stage, report)
    following = successor(stage)
    found = remediations([*following.recover([report]), *following.advance_watermark(at(1102))])
    assert [one.state for one in found if one.id == second.id] == []
    assert remediations(following.process([report])) == []


def test_a_report_of_a_repair_by_target_needs_a_time() -> None:
    """Without one it may be older than the drain; by the id of the remediation it is unmistakable."""
    stage = deciding()
    drain = drained(stage, 10)
    assert remediations(stage.process([repaired(LINK.id, None)])) == []
    found = remediations(stage.process([replace(repaired(drain.id, None), id="other")]))
    assert found[-1].state is State.VERIFYING


def test_a_report_by_target_does_not_count_after_the_state_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage cannot know any more for which drain of the target it was."""
    report = repaired(LINK.id, 12 + 7200)
    published: list[Remediation] = []
    stage = deciding(**NO_CAPS)
    process, advance = stage.process, stage.advance_watermark
    monkeypatch.setattr(stage, "process", lambda batch: [_noted(published, one) for one in process(batch)])
    monkeypatch.setattr(stage, "advance_watermark", lambda t: [_noted(published, one) for one in advance(t)])
    second = restored_once(stage, report)
    following = deciding(loaded=False)
    following.start_epoch(2)
    found = remediations([*following.recover([*published, report]), *following.advance_watermark(at(1102))])
    assert State.VERIFYING not in [one.state for one in found if one.id == second.id]


def _noted(published: list[Remediation], output: Output) -> Output:
    published += remediations([output])
    return output


def test_a_failed_drain_of_a_relapse_has_a_cool_down() -> None:
    """Only the first drain of a relapse skips it; no answer shortens it for the next attempt."""
    stage = deciding(**NO_CAPS)
    first = drained(stage, 10)
    stage.process([repaired(first.id, 12)])
    stage.process(sound(LINK.id, 0, 1020))
    (restore,) = [one for one in remediations(stage.advance_watermark(at(1020))) if one.action is Action.RESTORE_LINK]
    carry_out(stage, restore)
    (drain,) = [one for one in decisions(stage, finding(PORT, t=1050), t=1100) if one.state is State.APPROVED]
    accept(stage, drain)
    assert [one.state for one in remediations(stage.process([answer(drain, Outcome.FAILED)]))] == [State.FAILED]
    assert remediations(stage.advance_watermark(at(1200))) == []
    (again,) = [one for one in remediations(stage.advance_watermark(at(1710))) if one.state is State.APPROVED]
    assert again.attempt == drain.attempt + 1


def without_link() -> Topology:
    """Return the fabric without the link."""
    own = inventory()
    links = tuple(one for one in own.links if (one.a_device, one.a_port) != ("p1-l0", "u0"))
    assert len(links) == len(own.links) - 1
    return topology(replace(own, links=links))


@pytest.mark.parametrize("is_repaired", [False, True])
def test_a_drained_link_that_leaves_the_inventory_waits_for_a_person(is_repaired: bool) -> None:
    """It cannot qualify, whatever the other links of its device show; a person ends it, and it counts no longer."""
    stage = deciding(**NO_CAPS)
    drain = drained(stage, 10)
    if is_repaired:
        stage.process([repaired(drain.id, 12)])
    stage.set_topology(without_link())
    for link in TOP.uplinks_of["p1-l0"]:
        stage.process(sound(link.id, 0, 1020))
    found = remediations(stage.advance_watermark(at(1020)))
    assert [one.state for one in found if one.id == drain.id] == [State.ESCALATED]
    assert Action.RESTORE_LINK not in [one.action for one in found]
    assert LINK.id in out_of_service(stage)
    found = remediations(stage.process([Control("over", ControlKind.REJECT, drain.id, at(1021), actor="anna")]))
    assert [one.state for one in found if one.id == drain.id] == [State.CLOSED]
    assert LINK.id not in out_of_service(stage)


def test_a_cordon_is_revoked_if_its_finding_moves_to_another_host() -> None:
    """The guards would otherwise evaluate jobs, freshness and controls of the other host."""
    stage = deciding(**NO_CAPS)
    opened = finding("p1-h1", Condition.HOST_GPU_FAULT, severity=Severity.CRITICAL)
    (cordon,) = decisions(stage, opened)
    assert (cordon.action, cordon.state) == (Action.CORDON_HOST, State.WAITING)
    moved = replace(opened, revision=2, subject=Subject("device:p1-h2", Endpoint("p1-h2")))
    stage.process([moved])
    (found,) = remediations(
        stage.process([Control("yes", ControlKind.APPROVE, cordon.id, at(11), at(3600), actor="anna")])
    )
    assert (found.state, found.constraint) == (State.DENIED, "inventory")


@pytest.mark.parametrize("confidence", [math.nan, -0.1, 1.1, math.inf, None])
def test_a_confidence_that_is_impossible_is_unknown(confidence: float | None) -> None:
    """It denies, as an absent one does; a person cannot know more than the detector."""
    (found,) = decisions(deciding(), finding(PORT, confidence=confidence))
    assert (found.state, found.constraint) == (State.DENIED, "confidence")


@pytest.mark.parametrize(
    "coverage", [None, Coverage(), Coverage(2), Coverage(None, 2), Coverage(3, 2), Coverage(0, 0), Coverage(-1, 2)]
)
def test_a_coverage_that_is_absent_or_impossible_is_unknown(coverage: Coverage | None) -> None:
    """A person may approve, who knows the other end."""
    (found,) = decisions(deciding(), finding(PORT, coverage=coverage))
    assert (found.state, found.constraint) == (State.WAITING, "unknown coverage")


def test_readings_of_a_time_that_never_was_are_no_proof() -> None:
    """A clock that was ahead, and is corrected at a restart: the link's later faults must not be left out."""
    stage = deciding()
    drain = drained(stage, 10)
    stage.process([repaired(drain.id, 12)])
    stage.process(sound(LINK.id, 0, 9000))
    following = successor(stage)
    following.limit_time(at(100))
    following.recover([])
    faulty = [readings(LINK.lower.device, LINK.lower.port, n, n + 60, errors=5) for n in range(100, 1300, 60)]
    found = remediations([*following.process(faulty), *following.advance_watermark(at(1300))])
    assert Action.RESTORE_LINK not in [one.action for one in found]


def test_a_denied_decision_gets_its_turn_behind_many_worse_ones() -> None:
    """More than are evaluated at once stay denied; the one whose limit ends is approved."""
    stage = deciding(**{**NO_CAPS, "actions_per_hour": 1000})
    stage.process([Control("out", ControlKind.EXCLUDE, "device:p2-l0", at(0), actor="anna", endless=True)])
    stage.process([Control("too", ControlKind.EXCLUDE, LINK.id, at(0), actor="anna", endless=True)])
    worse = [replace(finding("p2-l0/u0", severity=Severity.CRITICAL), id=f"worse-{number:03}") for number in range(250)]
    found = decisions(stage, *worse, finding(PORT))
    assert {one.state for one in found} == {State.DENIED}
    stage.process([Control("too", ControlKind.KIND_UNSPECIFIED)])
    approved = []
    for t in range(20, 60, 10):
        approved += [one for one in remediations(stage.advance_watermark(at(t))) if one.state is State.APPROVED]
    assert [one.target.id for one in approved] == [LINK.id]

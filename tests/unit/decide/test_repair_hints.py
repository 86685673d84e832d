"""Tests that remediations show what helped before for their cause and part number."""

import base64
from collections.abc import Sequence
from typing import Any

import cramjam
import pytest

from streams.decide.fabric_view import ModuleParts
from streams.decide.stage import Decide
from streams.wire.errors import Reject
from streams.wire.models import (
    Action,
    Cause,
    PortModules,
    Remediation,
    RepairOutcome,
    RepairStep,
    Source,
)
from streams.wire.models import RemediationState as State
from tests.fixtures.decide_stage import (
    TOP,
    carry_out,
    deciding,
    decisions,
    finding,
    readings,
    remediations,
    sound,
    state_of,
)
from tests.worlds.observations import at

SETTINGS: dict[str, Any] = {
    "isolation_budget": 100,
    "actions_per_hour": 1000,
    "fabric_cap_ratio": 1,
    "pod_cap_ratio": 1,
}
CLEAN, TRANSCEIVER = RepairStep.CLEAN_RESEAT, RepairStep.REPLACE_TRANSCEIVER


def modules(device: str, part: str, t: float = 0) -> PortModules:
    ports = tuple(end.port for link in TOP.links_of[device] for end in (link.lower, link.upper) if end.device == device)
    return PortModules(device, Source.SOURCE_GNMI, at(t), ports, (part,) * len(ports))


def drained(stage: Decide, t: float) -> tuple[Remediation, Remediation]:
    opened = finding("p1-l0/u0", t=t - 10, cause=Cause.UNKNOWN)
    (drain,) = [r for r in decisions(stage, opened, t=t) if r.action is Action.DRAIN_LINK]
    carry_out(stage, drain)
    (repair,) = [r for r in remediations(stage.advance_watermark(at(t + 1))) if r.action is Action.REPAIR_LINK]
    return drain, repair


def helped(stage: Decide, t: float) -> list[Remediation]:
    """Return the revisions of a drain that is repaired, qualifies, is restored and ends its probation."""
    drain, repair = drained(stage, t)
    found = carry_out(stage, repair)
    stage.process(sound(drain.target.id, t - 10, t + 1000))
    *more, restore = remediations(stage.advance_watermark(at(t + 1001)))
    found += [*more, *carry_out(stage, restore), *remediations(stage.advance_watermark(at(t + 4700)))]
    return [revision for revision in found if revision.id == drain.id]


def test_a_repair_that_helped_is_counted_and_shown_the_next_time() -> None:
    """The outcome is on the last revision only; the next drain of the same part has the count 1 of 1."""
    stage = deciding(**SETTINGS)
    stage.process([modules("p1-l0", "PN1")])
    revisions = helped(stage, 10)
    assert [r.repair_outcome for r in revisions if r.repair_outcome] == [RepairOutcome.HELPED]
    assert (revisions[-1].state, revisions[-1].outcome_step, revisions[-1].part_number) == (State.CLOSED, CLEAN, "PN1")
    drain, repair = drained(stage, 10_000)
    assert (drain.step_helped, drain.step_tried, drain.part_number) == (1, 1, "PN1")
    text = "clean and reseat both ends (helped 1 of 1 times for this cause and part PN1)"
    assert drain.repair_hint.endswith(f"; first: {text}")
    assert (repair.repair_hint, repair.repair_step) == (text, CLEAN)


def test_a_step_that_did_not_qualify_is_counted_against_its_part() -> None:
    """The revision that reveals it has the step that was tried as outcome, and the next step as hint."""
    stage = deciding(**SETTINGS)
    drain, repair = drained(stage, 10)
    carry_out(stage, repair)
    stage.process([readings("p1-l0", "u0", 11, 71, errors=5)])
    moved, again = remediations(stage.advance_watermark(at(3611)))
    assert (moved.repair_outcome, moved.outcome_step, moved.repair_step) == (
        RepairOutcome.NOT_QUALIFIED, CLEAN, TRANSCEIVER,
    )  # fmt: skip
    assert (again.repair_outcome, again.repair_step) == (RepairOutcome.REPAIR_OUTCOME_UNSPECIFIED, TRANSCEIVER)
    assert state_of(stage)["repairs"]["groups"] == {"unknown/": {"CLEAN_RESEAT": {"helped": 0, "tried": 1}}}
    assert (moved.id, moved.state) == (drain.id, State.DRAINED)


def test_a_relapse_is_counted_against_the_step_that_was_done() -> None:
    """The next attempt names the next step."""
    stage = deciding(**SETTINGS)
    drain, repair = drained(stage, 10)
    carry_out(stage, repair)
    stage.process(sound(drain.target.id, 0, 1010))
    *_, restore = remediations(stage.advance_watermark(at(1011)))
    carry_out(stage, restore)
    found = decisions(stage, finding("p1-l0/u0", t=1100, cause=Cause.UNKNOWN), t=1110)
    ended = [r for r in found if r.id == drain.id]
    assert [(r.repair_outcome, r.outcome_step) for r in ended] == [(RepairOutcome.RELAPSED, CLEAN)]
    (attempt,) = [r for r in found if r.action is Action.DRAIN_LINK and r.id != drain.id]
    assert (attempt.repair_step, attempt.repair_hint) == (TRANSCEIVER, "replace the transceiver")


def test_counts_and_parts_survive_a_snapshot_and_the_loss_of_the_state() -> None:
    """A snapshot has both; without one the counts are read from the published remediations."""
    stage = deciding(**SETTINGS)
    stage.process([modules("p1-l0", "PN1")])
    history = helped(stage, 10)
    again = deciding(loaded=False, **SETTINGS)
    again.restore(stage.snapshot())
    again.set_topology(TOP)
    again.recover([])
    assert state_of(again)["repairs"] == state_of(stage)["repairs"]
    (drain,) = decisions(again, finding("p1-l0/u0", t=10_000, cause=Cause.UNKNOWN), t=10_010)
    assert (drain.step_helped, drain.step_tried, drain.part_number) == (1, 1, "PN1")
    lost = deciding(loaded=False, **SETTINGS)
    lost.recover(history)
    assert state_of(lost)["repairs"]["groups"] == state_of(stage)["repairs"]["groups"]


ONE_END = (modules("p1-l0", "PN1", t=5), modules("p1-l0", "PN0", t=4))


@pytest.mark.parametrize(
    ("read", "part"),
    [
        ((), ""),
        (ONE_END, "PN1"),
        ((*ONE_END, modules("s1", "PN1")), "PN1"),
        ((*ONE_END, modules("s1", "PN1"), modules("s1", "PN2", t=1)), "PN1 + PN2"),
    ],
)
def test_the_part_number_of_a_link_names_both_ends_if_they_differ(read: Sequence[PortModules], part: str) -> None:
    """Older modules of a source change nothing; an unknown end has none."""
    stage = deciding()
    stage.process(read)
    (drain,) = decisions(stage, finding("p1-l0/u0"))
    assert drain.part_number == part


@pytest.mark.parametrize("data", ["?", "AAAA", base64.b64encode(cramjam.zstd.compress(b"[[], [[1]]]")).decode()])
def test_a_damaged_state_of_modules_is_refused(data: str) -> None:
    """The snapshot is refused as a whole, and the input is read again; an empty state has no devices."""
    with pytest.raises(Reject, match="state of modules"):
        ModuleParts().load(data)
    empty = ModuleParts()
    empty.load(ModuleParts().dump())
    assert empty.dump() == ModuleParts().dump()

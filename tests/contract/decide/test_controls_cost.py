"""Tests the cost of many controls as a number of calls: 100,000 controls must be read in 10 s.

At 76 calls a control, 100,000 of them took 2 s of one core (2026-11).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from streams.decide.stage import Decide
from streams.wire.models import Control, ControlKind, RemediationState
from tests.fixtures.call_counting import counting
from tests.fixtures.decide_stage import deciding, decisions, finding
from tests.worlds.observations import at

CALLS = 90
"""Calls a control; it was proportional to the number of controls while an approval was open."""

BATCH = 500


def controls(count: int) -> list[Control]:
    """Return exclusions and maintenances of two subjects that no approval concerns."""
    kinds = ((ControlKind.EXCLUDE, "device:p2-h1"), (ControlKind.MAINTENANCE, "port:p2-l0/u1"))
    return [
        Control(
            f"c{number}", *kinds[number % 2], at(11), actor="anna", endless=True, sent_at_ns=at(11),
            arrived_at_ns=at(11), offset=number,
        )
        for number in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("count", [2_000, 8_000])
@pytest.mark.parametrize("at_takeover", [False, True])
def test_the_cost_of_a_control_does_not_grow_with_their_number(count: int, at_takeover: bool) -> None:
    """While an approval is open, in the batches of a consumer; and all at once at a takeover."""
    read = controls(count)
    stage = deciding(loaded=False) if at_takeover else with_an_approval()
    with counting() as calls:
        if at_takeover:
            stage.recover(read, read)
        for begin in range(0, 0 if at_takeover else count, BATCH):
            stage.process(read[begin : begin + BATCH])
    assert count < calls.total() <= CALLS * count


def with_an_approval() -> Decide:
    """Return the stage with an open approval."""
    stage = deciding()
    (approved,) = decisions(stage, finding("p1-l0/u0"))
    assert approved.state is RemediationState.APPROVED
    return stage


WAYS: dict[str, Callable[[int], dict[str, Any]]] = {
    "in effect": lambda number: {"at_ns": at(11), "subject_id": f"device:p2-h{number % 2}"},
    "planned": lambda _: {"at_ns": at(9_000), "until_ns": at(9_900)},
    "planned for the approved link": lambda _: {"at_ns": at(9_000), "subject_id": "device:p1-l0"},
    "ended": lambda number: {"until_ns": at(12 + number / 100)},
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_maintenances_that_arrive_one_at_a_time_cost_the_same_each(way: Callable[[int], dict[str, Any]]) -> None:
    """The guards are evaluated after each; the last hundred cost as much as the first, whatever is in effect."""
    stage, costs = with_an_approval(), []
    read = [
        replace(one, kind=ControlKind.MAINTENANCE, subject_id="port:p2-l0/u1", endless=False, until_ns=at(99_000))
        for one in controls(1_600)
    ]
    for begin in range(0, 1_600, 100):
        with counting() as calls:
            for number, one in enumerate(read[begin : begin + 100], begin):
                stage.process([replace(one, **way(number))])
        costs.append(calls.total())
        stage.advance_watermark(at(11 + begin / 100))
    assert costs[-1] < 1.1 * costs[1], costs

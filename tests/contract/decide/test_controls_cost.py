"""Tests the cost of many controls as a number of calls: 100,000 controls must be read in 10 s.

At 76 calls a control, 100,000 of them took 2 s of one core (2026-11).
"""

import pytest

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
    stage, read = deciding(loaded=not at_takeover), controls(count)
    if not at_takeover:
        (approved,) = decisions(stage, finding("p1-l0/u0"))
        assert approved.state is RemediationState.APPROVED
    with counting() as calls:
        if at_takeover:
            stage.recover(read, read)
        for begin in range(0, 0 if at_takeover else count, BATCH):
            stage.process(read[begin : begin + BATCH])
    assert count < calls.total() <= CALLS * count

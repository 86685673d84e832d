"""Tests which findings prove a switch dead, so that its floor denies no drain above it."""

from dataclasses import replace
from typing import Any

import pytest

from streams.wire.models import Cause, Condition
from tests.fixtures.decide_stage import deciding, ended, finding
from tests.worlds.observations import at


@pytest.mark.parametrize(
    ("changes", "t", "is_dead"),
    [
        ({"confidence": 0.9}, 1800, True),
        ({"confidence": 0.9}, 1799, False),
        ({"confidence": 0.8}, 10_000, False),
        ({"confidence": None}, 10_000, False),
        ({"confidence": 1.0, "cause": Cause.REBOOT}, 10_000, False),
        ({"confidence": 0.9, "condition": Condition.TELEMETRY_STALE}, 10_000, False),
    ],
)
def test_a_switch_is_dead_only_by_a_finding_that_is_no_restart_and_lasts(
    changes: dict[str, Any], t: float, is_dead: bool
) -> None:
    """A restart that lasts for minutes exempts no switch from its floor, nor does the report of neighbors only."""
    stage = deciding()
    down = replace(finding("p1-l0", Condition.DEVICE_DOWN), **changes)
    stage.process([down])
    stage.advance_watermark(at(t))
    assert stage._evaluation.context().dead == ({"p1-l0"} if is_dead else set())


@pytest.mark.parametrize("why", ["resolved", "known restart"])
def test_a_switch_is_alive_again_with_the_next_revision(why: str) -> None:
    """The finding ends, or its cause is found to be a restart."""
    stage = deciding()
    down = finding("p1-l0", Condition.DEVICE_DOWN)
    stage.process([down])
    stage.advance_watermark(at(4000))
    assert stage._evaluation.context().dead == {"p1-l0"}
    after = ended(down) if why == "resolved" else replace(down, revision=2, cause=Cause.REBOOT)
    stage.process([after])
    assert stage._evaluation.context().dead == set()

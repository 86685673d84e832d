"""Tests which findings prove a switch dead, so that its floor denies no drain above it."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from streams.decide.controls import Controls
from streams.decide.core import Core
from streams.decide.fabric_view import FabricView
from streams.decide.params import DecideParams
from streams.decide.policy import load_policy
from streams.decide.state import DecideState
from streams.wire.models import Cause, Condition, Finding
from tests.fixtures.decide_stage import ended, finding
from tests.worlds.observations import at


def dead(t: float, *revisions: Finding) -> Collection[str]:
    """Return the devices that are proven dead by revisions of findings."""
    params = DecideParams()
    core = Core(params, load_policy(), FabricView(params), DecideState(at(t)), Controls(), iter(()))
    for revision in revisions:
        core.add_finding(revision)
    return core.context().dead


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
    down = replace(finding("p1-l0", Condition.DEVICE_DOWN), **changes)
    assert dead(t, down) == ({"p1-l0"} if is_dead else set())


@pytest.mark.parametrize("why", ["resolved", "known restart"])
def test_a_switch_is_alive_again_with_the_next_revision(why: str) -> None:
    """The finding ends, or its cause is found to be a restart."""
    down = finding("p1-l0", Condition.DEVICE_DOWN)
    after = ended(down) if why == "resolved" else replace(down, revision=2, cause=Cause.REBOOT)
    assert dead(4000, down) == {"p1-l0"}
    assert dead(4000, down, after) == set()

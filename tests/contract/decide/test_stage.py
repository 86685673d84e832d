"""Tests that the stage decide keeps the guarantees of a stage, in shadow and in act mode."""

from functools import cache
from typing import Literal

import pytest

from streams.decide.params import DecideParams
from streams.decide.stage import Decide
from streams.detect.attribute.stage import Attribute
from streams.fabric.ids import remediation_id
from streams.wire.models import Control, ControlKind, Finding, Outcome, RemediationResult
from streams.wire.topics import FINDINGS
from tests.contract.detect.stage_steps import EVERYTHING, PARAMS, attribute_steps, downstream, world_of
from tests.contract.stage_promises import Case, RepeatPromises, StagePromises, Step
from tests.worlds.observations import at

TOP = world_of(EVERYTHING).topology


@cache
def steps() -> list[Step]:
    """Return the findings of an hour with faults, a kill switch in the middle, and results of all remediations."""
    found = downstream(Attribute(PARAMS), TOP, attribute_steps(EVERYTHING), (FINDINGS,))
    ids = [m.id for step in found if not isinstance(step, int) for m in step if isinstance(m, Finding)]
    results = [
        RemediationResult(remediation_id(i, action, 1), Outcome.DONE, at(800))
        for i in dict.fromkeys(ids)
        for action in ("REPAIR_LINK", "DRAIN_LINK", "RESTORE_LINK")
    ]
    middle = len(found) // 2
    stop = Control("stop", ControlKind.KILL_SWITCH, until_ns=at(900))
    return [*found[:middle], [stop], *found[middle:-1], results, found[-1]]


class TestDecide(StagePromises, RepeatPromises):
    """The stage decide."""

    @pytest.fixture(params=["shadow", "act"])
    def case(self, request: pytest.FixtureRequest) -> Case:
        mode: Literal["shadow", "act"] = request.param
        return Case(mode, lambda: Decide(DecideParams(mode=mode)), TOP, steps())

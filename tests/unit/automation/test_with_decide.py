"""Tests the stage `decide` and the automation together, connected by the JSON of the public topics only."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from streams.decide.stage import Decide
from streams.wire.models import Control, ControlKind, Status
from streams.wire.models import RemediationState as State
from tests.fixtures.automation import Devices, MemoryPlanner
from tests.fixtures.automation_loop import Loop
from tests.fixtures.decide_stage import deciding, ended, finding, sound
from tests.worlds.observations import at

PORT = "p1-l0/u0"


class LinkLoop(Loop):
    """A loop with the settings of a link in memory."""

    def __init__(self, folder: Path, stage: Decide | None = None, devices: Devices | None = None) -> None:
        self.devices = devices or Devices()
        super().__init__(stage or deciding(), folder, MemoryPlanner(self.devices))

    @property
    def out(self) -> set[str]:
        """Return the settings that take the link out of use."""
        return {address for address, value in self.devices.values.items() if value != "in"}


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[LinkLoop]:
    """Yield a loop in which decide acts."""
    with closing(LinkLoop(tmp_path)) as made:
        yield made


async def test_a_link_is_drained_repaired_qualified_and_restored(loop: LinkLoop) -> None:
    """The finding resolves when the link is drained; it returns after a repair and 900 s of proof."""
    loop.stage.process([finding(PORT)])
    await loop.advance(10)
    assert loop.last("DRAIN_LINK") is State.DRAINED and loop.out == {"a policy", "z policy"}
    loop.stage.process([ended(finding(PORT), final=True)])
    await loop.advance(11)
    assert loop.last("REPAIR_LINK") is State.CLOSED and loop.last("DRAIN_LINK") is State.VERIFYING
    assert loop.devices.taken_out == {"a policy": 1, "z policy": 1, "a enabled": 1, "z enabled": 1}
    await loop.advance(800)
    assert loop.out == {"a policy", "z policy"}
    loop.stage.process(sound(loop.target_id, 0, 1000))
    await loop.advance(1000)
    assert loop.last("RESTORE_LINK") is State.CLOSED and loop.last("DRAIN_LINK") is State.PROBATION
    assert loop.out == set()


async def test_a_kill_switch_between_approval_and_acceptance_changes_nothing(loop: LinkLoop) -> None:
    """The guards are evaluated again when automation accepts, and it waits for their result."""
    loop.stage.process([finding(PORT)])
    loop.before_answer = [Control("stop", ControlKind.KILL_SWITCH, "", until_ns=at(9000), actor="anna", reason="storm")]
    await loop.advance(10)
    assert loop.devices.values == {} and loop.devices.taken_out == {}
    assert (("DRAIN_LINK", State.ACCEPTED)) not in loop.states


async def test_a_failed_drain_is_tried_again_with_another_id(loop: LinkLoop) -> None:
    """A drain that the automation undid does not count as one."""
    loop.devices.ignored.add("z policy")
    loop.stage.process([finding(PORT)])
    await loop.advance(10)
    assert loop.last("DRAIN_LINK") is State.FAILED and loop.out == set()
    loop.devices.ignored.clear()
    for t in (700, 1400, 2100):
        await loop.advance(t)
    assert loop.last("DRAIN_LINK") in (State.DRAINED, State.VERIFYING) and loop.out == {"a policy", "z policy"}


async def test_a_retracted_finding_does_not_restore_without_proof(loop: LinkLoop) -> None:
    """A drained link stays out until it is repaired and qualifies."""
    loop.stage.process([finding(PORT)])
    await loop.advance(10)
    loop.stage.process([ended(finding(PORT, status=Status.RETRACTED), final=True)])
    await loop.advance(700)
    assert loop.out >= {"a policy", "z policy"} and "RESTORE_LINK" not in {name for name, _ in loop.states}


async def test_of_two_automations_with_one_actor_one_acts(tmp_path: Path) -> None:
    """Both accept before either is confirmed; the other instance answers FAILED, which has no effect."""
    devices = Devices()
    with (
        closing(LinkLoop(tmp_path / "first", devices=devices)) as first,
        closing(LinkLoop(tmp_path / "second", stage=first.stage, devices=devices)) as second,
    ):
        first.others, second.others = [second], [first]
        first.stage.process([finding(PORT)])
        await first.follow(first.stage.advance_watermark(at(10)))
        await asyncio.gather(first.carry_out(10), second.carry_out(10))
        assert devices.taken_out == {"a policy": 1, "z policy": 1}
        assert first.last("DRAIN_LINK") is State.DRAINED
        assert sorted([*first.outcomes, *second.outcomes]) == ["ACCEPTED", "ACCEPTED", "DONE", "FAILED"]

"""Tests the stage `decide` and the automation together, connected by the JSON of the public topics only."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from railsight_automation.engine import Engine
from railsight_automation.journal import Journal
from railsight_automation.messages import decode_remediation, encode_result

from streams.decide.stage import Decide
from streams.wire import codec
from streams.wire.models import Control, ControlKind, RemediationResult, Status
from streams.wire.models import RemediationState as State
from streams.wire.stage import Output
from streams.wire.topics import REMEDIATIONS, encode
from tests.fixtures.automation import ACTOR, Devices, MemoryPlanner
from tests.fixtures.decide_stage import deciding, ended, finding, remediations, sound
from tests.worlds.observations import at

PORT = "p1-l0/u0"


class Loop:
    """`decide` and automation: each output of the stage reaches the engine, and each answer the stage."""

    def __init__(self, stage: Decide, folder: Path) -> None:
        self.stage = stage
        self.devices = Devices()
        self.states: list[tuple[str, State]] = []
        """Action and state of each published revision."""
        self.target_id = ""
        self.before_answer: list[Control] = []
        self._t = 0.0
        self._due: list[str] = []
        self._journal = Journal(folder / "journal.jsonl")
        self._engine = Engine(self._journal, MemoryPlanner(self.devices), self, ACTOR, lambda: at(self._t), 0.01, 0.01)

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    async def advance(self, t: float) -> None:
        """Advance the time of both, and carry out what is due."""
        self._t = t
        await self.follow(self.stage.advance_watermark(at(t)))
        while self._due:
            await self._engine.carry_out(self._due.pop(0))

    async def follow(self, outputs: Iterable[Output]) -> None:
        """Deliver the remediations of the stage."""
        for remediation in remediations(list(outputs)):
            self.target_id = remediation.target.id
            self.states.append((remediation.action.name, remediation.state))
            value = encode(REMEDIATIONS, remediation).value
            assert value is not None
            await self._engine.observe(decode_remediation(value))
            self._due.append(remediation.id)

    async def send(self, remediation_id: str, outcome: str, detail: str, prior_values: Mapping[str, str]) -> None:
        """Deliver an answer of the automation, after the controls of an operator."""
        controls, self.before_answer = self.before_answer, []
        await self.follow(self.stage.process(controls))
        data = encode_result(remediation_id, outcome, ACTOR, detail, prior_values, at(self._t))
        await self.follow(self.stage.process([codec.from_json(RemediationResult, data)]))

    @property
    def out(self) -> set[str]:
        """Return the settings that take the link out of use."""
        return {address for address, value in self.devices.values.items() if value != "in"}

    def last(self, action: str) -> State:
        """Return the state of the newest revision of an action."""
        return next(state for name, state in reversed(self.states) if name == action)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    """Yield a loop in which decide acts."""
    with closing(Loop(deciding(), tmp_path)) as made:
        yield made


async def test_a_link_is_drained_repaired_qualified_and_restored(loop: Loop) -> None:
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


async def test_a_kill_switch_between_approval_and_acceptance_changes_nothing(loop: Loop) -> None:
    """The guards are evaluated again when automation accepts, and it waits for their result."""
    loop.stage.process([finding(PORT)])
    loop.before_answer = [Control("stop", ControlKind.KILL_SWITCH, "", until_ns=at(9000), actor="anna", reason="storm")]
    await loop.advance(10)
    assert loop.devices.values == {} and loop.devices.taken_out == {}
    assert (("DRAIN_LINK", State.ACCEPTED)) not in loop.states


async def test_a_failed_drain_is_tried_again_with_another_id(loop: Loop) -> None:
    """What the automation undid is not counted as drained."""
    loop.devices.ignored.add("z policy")
    loop.stage.process([finding(PORT)])
    await loop.advance(10)
    assert loop.last("DRAIN_LINK") is State.FAILED and loop.out == set()
    loop.devices.ignored.clear()
    for t in (700, 1400, 2100):
        await loop.advance(t)
    assert loop.last("DRAIN_LINK") in (State.DRAINED, State.VERIFYING) and loop.out == {"a policy", "z policy"}


async def test_a_retracted_finding_does_not_restore_without_proof(loop: Loop) -> None:
    """A drained link stays out until it is repaired and qualifies."""
    loop.stage.process([finding(PORT)])
    await loop.advance(10)
    loop.stage.process([ended(finding(PORT, status=Status.RETRACTED), final=True)])
    await loop.advance(700)
    assert loop.out >= {"a policy", "z policy"} and "RESTORE_LINK" not in {name for name, _ in loop.states}

"""What every stage promises, as tests that any stage can be run through.

    class TestMeasure(StagePromises, RepeatPromises):
        @pytest.fixture(params=[Case("flap", lambda: Measure(params), topology, steps)], ids=str)
        def case(self, request: pytest.FixtureRequest) -> Case: ...

A case is a stage and what it is told: batches of messages, and times that it is advanced to. At least one case of a
stage must make it say something, or its promises are empty.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest

from streams.fabric.topology import Topology
from streams.wire import topics
from streams.wire.errors import Reject
from streams.wire.models import IDLE_NS, Finding, Message, Remediation
from streams.wire.stage import Output, Stage

Step = Sequence[Message] | int
"""A batch to process, or a time to advance to."""


@dataclass(frozen=True)
class Case:
    """A stage, and what it is told."""

    name: str
    make: Callable[[], Stage]
    topology: Topology
    steps: Sequence[Step]

    def __str__(self) -> str:
        return self.name

    def begun(self, epoch: int = 1, state: bytes | None = None) -> Stage:
        """A stage that took over under an epoch."""
        stage = self.make()
        stage.start_epoch(epoch)
        if state is not None:
            stage.restore(state)
        stage.set_topology(self.topology)
        return stage

    @cached_property
    def ended(self) -> tuple[list[Output], Stage]:
        """All that it says, and the stage in its end; a test that goes on with a stage makes its own."""
        stage = self.begun()
        return all_told(stage, self.steps), stage

    @property
    def said(self) -> list[Output]:
        """All that it says."""
        return self.ended[0]


def told(stage: Stage, step: Step) -> list[Output]:
    """Tell a stage one thing."""
    return stage.advance_watermark(step) if isinstance(step, int) else stage.process(step)


def all_told(stage: Stage, steps: Sequence[Step]) -> list[Output]:
    """Tell a stage all; answer what it said."""
    return [output for step in steps for output in told(stage, step)]


def plain(outputs: Sequence[Output]) -> list[tuple[str, str | None, Any]]:
    """What was said, but for the revisions: those name the owner as well."""
    return [(output.topic.name, output.key, _unrevised(output.message)) for output in outputs]


def _unrevised(value: Any) -> Any:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    fields = {field.name: _unrevised(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return type(value).__name__, {name: held for name, held in fields.items() if name != "revision"}


def newest(outputs: Sequence[Output]) -> dict[tuple[str, str | None, str], Any]:
    """The last thing said by topic, key and what it is about; a tombstone is about its key."""
    return {(topic, key, str(key) if said is None else _name(said)): said for topic, key, said in plain(outputs)}


def _name(said: Any) -> str:
    fields = said[1] if isinstance(said, tuple) else {}
    return str(fields.get("id") or [fields.get(name) for name in ("device", "port", "kind", "at_ns")])


class StagePromises:
    """The suite; a subclass gives the fixture `case`."""

    def test_it_says_something(self, case: Case) -> None:
        """The case has an outcome, so that the other promises are about something."""
        assert case.said

    def test_the_same_input_gives_the_same_output(self, case: Case) -> None:
        """Told the same twice, it says the same to the last byte, revisions included, and ends in the same state."""
        again = case.begun()
        assert all_told(again, case.steps) == case.said
        assert again.snapshot() == case.ended[1].snapshot()

    def test_restored_anywhere_it_goes_on_as_if_nothing_had_been(self, case: Case) -> None:
        """A successor restored after any step says of the rest what the predecessor would have said."""
        stage = case.begun()
        said, states = [], [stage.snapshot()]
        for step in case.steps:
            said.append(told(stage, step))
            states.append(stage.snapshot())
        for cut, state in enumerate(states):
            successor = case.begun(2, state)
            rest = [plain(told(successor, step)) for step in case.steps[cut:]]
            assert rest == [plain(outputs) for outputs in said[cut:]], f"restored before step {cut}"
            assert successor.watermark_ns == stage.watermark_ns

    def test_a_snapshot_changes_nothing(self, case: Case) -> None:
        """Taking a snapshot after every step leaves what is said, and two in a row are equal."""
        watched = case.begun()
        said = []
        for step in case.steps:
            said += told(watched, step)
            assert watched.snapshot() == watched.snapshot()
        assert said == case.said

    def test_revisions_of_one_thing_grow_and_those_of_a_successor_are_higher(self, case: Case) -> None:
        """Of two with one id, what was said later has the higher revision, whoever said it."""
        half = len(case.steps) // 2
        first = case.begun(1)
        outputs = all_told(first, case.steps[:half])
        outputs += all_told(case.begun(2, first.snapshot()), case.steps[half:])
        last: dict[str, int] = {}
        for output in outputs:
            # An open topic repeats the revision that the other one has.
            if isinstance(output.message, Finding | Remediation) and output.topic.retention_s is not None:
                assert output.message.revision > last.get(output.message.id, 0)
                last[output.message.id] = output.message.revision

    def test_batches_are_of_no_consequence(self, case: Case) -> None:
        """The same messages one by one end in the same newest statements and the same time."""
        single = case.begun()
        steps: list[Step] = []
        for step in case.steps:
            steps += [step] if isinstance(step, int) else [[message] for message in step]
        assert newest(all_told(single, steps)) == newest(case.said)
        assert single.watermark_ns == case.ended[1].watermark_ns

    def test_a_time_that_is_not_later_changes_nothing(self, case: Case) -> None:
        """Advanced again to a time that it was advanced to, it says nothing and stays as it was."""
        stage = case.begun()
        latest = 0
        for step in case.steps:
            told(stage, step)
            if isinstance(step, int) and step >= latest:
                latest = step
                before = stage.snapshot()
                assert stage.advance_watermark(step) == []
                assert stage.advance_watermark(step - 1) == []
                assert stage.snapshot() == before

    def test_what_it_says_is_readable_where_it_says_it(self, case: Case) -> None:
        """Every output is encoded by the registry for its topic and read back as it was."""
        for output in case.said:
            if output.message is None:
                assert output.key
                continue
            record = topics.encode(output.topic, output.message, key=output.key)
            assert topics.decode(output.topic, record.value, record.headers) == output.message

    def test_time_does_not_go_back(self, case: Case) -> None:
        """Its watermark only grows, but for a stage that was idle and comes back to a real time."""
        stage = case.begun()
        newest_ns = 0
        for step in case.steps:
            told(stage, step)
            if stage.watermark_ns != IDLE_NS:
                assert stage.watermark_ns >= newest_ns
                newest_ns = stage.watermark_ns

    def test_a_state_that_cannot_be_read_is_rejected(self, case: Case) -> None:
        """Bytes that no stage wrote are refused as Reject, which the runner knows how to go on from."""
        stage = case.make()
        stage.start_epoch(1)
        with pytest.raises(Reject):
            stage.restore(b"\xff not a state \x00")


class RepeatPromises:
    """What the stages of the pipeline promise beside: at-least-once delivery is enough for them."""

    def test_what_is_told_twice_is_as_if_told_once(self, case: Case) -> None:
        """Every batch told twice in a row ends in the same newest statements."""
        doubled = [again for step in case.steps for again in ((step,) if isinstance(step, int) else (step, step))]
        assert newest(all_told(case.begun(), doubled)) == newest(case.said)

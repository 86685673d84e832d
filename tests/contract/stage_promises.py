"""Contract tests that every stage must pass.

    class TestMeasure(StagePromises, RepeatPromises):
        @pytest.fixture(params=[Case("flap", lambda: Measure(params), topology, steps)], ids=str)
        def case(self, request: pytest.FixtureRequest) -> Case: ...

A case is a stage and its input: batches of messages, and watermarks to advance to. At least one case of a stage must
have output; otherwise its tests are empty.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pytest

from streams.fabric.topology import Topology
from streams.wire import topics
from streams.wire.errors import Reject
from streams.wire.models import IDLE_NS, Finding, Message, PortReaders, Remediation
from streams.wire.stage import Output, RecoverableStage, Stage

Step = Sequence[Message] | int
"""A batch to process, or a time to advance to."""


@dataclass(frozen=True)
class Case:
    """A stage and its input steps."""

    name: str
    make: Callable[[], Stage]
    topology: Topology
    steps: Sequence[Step]

    def __str__(self) -> str:
        return self.name

    def begun(self, epoch: int = 1, state: bytes | None = None) -> Stage:
        """Return a stage that took over under an epoch."""
        stage = self.make()
        stage.start_epoch(epoch)
        if state is not None:
            stage.restore(state)
        stage.set_topology(self.topology)
        if isinstance(stage, RecoverableStage):
            stage.recover([])
        return stage

    @cached_property
    def ended(self) -> tuple[list[Output], Stage]:
        """Return all outputs and the stage after the last step; a test that changes a stage makes its own."""
        stage = self.begun()
        return apply_steps(stage, self.steps), stage

    @property
    def outputs(self) -> list[Output]:
        """Return all outputs of the case."""
        return self.ended[0]


def apply_step(stage: Stage, step: Step) -> list[Output]:
    """Process one batch or advance to one time, and return the outputs."""
    return stage.advance_watermark(step) if isinstance(step, int) else stage.process(step)


def apply_steps(stage: Stage, steps: Sequence[Step]) -> list[Output]:
    return [output for step in steps for output in apply_step(stage, step)]


def plain(outputs: Sequence[Output]) -> list[tuple[str, str | None, Any]]:
    """Return the outputs without revisions, because a revision names the owner as well."""
    return [(output.topic.name, output.key, _unrevised(output.message)) for output in outputs]


def _unrevised(value: Any) -> Any:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    fields = {field.name: _unrevised(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return type(value).__name__, {name: field for name, field in fields.items() if name != "revision"}


def newest(outputs: Sequence[Output]) -> dict[tuple[str, str | None, str], Any]:
    """Return the last output by topic, key and subject; the subject of a tombstone is its key."""
    found = plain([one for output in outputs for one in _by_source(output)])
    return {(topic, key, str(key) if message is None else _name(message)): message for topic, key, message in found}


def _by_source(output: Output) -> Iterator[Output]:
    """Yield a message about several sources as one of each; how they are grouped follows from the batches."""
    readers = output.message
    if not isinstance(readers, PortReaders):
        yield output
        return
    lists = zip(readers.devices, readers.sources, readers.first_ns, readers.silent_since_ns, strict=True)
    for place, (device, source, first_ns, silent_since_ns) in enumerate(lists):
        unread = zip(readers.unread_source, readers.unread_port, strict=True)
        ports = tuple(port for of, port in unread if of == place)
        one = PortReaders(
            readers.shard, (device,), (source,), (first_ns,), (silent_since_ns,), (0,) * len(ports), ports
        )
        yield replace(output, message=one)


def _name(message: Any) -> str:
    fields = message[1] if isinstance(message, tuple) else {}
    names = ("device", "port", "kind", "at_ns", "devices", "sources")
    return str(fields.get("id") or [fields.get(name) for name in names])


class StagePromises:
    """The suite that every stage passes; a subclass provides the fixture `case`."""

    def test_the_case_has_output(self, case: Case) -> None:
        """A case without output would make the other tests empty."""
        assert case.outputs

    def test_the_same_input_gives_the_same_output(self, case: Case) -> None:
        """Two runs of one input are equal to the last byte, revisions included, and end in the same state."""
        again = case.begun()
        assert apply_steps(again, case.steps) == case.outputs
        assert again.snapshot() == case.ended[1].snapshot()

    def test_a_successor_restored_anywhere_has_the_same_outputs(self, case: Case) -> None:
        """A successor restored after any step emits for the rest what the predecessor would have emitted."""
        stage = case.begun()
        outputs, states = [], [stage.snapshot()]
        for step in case.steps:
            outputs.append(apply_step(stage, step))
            states.append(stage.snapshot())
        for cut, state in enumerate(states):
            successor = case.begun(2, state)
            rest = [plain(apply_step(successor, step)) for step in case.steps[cut:]]
            assert rest == [plain(expected) for expected in outputs[cut:]], f"restored before step {cut}"
            assert successor.watermark_ns == stage.watermark_ns

    def test_a_snapshot_changes_nothing(self, case: Case) -> None:
        """A snapshot after every step leaves the outputs as they are, and two in a row are equal."""
        watched = case.begun()
        outputs = []
        for step in case.steps:
            outputs += apply_step(watched, step)
            assert watched.snapshot() == watched.snapshot()
        assert outputs == case.outputs

    def test_revisions_of_one_id_grow_and_those_of_a_successor_are_higher(self, case: Case) -> None:
        """Of two outputs with one id, the later one has the higher revision, from either owner."""
        half = len(case.steps) // 2
        first = case.begun(1)
        outputs = apply_steps(first, case.steps[:half])
        outputs += apply_steps(case.begun(2, first.snapshot()), case.steps[half:])
        last: dict[str, int] = {}
        for output in outputs:
            # An open topic repeats the revision of the other topic.
            if isinstance(output.message, Finding | Remediation) and output.topic.retention_s is not None:
                assert output.message.revision > last.get(output.message.id, 0)
                last[output.message.id] = output.message.revision

    def test_the_size_of_batches_changes_no_result(self, case: Case) -> None:
        """The same messages one by one end in the same newest outputs and the same watermark."""
        single = case.begun()
        steps: list[Step] = []
        for step in case.steps:
            steps += [step] if isinstance(step, int) else [[message] for message in step]
        assert newest(apply_steps(single, steps)) == newest(case.outputs)
        assert single.watermark_ns == case.ended[1].watermark_ns

    def test_a_time_that_is_not_later_changes_nothing(self, case: Case) -> None:
        """A stage advanced to a time that is not later emits nothing and keeps its state."""
        stage = case.begun()
        latest = 0
        for step in case.steps:
            apply_step(stage, step)
            if isinstance(step, int) and step >= latest:
                latest = step
                before = stage.snapshot()
                assert stage.advance_watermark(step) == []
                assert stage.advance_watermark(step - 1) == []
                assert stage.snapshot() == before

    def test_outputs_are_readable_on_their_topics(self, case: Case) -> None:
        """Every output survives encoding and decoding by the registry for its topic."""
        for output in case.outputs:
            if output.message is None:
                assert output.key
                continue
            record = topics.encode(output.topic, output.message, key=output.key)
            assert topics.decode(output.topic, record.value, record.headers) == output.message

    def test_time_does_not_go_back(self, case: Case) -> None:
        """The watermark only grows, except when an idle stage returns to a real time."""
        stage = case.begun()
        newest_ns = 0
        for step in case.steps:
            apply_step(stage, step)
            if stage.watermark_ns != IDLE_NS:
                assert stage.watermark_ns >= newest_ns
                newest_ns = stage.watermark_ns

    def test_a_state_that_cannot_be_read_is_rejected(self, case: Case) -> None:
        """Bytes that no stage wrote raise Reject, which the runner handles."""
        stage = case.make()
        stage.start_epoch(1)
        for data in (b"\xff not a state \x00", b"", b"{", b"[]", b'{"cases": 1}'):
            with pytest.raises(Reject, match="not a snapshot of"):
                stage.restore(data)


class RepeatPromises:
    """The suite that the pipeline's stages pass as well: at-least-once delivery is enough for them."""

    def test_repeated_batches_change_no_result(self, case: Case) -> None:
        """Every batch processed twice in a row ends in the same newest outputs."""
        doubled = [again for step in case.steps for again in ((step,) if isinstance(step, int) else (step, step))]
        assert newest(apply_steps(case.begun(), doubled)) == newest(case.outputs)

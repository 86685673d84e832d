"""Snapshots: their chunks, and the state of every stage. What is restored can be written again."""

from collections.abc import Callable, Iterator
from functools import partial

from streams.decide.params import DecideParams
from streams.decide.stage import Decide
from streams.detect.attribute.stage import Attribute
from streams.detect.correlate.stage import Correlate
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.runtime.snapshots import SnapshotAssembler, split
from streams.wire import codec
from streams.wire.errors import Reject
from streams.wire.models import Message, Snapshot, SnapshotChunk
from streams.wire.stage import Stage
from tests.fixtures.decide_stage import finding, port_states
from tests.fixtures.stage_messages import STAGES
from tests.fixtures.wire_examples import EXAMPLES
from tests.fuzz.target import Target, framed, frames
from tests.worlds.small_fabric import topology

_TOP = topology()
_STAGES: dict[str, Callable[[], Stage]] = {
    "measure": lambda: Measure(DetectParams()),
    "correlate": lambda: Correlate(DetectParams()),
    "attribute": lambda: Attribute(DetectParams()),
    "decide": lambda: Decide(DecideParams()),
}


def _parse(make: Callable[[], Stage], data: bytes) -> None:
    """Restore a state as its next owner does, and write it again."""
    stage = make()
    stage.start_epoch(2)
    stage.restore(data)
    stage.set_topology(_TOP)
    written = stage.snapshot()
    successor = make()
    successor.start_epoch(3)
    successor.restore(written)


def _seeds(name: str) -> Iterator[bytes]:
    """Yield an empty state, and one after examples of the messages that the stage processes."""
    make, models = STAGES[name]
    for messages in ((), [EXAMPLES[model] for model in models], _more(name)):
        stage = make()
        stage.start_epoch(1)
        stage.set_topology(_TOP)
        stage.process(list(messages))
        yield stage.snapshot()


def _more(name: str) -> list[Message]:
    return [finding("p1-l0/d1"), port_states("p1-l0")] if name == "decide" else []


def _parse_chunks(data: bytes) -> None:
    """Assemble the chunks of a snapshot topic in any order; unreadable ones are passed over."""
    assembler = SnapshotAssembler()
    for number, record in enumerate(frames(data)):
        try:
            chunk = codec.from_bytes(SnapshotChunk, record) if record else None
        except Reject:
            continue
        assembler.add(str(number % 4), chunk)
    assembler.keys_before(7)


def _chunk_seeds() -> Iterator[bytes]:
    whole = Snapshot(1, 3, {}, {}, 0, "", b"state")
    chunks = [codec.to_bytes(chunk) for sequence in (1, 2) for chunk in split("measure", 0, sequence, whole)]
    yield framed(*chunks, b"")


TARGETS = (
    *(
        # Arrays of the snapshot of a large partition take a GB; what a few bytes may take is bounded (array_codec.py).
        Target(f"snapshot-{name}", partial(_parse, make), (Reject,), partial(_seeds, name))
        for name, make in _STAGES.items()
    ),
    Target("snapshot-chunks", _parse_chunks, (), _chunk_seeds),
)

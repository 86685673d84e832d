"""Neither an output that cannot be encoded nor a state that cannot be restored ends a partition."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from streams.runtime.bindings import BINDINGS
from streams.runtime.partition_processor import MAX_RECORD_BYTES
from streams.runtime.reliable_sender import ReliableSender
from streams.runtime.snapshots import (
    SCHEMA,
    SnapshotAssembler,
    SnapshotTopic,
    highest_known_epoch,
    is_verified,
    next_sequence,
    split,
)
from streams.wire import topics
from streams.wire.models import (
    Condition,
    Event,
    Finding,
    Message,
    Progress,
    Rejected,
    Severity,
    Snapshot,
    SnapshotChunk,
    Status,
    Subject,
    Symptom,
)
from streams.wire.stage import Output
from streams.wire.symptoms import GpuXid
from streams.wire.topics import Partitions
from tests.fakes.log_consumer import LogConsumer
from tests.fakes.producer import FakeProducer
from tests.fakes.stages import CountingStage
from tests.fixtures.runtime_bindings import (
    FIRST,
    IN,
    MID,
    SECOND,
    CountedMetrics,
    PartitionLog,
    event,
    make_processor,
    started_processor,
)


class FaultyOutputs(CountingStage):
    """Emits symptoms for each event: one that cannot be encoded, one that is too large, and a good one."""

    def process(self, batch: Sequence[Message]) -> list[Output]:
        codes = (-1, 1, 2)
        texts = ("", "x" * (MAX_RECORD_BYTES + 1), "good")
        return [
            Output(MID, Symptom(one.device, "p", GpuXid(code, False, text), 1), key="k")
            for one in batch
            if isinstance(one, Event)
            for code, text in zip(codes, texts, strict=True)
        ]


def test_an_output_that_cannot_be_sent_is_rejected_and_the_others_are_sent() -> None:
    """A number beyond its field and a record above the brokers' limit go to the rejected topic with the reason."""
    processor = started_processor(FIRST, lambda _: FaultyOutputs(MID))
    records = processor.on_chunk(PartitionLog(IN).add(event(1)).chunk())
    unencodable, oversized, good = (topics.decode(r.topic, r.value, r.headers) for r in records)
    assert isinstance(unencodable, Rejected) and isinstance(oversized, Rejected) and isinstance(good, Symptom)
    assert unencodable.topic == oversized.topic == MID.name
    assert unencodable.offset == -1
    assert "cannot encode Symptom" in unencodable.reason
    assert "the limit is" in oversized.reason
    assert processor.positions[IN.name] == 1


def test_four_snapshots_in_a_row_have_four_keys() -> None:
    """Verified ones and others alternate between two keys each, in increasing sequence."""
    kinds = (True, False, False, True, False)
    sequences, of_kind = [0], {True: 0, False: 0}
    for verified in kinds:
        of_kind[verified] = next_sequence(sequences[-1], of_kind[verified], is_verified=verified)
        sequences.append(of_kind[verified])
    assert sequences == sorted(set(sequences))
    assert tuple(map(is_verified, sequences[1:])) == kinds
    slots = [sequence % 4 for sequence in sequences[1:]]
    assert slots[0] != slots[3]
    assert slots[1] != slots[2] != slots[4]


def _snapshot(state: bytes, schema: int = SCHEMA) -> Snapshot:
    return Snapshot(schema, 3, {"in/0": 7}, {}, 5, "", state)


def _assembled(*written: tuple[int, Snapshot]) -> SnapshotAssembler:
    assembler = SnapshotAssembler()
    for sequence, snapshot in written:
        for chunk in split("measure", 0, sequence, snapshot):
            assembler.add(f"{sequence % 4}", chunk)
    return assembler


def test_a_successor_falls_back_to_the_last_verified_snapshot() -> None:
    """The newest state cannot be read: the verified one before it is restored, and its input is read again."""
    good = started_processor(FIRST, lambda _: CountingStage(MID))
    log = PartitionLog(IN).add(*(event(number) for number in range(30)))
    good.on_chunk(log.chunk(0, 12))
    verified = replace(good.snapshot(), epoch=3)
    assembler = _assembled((2, verified), (4, _snapshot(b"{")))
    assert assembler.best is not None and assembler.fallback is not None
    successor = make_processor(FIRST, lambda _: CountingStage(MID))
    ends = {"in": 30, "retained": 0}
    successor.begin(4, [assembler.best, assembler.fallback], {"in": 0, "retained": 0}, ends)
    assert successor.positions["in"] == 12
    assert _assembled((2, verified), (4, verified), (6, verified)).fallback is None


def test_snapshots_that_are_passed_over_are_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """A newer schema and bytes that are no snapshot; both name the epoch and the reason."""
    assembler = _assembled((1, _snapshot(b"s", SCHEMA + 1)))
    assembler.add("x", SnapshotChunk("measure", 0, 5, 1, 0, 1, b"\xff\xff"))
    assert assembler.unreadable == 2
    assert "upgrade this process" in caplog.text
    assert "epoch=5" in caplog.text


def _finding(revision: int) -> Finding:
    return Finding(
        "f", revision, False, Condition.LINK_DOWN, Status.OPEN, Severity.WARNING, Subject("link:a"), 1, 1
    )  # fmt: skip


async def test_epochs_continue_after_the_snapshots_are_lost(caplog: pytest.LogCaptureFixture) -> None:
    """The first epoch is higher than any in the Progress or the revisions of former owners, and the loss is logged."""
    consumer = LogConsumer()
    consumer.add(
        0,
        *(topics.encode(topics.PROGRESS, Progress("attribute", 0, epoch, 5), key="k") for epoch in (3, 7, 5)),
        topics.encode(topics.PROGRESS, Progress("correlate", 1, 99, 5), key="k"),
        topics.encode(topics.FINDINGS, _finding((9 << 32) + 4)),
    )
    binding = BINDINGS["attribute"]
    producer = FakeProducer()
    sender = ReliableSender(
        lambda: producer, Partitions(), lambda: True, stage="attribute", partition=0, metrics=CountedMetrics()
    )  # fmt: skip
    topic = SnapshotTopic("attribute", binding.snapshots, 0, sender)
    epoch, states = await topic.take_over(consumer, lambda: highest_known_epoch(consumer, binding, 0))
    assert (epoch, states) == (10, [])
    assert "snapshots are lost" in caplog.text


def test_progress_of_a_lower_epoch_is_counted() -> None:
    """Time would stand still without a sign if epochs began again."""
    counted = CountedMetrics()
    processor = make_processor(SECOND, lambda _: CountingStage(MID, "correlate"), metrics=counted)
    processor.begin(1, (), {"mid": 0}, {"mid": 0})
    log = PartitionLog(MID).add(*(Progress("measure", 0, epoch, at) for at, epoch in ((5, 7), (6, 1), (7, 1))))
    processor.on_chunk(log.chunk())
    assert counted.counts["railsight_stale_progress_total"] == 2

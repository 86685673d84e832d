"""The processor passes records, watermarks and topologies to its stage in order, and its snapshot covers them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.runtime.inventory_versions import Versions
from streams.runtime.partition_processor import REJECTED_BYTES
from streams.wire import topics
from streams.wire.models import IDLE_NS, InputLoss, Message, Progress, Rejected, Symptom
from streams.wire.stage import Output
from streams.wire.topics import Record
from tests.fakes.stages import CountingStage, WindowStage, count_of
from tests.fixtures.runtime_bindings import (
    FIRST,
    IN,
    LAST,
    MID,
    OUT,
    PROGRESS,
    RETAINED,
    SECOND,
    CountedMetrics,
    FixedClock,
    PartitionLog,
    event,
    make_processor,
    started_processor,
    symptom,
)

SECOND_NS = 10**9
NOW_NS = FixedClock().now_ns()


def read(record: Record) -> Message:
    return topics.decode(record.topic, record.value, record.headers)


def losses(records: Sequence[Record]) -> list[Message]:
    return [read(record) for record in records if record.topic is topics.INPUT_LOSSES]


def progress(watermark_ns: int, partition: int = 0, epoch: int = 1) -> Progress:
    return Progress("measure", partition, epoch, watermark_ns)


class RecordingStage(WindowStage):
    """Records its calls in order: ports of symptoms, watermarks and adopted versions."""

    def __init__(self) -> None:
        super().__init__(OUT)
        self.calls: list[object] = []

    def process(self, batch: Sequence[Message]) -> list[Output]:
        self.calls += [m.port for m in batch if isinstance(m, Symptom)]
        return super().process(batch)

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        self.calls.append(watermark_ns)
        return super().advance_watermark(watermark_ns)

    def set_topology(self, topology: Topology) -> list[Output]:
        self.calls.append(f"adopt {topology.digest}")
        return super().set_topology(topology)


def test_records_before_a_progress_are_processed_before_time_advances() -> None:
    """Records before a Progress in a partition are processed first, and records after it afterwards."""
    stage = RecordingStage()
    processor = started_processor(SECOND, lambda _: stage)
    log = PartitionLog(MID).add(
        symptom(1, 5), progress(10, 0), progress(20, 1), symptom(2, 30), progress(40, 0), symptom(3, 50)
    )
    processor.on_chunk(log.chunk())
    assert stage.calls == ["adopt ", "1", 10, "2", 20, "3"]


def test_the_outputs_do_not_depend_on_the_chunk_size() -> None:
    """Chunks of 1, 7 or all 80 records give the same outputs."""
    log = PartitionLog(MID)
    for number in range(40):
        log.add(symptom(number, number * SECOND_NS // 4), progress(number * SECOND_NS // 4, number % 2))
    outputs = []
    for size in (1, 7, 80):
        processor = started_processor(SECOND, lambda _: WindowStage(OUT))
        sent = [r for start in range(0, 80, size) for r in processor.on_chunk(log.chunk(start, min(80, start + size)))]
        outputs.append([record.value for record in sent])
    assert outputs[0] == outputs[1] == outputs[2] != []


def test_the_first_stage_receives_progress_as_an_ordinary_message() -> None:
    """The Progress that the replay of a recording sends reaches the first stage itself."""
    received: list[Message] = []

    class FirstStage(CountingStage):
        def process(self, batch: Sequence[Message]) -> list[Output]:
            received.extend(batch)
            return super().process(batch)

    started_processor(FIRST, lambda _: FirstStage(MID)).on_chunk(PartitionLog(IN).add(event(1), progress(9)).chunk())
    assert [type(message).__name__ for message in received] == ["Event", "Progress"]


def test_records_that_were_read_before_are_skipped() -> None:
    """Of a chunk that overlaps only the new part is processed, and of a repeated chunk nothing."""
    processor = started_processor(FIRST, lambda _: CountingStage(MID))
    log = PartitionLog(IN).add(*(event(number) for number in range(30)))
    processor.on_chunk(log.chunk(0, 12))
    assert processor.on_chunk(log.chunk(0, 12)) == []
    sent = [read(record) for record in processor.on_chunk(log.chunk(5, 30))]
    assert [count_of(m) for m in sent if isinstance(m, Symptom)] == [sum(range(20)), sum(range(30))]
    assert processor.positions == {"in": 30, "retained": 0}


def test_gaps_from_compaction_are_not_a_loss() -> None:
    """A chunk with missing offsets covers all of its range, and the next chunk follows it."""
    processor = started_processor(FIRST, lambda _: CountingStage(MID))
    log = PartitionLog(RETAINED).add(*(event(number) for number in range(6)))
    whole = log.chunk()
    processor.on_chunk(replace(whole, records=[whole.records[1], whole.records[4]]))
    assert processor.positions["retained"] == 6
    assert processor.records == 2


def test_an_unreadable_record_is_rejected_with_its_reason_and_the_others_are_processed() -> None:
    """A Rejected has topic, offset, stage, reason and the first 4 KiB; the records around it are processed."""
    processor = started_processor(FIRST, lambda _: CountingStage(MID))
    log = PartitionLog(IN).add(
        *(event(number) for number in range(5)), b"\xff" * 9999, *(event(n) for n in range(5, 10))
    )
    rejected, counted = (read(record) for record in processor.on_chunk(log.chunk()))
    assert isinstance(rejected, Rejected) and isinstance(counted, Symptom)
    assert (rejected.topic, rejected.offset, rejected.stage, rejected.at_ns) == ("in", 5, "measure", 1_000)
    assert rejected.reason.startswith("not a Event")
    assert len(rejected.value) == REJECTED_BYTES
    assert count_of(counted) == sum(range(10))


def test_a_tombstone_is_rejected_only_in_a_topic_without_compaction() -> None:
    """A tombstone in a compacted topic is skipped; in another topic it is not a valid message."""
    processor = started_processor(FIRST, lambda _: CountingStage(MID))
    assert processor.on_chunk(PartitionLog(RETAINED).add(None, event(1)).chunk()) == []
    assert len(processor.on_chunk(PartitionLog(IN).add(None, event(1)).chunk())) == 1


def test_input_that_is_unread_for_a_minute_is_reported_once_a_minute() -> None:
    """With the age of the newest record that was read; nothing is lost, and nothing is reported when all is read."""
    clock = FixedClock(100 * SECOND_NS)
    processor = make_processor(FIRST, lambda _: CountingStage(MID), clock=clock)
    processor.begin(1, (), {"in": 0, "retained": 0}, {"in": 5, "retained": 0})
    log = PartitionLog(IN).add(*(event(number) for number in range(5)), at_ms=10_000)
    processor.on_chunk(log.chunk(0, 2))
    assert losses(processor.tick(clock.ns)) == [InputLoss("measure", "in", 0, 2, 0, clock.ns, behind_ns=90 * SECOND_NS)]
    assert losses(processor.tick(clock.ns)) == []
    clock.ns += 61 * SECOND_NS
    assert losses(processor.tick(clock.ns)) == [
        InputLoss("measure", "in", 0, 2, 0, clock.ns, behind_ns=151 * SECOND_NS)
    ]
    processor.on_chunk(log.chunk(2))
    clock.ns += 61 * SECOND_NS
    assert losses(processor.tick(clock.ns)) == []
    assert processor.behind_ns == 0


def test_a_successor_continues_at_the_end_of_the_snapshot() -> None:
    """A successor that restores a snapshot emits the outputs that its predecessor would have emitted."""
    log = PartitionLog(IN).add(*(event(number, f"d{number % 3}") for number in range(90)))
    predecessor = started_processor(FIRST, lambda _: CountingStage(MID))
    predecessor.on_chunk(log.chunk(0, 47))
    snapshot = predecessor.snapshot()
    rest = [record.value for record in predecessor.on_chunk(log.chunk(47, 90))]
    successor = make_processor(FIRST, lambda _: CountingStage(MID))
    successor.begin(2, [snapshot], {"in": 0, "retained": 0}, {"in": 90, "retained": 0})
    assert successor.positions == {"in": 47, "retained": 0}
    assert [record.value for record in successor.on_chunk(log.chunk(30, 90))] == rest
    assert successor.snapshot().epoch == 2


def test_an_input_that_ends_before_the_state_is_read_from_its_start(caplog: pytest.LogCaptureFixture) -> None:
    """Its topic was deleted and created again: its records would be passed over up to the former offset."""
    predecessor = started_processor(FIRST, lambda _: CountingStage(MID))
    predecessor.on_chunk(PartitionLog(IN).add(*(event(number) for number in range(20))).chunk())
    successor = make_processor(FIRST, lambda _: CountingStage(MID))
    successor.begin(2, [predecessor.snapshot()], {"in": 0, "retained": 0}, {"in": 12, "retained": 0})
    assert successor.positions == {"in": 0, "retained": 0}
    assert "a topic was created again, reading from its start: stage=measure topic=in" in caplog.text
    assert losses(successor.resume("")) == [InputLoss("measure", "in", 0, 0, 0, NOW_NS, is_recreated=True)]


def test_an_unreadable_state_is_rebuilt_from_the_input() -> None:
    """A stage that rejects its state begins empty, and all retained input is read."""
    predecessor = started_processor(FIRST, lambda _: CountingStage(MID))
    predecessor.on_chunk(PartitionLog(IN).add(event(1)).chunk())
    unreadable = replace(predecessor.snapshot(), state=b"{")
    successor = make_processor(FIRST, lambda _: CountingStage(MID))
    successor.begin(2, [unreadable], {"in": 0, "retained": 0}, {"in": 1, "retained": 0})
    assert successor.positions == {"in": 0, "retained": 0}
    assert successor.stage.watermark_ns == IDLE_NS


def test_input_that_retention_deleted_is_counted() -> None:
    """Between two chunks, and between a snapshot and a take-over; what was compacted is not lost."""
    counted = CountedMetrics()
    processor = make_processor(FIRST, lambda _: CountingStage(MID), metrics=counted)
    processor.begin(1, (), {"in": 0, "retained": 0}, {"in": 150, "retained": 9})
    log = PartitionLog(IN).add(*(event(number) for number in range(150)))
    processor.on_chunk(log.chunk(0, 50))
    assert counted.counts.get("railsight_input_lost_records_total") is None
    records = processor.on_chunk(replace(log.chunk(120, 150), start=50))
    assert losses(records) == [InputLoss("measure", "in", 0, 50, 70, NOW_NS)]
    assert counted.counts["railsight_input_lost_records_total"] == 70
    snapshot = processor.snapshot()
    successor = make_processor(FIRST, lambda _: CountingStage(MID), metrics=counted)
    successor.begin(2, (snapshot,), {"in": 153, "retained": 5}, {"in": 160, "retained": 9})
    assert counted.counts["railsight_input_lost_records_total"] == 73
    assert losses(successor.resume("")) == [InputLoss("measure", "in", 0, 150, 3, NOW_NS)]
    assert losses(successor.resume("")) == []


def test_progress_in_another_topic_waits_for_the_records_that_it_covers() -> None:
    """The watermark of the last stage advances only once the findings that a Progress covers have been read."""
    stage = RecordingStage()
    processor = started_processor(LAST, lambda _: stage)
    findings = PartitionLog(OUT).add(symptom(1, 5), symptom(2, 6))
    progress_log = PartitionLog(PROGRESS).add(
        Progress("measure", 0, 1, 99), Progress("attribute", 0, 1, 7, after_offset=1), Progress("attribute", 0, 1, 9, 2)
    )
    processor.on_chunk(progress_log.chunk())
    assert stage.calls == []
    processor.on_chunk(findings.chunk(0, 1))
    assert stage.calls == ["adopt ", "1", 7]
    processor.on_chunk(findings.chunk(1, 2))
    assert stage.calls == ["adopt ", "1", 7, "2", 9]


def test_the_arrival_clock_follows_the_records_that_were_read() -> None:
    """In a backlog it is the arrival of the last record read, else now; before the first record there is no tick."""
    stage = CountingStage(MID)
    processor = started_processor(FIRST, lambda _: stage, end=2)
    log = PartitionLog(IN).add(event(1), at_ms=5).add(event(2), at_ms=9)
    processor.tick(77)
    assert stage.ticks == []
    processor.on_chunk(log.chunk(0, 1))
    processor.tick(10**9)
    assert stage.ticks == [5_000_000]
    processor.on_chunk(log.chunk(1, 2))
    processor.tick(10**9)
    assert stage.ticks == [5_000_000, 10**9], "the tick waited for the compacted input"


@pytest.mark.parametrize("size", [1, 8])
def test_a_version_takes_effect_between_the_same_two_records_for_any_chunk_size(size: int) -> None:
    """The record that advances the watermark to the effective time is the last under the old version."""
    versions = Versions()
    for at, digest in ((0, "old"), (50, "new")):
        versions.add(at, Topology(Inventory(), digest))
    seen: list[tuple[int, str]] = []

    class VersionStage(CountingStage):
        def process(self, batch: Sequence[Message]) -> list[Output]:
            seen.extend(
                (m.at_ns, self.topology_digests[-1])
                for m in batch
                if not isinstance(m, Progress) and hasattr(m, "at_ns") and m.at_ns is not None
            )
            return super().process(batch)

    processor = started_processor(FIRST, lambda _: VersionStage(MID), versions=versions)
    log = PartitionLog(IN).add(*(event(number, at_ns=number * 10) for number in range(1, 9)))
    for start in range(0, 8, size):
        processor.on_chunk(log.chunk(start, start + size))
    assert seen == [(at, "old" if at <= 50 else "new") for at in range(10, 90, 10)]


def test_a_downstream_watermark_stops_at_the_effective_time_of_a_version() -> None:
    """A watermark that passes a version's time advances in two steps: to that time, then under the new version."""
    versions = Versions()
    for at, digest in ((0, "old"), (50, "new")):
        versions.add(at, Topology(Inventory(), digest))
    stage = RecordingStage()
    processor = started_processor(SECOND, lambda _: stage, versions=versions)
    processor.on_chunk(PartitionLog(MID).add(symptom(1, 5), progress(100, 0), progress(100, 1)).chunk())
    assert stage.calls == ["adopt old", "1", 50, "adopt new", 100]


def test_an_output_without_a_message_is_a_tombstone() -> None:
    """An output without a message removes its key; lag and progress count the records that were read."""

    class RemovingStage(CountingStage):
        def process(self, batch: Sequence[Message]) -> list[Output]:
            return [Output(RETAINED, None, "gone")]

    processor = started_processor(FIRST, lambda _: RemovingStage(MID), end=9)
    (record,) = processor.on_chunk(PartitionLog(IN).add(event(1), event(2)).chunk())
    assert (record.key, record.value) == (b"gone", None)
    assert processor.progress(4) == Progress("measure", 0, 1, IDLE_NS, 4, records=2, lag=7 + 9)


def test_the_clock_is_read_for_rejected_records_only() -> None:
    """Valid records are processed without reading the time of day."""

    class BrokenClock(FixedClock):
        def now_ns(self) -> int:
            raise AssertionError("the clock was read")

    processor = make_processor(FIRST, lambda _: CountingStage(MID), clock=BrokenClock())
    processor.begin(1, (), {"in": 0, "retained": 0}, {"in": 0, "retained": 0})
    processor.on_chunk(PartitionLog(IN).add(event(1)).chunk())


def test_an_owner_with_unread_input_is_not_idle() -> None:
    """Before the first read, unread records may contain live data; the end of a compacted input does not count."""
    with_input = started_processor(FIRST, lambda _: CountingStage(MID), end=2)
    without_input = started_processor(FIRST, lambda _: CountingStage(MID))
    assert (with_input.has_unread_input, without_input.has_unread_input) == (True, False)
    with_input.on_chunk(PartitionLog(IN).add(event(1)).chunk())
    assert not with_input.has_unread_input


def test_progress_without_output_is_not_a_change() -> None:
    """Progress without an output only moves the position; a message, or an output, is a change."""
    processor = started_processor(SECOND, lambda _: WindowStage(OUT))
    processor.on_chunk(PartitionLog(MID).add(progress(0, 1), progress(1, 1)).chunk())
    assert (processor.changed, processor.moved) == (False, True)
    processor.snapshot()
    assert (processor.changed, processor.moved) == (False, False)
    other = started_processor(SECOND, lambda _: WindowStage(OUT))
    other.on_chunk(PartitionLog(MID).add(symptom(1, 5)).chunk())
    assert other.changed


def test_a_repeated_state_without_output_is_not_a_change() -> None:
    """Such an input alone needs no prompt snapshot; an output does."""
    binding = replace(FIRST, repeated=(IN,))
    processor = started_processor(binding, lambda _: CountingStage(MID))
    processor.on_chunk(PartitionLog(IN).add(event(1)).chunk())
    assert (processor.changed, processor.moved) == (False, True)
    outputs = processor.on_chunk(PartitionLog(IN).add(*(event(number) for number in range(20))).chunk(1, 20))
    assert outputs and processor.changed

"""What a stage is handed and when, and what its state covers: the runner without its I/O."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.runtime.partition_processor import REJECTED_BYTES
from streams.runtime.versions import Versions
from streams.wire import topics
from streams.wire.models import IDLE_NS, Message, Progress, Rejected, Symptom
from streams.wire.stage import Output
from streams.wire.topics import Record
from tests.fakes.stages import CountingStage, WindowStage, count_of
from tests.fixtures.runtime_bindings import (
    BESIDE,
    FIRST,
    IN,
    LAST,
    MID,
    OUT,
    RETAINED,
    SECOND,
    Clock,
    Log,
    begun,
    event,
    fold,
    symptom,
)

SECOND_NS = 10**9


def read(record: Record) -> Message:
    return topics.decode(record.topic, record.value, record.headers)


def progress(watermark_ns: int, partition: int = 0, epoch: int = 1) -> Progress:
    return Progress("measure", partition, epoch, watermark_ns)


class Told(WindowStage):
    """Keeps the order in which it was told things."""

    def __init__(self) -> None:
        super().__init__(OUT)
        self.told: list[object] = []

    def process(self, batch: Sequence[Message]) -> list[Output]:
        self.told += [m.port for m in batch if isinstance(m, Symptom)]
        return super().process(batch)

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        self.told.append(watermark_ns)
        return super().advance_watermark(watermark_ns)

    def set_topology(self, topology: Topology) -> list[Output]:
        self.told.append(f"adopt {topology.digest}")
        return super().set_topology(topology)


def test_records_before_a_progress_are_processed_before_time_advances() -> None:
    """In a partition, what stands before a Progress is folded first, and what stands behind it afterwards."""
    stage = Told()
    made = begun(SECOND, lambda _: stage)
    log = Log(MID).add(symptom(1, 5), progress(10, 0), progress(20, 1), symptom(2, 30), progress(40, 0), symptom(3, 50))
    made.on_chunk(log.chunk())
    assert stage.told == ["adopt ", "1", 10, "2", 20, "3"]


def test_however_records_are_fetched_the_stage_is_told_the_same() -> None:
    """Chunks of one record or of all give the same outputs."""
    log = Log(MID)
    for number in range(40):
        log.add(symptom(number, number * SECOND_NS // 4), progress(number * SECOND_NS // 4, number % 2))
    outputs = []
    for size in (1, 7, 80):
        made = begun(SECOND, lambda _: WindowStage(OUT))
        said = [r for start in range(0, 80, size) for r in made.on_chunk(log.chunk(start, min(80, start + size)))]
        outputs.append([record.value for record in said])
    assert outputs[0] == outputs[1] == outputs[2] != []


def test_progress_is_an_ordinary_message_where_upstream_are_devices() -> None:
    """What a recording's player says of time reaches the first stage itself."""
    taken: list[Message] = []

    class First(CountingStage):
        def process(self, batch: Sequence[Message]) -> list[Output]:
            taken.extend(batch)
            return super().process(batch)

    begun(FIRST, lambda _: First(MID)).on_chunk(Log(IN).add(event(1), progress(9)).chunk())
    assert [type(message).__name__ for message in taken] == ["Event", "Progress"]


def test_what_was_read_before_is_left_out() -> None:
    """A chunk that overlaps is sliced, and one that repeats is nothing."""
    made = begun(FIRST, lambda _: CountingStage(MID))
    log = Log(IN).add(*(event(number) for number in range(30)))
    made.on_chunk(log.chunk(0, 12))
    assert made.on_chunk(log.chunk(0, 12)) == []
    said = [read(record) for record in made.on_chunk(log.chunk(5, 30))]
    assert [count_of(m) for m in said if isinstance(m, Symptom)] == [sum(range(20)), sum(range(30))]
    assert made.positions == {"in": 30, "kept": 0}


def test_compaction_leaves_gaps_that_are_no_loss() -> None:
    """A chunk whose records lack offsets covers them all; the next one fits behind it."""
    made = begun(FIRST, lambda _: CountingStage(MID))
    log = Log(RETAINED).add(*(event(number) for number in range(6)))
    whole = log.chunk()
    made.on_chunk(replace(whole, records=[whole.records[1], whole.records[4]]))
    assert made.positions["kept"] == 6
    assert made.records == 2


def test_an_unreadable_record_is_rejected_with_its_reason_and_the_rest_goes_on() -> None:
    """A Rejected says topic, offset, stage, reason and the first 4 KiB; the records around it are folded."""
    made = begun(FIRST, lambda _: CountingStage(MID))
    log = Log(IN).add(*(event(number) for number in range(5)), b"\xff" * 9999, *(event(n) for n in range(5, 10)))
    rejected, said = (read(record) for record in made.on_chunk(log.chunk()))
    assert isinstance(rejected, Rejected) and isinstance(said, Symptom)
    assert (rejected.topic, rejected.offset, rejected.stage, rejected.at_ns) == ("in", 5, "measure", 1_000)
    assert rejected.reason.startswith("not a Event")
    assert len(rejected.value) == REJECTED_BYTES
    assert count_of(said) == sum(range(10))


def test_a_tombstone_is_rejected_only_where_there_are_none() -> None:
    """What takes a key out of a compacted topic is passed over; elsewhere it is no message."""
    made = begun(FIRST, lambda _: CountingStage(MID))
    assert made.on_chunk(Log(RETAINED).add(None, event(1)).chunk()) == []
    assert len(made.on_chunk(Log(IN).add(None, event(1)).chunk())) == 1


def test_a_successor_goes_on_where_the_snapshot_ends() -> None:
    """Restoring at any point and reading on gives the outputs that the predecessor would have given."""
    log = Log(IN).add(*(event(number, f"d{number % 3}") for number in range(90)))
    through = begun(FIRST, lambda _: CountingStage(MID))
    through.on_chunk(log.chunk(0, 47))
    kept = through.snapshot()
    rest = [record.value for record in through.on_chunk(log.chunk(47, 90))]
    successor = fold(FIRST, lambda _: CountingStage(MID))
    successor.begin(2, kept, {"in": 0, "kept": 0}, {"in": 90, "kept": 0})
    assert successor.positions == {"in": 47, "kept": 0}
    assert [record.value for record in successor.on_chunk(log.chunk(30, 90))] == rest
    assert successor.snapshot().epoch == 2


def test_a_state_that_cannot_be_read_is_made_anew_from_the_input() -> None:
    """A stage that rejects its state begins empty, and reads all that the input still holds."""
    through = begun(FIRST, lambda _: CountingStage(MID))
    through.on_chunk(Log(IN).add(event(1)).chunk())
    spoilt = replace(through.snapshot(), state=b"{")
    successor = fold(FIRST, lambda _: CountingStage(MID))
    successor.begin(2, spoilt, {"in": 0, "kept": 0}, {"in": 1, "kept": 0})
    assert successor.positions == {"in": 0, "kept": 0}
    assert successor.stage.watermark_ns == IDLE_NS


def test_what_retention_took_is_not_waited_for() -> None:
    """Where the input begins after the snapshot ends, reading goes on at what is left."""
    successor = fold(FIRST, lambda _: CountingStage(MID))
    successor.begin(1, None, {"in": 40, "kept": 3}, {"in": 90, "kept": 3})
    assert successor.positions == {"in": 40, "kept": 3}


def test_progress_beside_a_topic_waits_for_what_it_covers() -> None:
    """Time advances for the last stage only once the findings that a Progress covers have been read."""
    stage = Told()
    made = begun(LAST, lambda _: stage)
    findings = Log(OUT).add(symptom(1, 5), symptom(2, 6))
    beside = Log(BESIDE).add(
        Progress("measure", 0, 1, 99), Progress("attribute", 0, 1, 7, after_offset=1), Progress("attribute", 0, 1, 9, 2)
    )
    made.on_chunk(beside.chunk())
    assert stage.told == []
    made.on_chunk(findings.chunk(0, 1))
    assert stage.told == ["adopt ", "1", 7]
    made.on_chunk(findings.chunk(1, 2))
    assert stage.told == ["adopt ", "1", 7, "2", 9]


def test_the_arrival_clock_is_that_of_what_was_read() -> None:
    """In a backlog the clock is the arrival of the last record read; caught up, it is now; before any, it stands."""
    stage = CountingStage(MID)
    made = begun(FIRST, lambda _: stage, end=2)
    log = Log(IN).add(event(1), at_ms=5).add(event(2), at_ms=9)
    made.tick(77)
    assert stage.ticks == []
    made.on_chunk(log.chunk(0, 1))
    made.tick(10**9)
    assert stage.ticks == [5_000_000]
    made.on_chunk(log.chunk(1, 2))
    made.tick(10**9)
    assert stage.ticks == [5_000_000, 10**9], "the compacted input is not waited for"


@pytest.mark.parametrize("size", [1, 8])
def test_a_version_takes_effect_between_the_same_two_records_however_they_are_fetched(size: int) -> None:
    """The record that takes the watermark to the effective time is the last under the old version."""
    versions = Versions()
    for at, digest in ((0, "old"), (50, "new")):
        versions.add(at, Topology(Inventory(), digest))
    seen: list[tuple[int, str]] = []

    class Seeing(CountingStage):
        def process(self, batch: Sequence[Message]) -> list[Output]:
            seen.extend(
                (m.at_ns, self.adopted[-1])
                for m in batch
                if not isinstance(m, Progress) and hasattr(m, "at_ns") and m.at_ns is not None
            )
            return super().process(batch)

    made = begun(FIRST, lambda _: Seeing(MID), versions=versions)
    log = Log(IN).add(*(event(number, at_ns=number * 10) for number in range(1, 9)))
    for start in range(0, 8, size):
        made.on_chunk(log.chunk(start, start + size))
    assert seen == [(at, "old" if at <= 50 else "new") for at in range(10, 90, 10)]


def test_downstream_time_stops_at_the_effective_time_of_a_version() -> None:
    """A jump of the watermark over a version's time is made in two: to that time, then, under the new one, on."""
    versions = Versions()
    for at, digest in ((0, "old"), (50, "new")):
        versions.add(at, Topology(Inventory(), digest))
    stage = Told()
    made = begun(SECOND, lambda _: stage, versions=versions)
    made.on_chunk(Log(MID).add(symptom(1, 5), progress(100, 0), progress(100, 1)).chunk())
    assert stage.told == ["adopt old", "1", 50, "adopt new", 100]


def test_a_key_taken_out_is_a_tombstone() -> None:
    """An output without a message removes its key; lag and progress say what has been read."""

    class Removing(CountingStage):
        def process(self, batch: Sequence[Message]) -> list[Output]:
            return [Output(RETAINED, None, "gone")]

    made = begun(FIRST, lambda _: Removing(MID), end=9)
    (record,) = made.on_chunk(Log(IN).add(event(1), event(2)).chunk())
    assert (record.key, record.value) == (b"gone", None)
    assert made.progress(4) == Progress("measure", 0, 1, IDLE_NS, 4, records=2, lag=7 + 9)


def test_a_clock_that_was_not_asked_for_is_not_read() -> None:
    """Nothing but what is rejected needs the time of day."""

    class Broken(Clock):
        def now_ns(self) -> int:
            raise AssertionError("the clock was read")

    made = fold(FIRST, lambda _: CountingStage(MID), clock=Broken())
    made.begin(1, None, {"in": 0, "kept": 0}, {"in": 0, "kept": 0})
    made.on_chunk(Log(IN).add(event(1)).chunk())


def test_an_owner_with_input_ahead_is_not_idle() -> None:
    """Until something was read, an input that holds records may say what is live; a compacted end says nothing."""
    read, nothing = begun(FIRST, lambda _: CountingStage(MID), end=2), begun(FIRST, lambda _: CountingStage(MID))
    assert (begun(FIRST, lambda _: CountingStage(MID), end=2).has_unread_input, nothing.has_unread_input) == (
        True,
        False,
    )
    read.on_chunk(Log(IN).add(event(1)).chunk())
    assert not read.has_unread_input


def test_time_alone_is_no_change_worth_a_snapshot() -> None:
    """Progress by which nothing is said moves the owner on; a message, or something said, is a change."""
    made = begun(SECOND, lambda _: WindowStage(OUT))
    made.on_chunk(Log(MID).add(progress(0, 1), progress(1, 1)).chunk())
    assert (made.changed, made.moved) == (False, True)
    made.snapshot()
    assert (made.changed, made.moved) == (False, False)
    other = begun(SECOND, lambda _: WindowStage(OUT))
    other.on_chunk(Log(MID).add(symptom(1, 5)).chunk())
    assert other.changed

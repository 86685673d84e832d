"""A partition's blocks, with the sink killed before and after everything that it does to the world."""

import asyncio
import dataclasses
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata

from streams.store.params import SinkParams
from streams.store.persist.block_writer import BlockWriter
from streams.store.persist.commit_fence import PartitionLost
from streams.store.persist.partition_reader import PartitionReader
from streams.store.persist.partition_writer import PartitionWriter, SinkContext
from streams.store.persist.persisted_topics import LatencyClass, PersistedTopic
from streams.store.persist.sink_stats import SinkStats
from streams.wire import topics
from streams.wire.models import Control, ControlKind
from tests.fakes.partition import (
    Crash,
    FakeConsumer,
    FakeFence,
    FakeLog,
    FakeRecord,
    FakeRejects,
    FakeTables,
    Fuse,
    OffsetBuilder,
)

AT = TopicPartition(topics.CONTROLS.name, 0)
PARAMS = SinkParams(linger_s=0.002, block_rows=5, retry_backoff_s=0.001, retry_backoff_max_s=0.001)
PERSISTED = PersistedTopic(topics.CONTROLS, ("first", "second"), lambda _asks, _stretch: OffsetBuilder())
VALUE = topics.encode(topics.CONTROLS, Control("k", ControlKind.KILL_SWITCH)).value
POISON = 7
LEAST_ACTS = 12
"""Three blocks at least, each with two commits and two inserts: a run with fewer acts has tried too little."""


def log(records: int, *, missing: frozenset[int] = frozenset()) -> FakeLog:
    """A log whose record at POISON cannot be read, and which compaction has taken some records out of."""
    made = FakeLog()
    for offset in range(records):
        if offset not in missing:
            made.records.append(FakeRecord(offset, b"{" if offset == POISON else VALUE, 1000 + offset))
    return made


def partition(made: FakeLog, tables: FakeTables, fuse: Fuse, most: int = 3) -> PartitionWriter:
    """A new owner of the partition."""
    fence: Any = FakeFence(made, fuse)
    rejects: Any = FakeRejects(made, fuse)
    writer = BlockWriter(tables, PARAMS)
    consumer: Any = FakeConsumer(AT, made, most)
    feed = PartitionReader(consumer, [AT], FakeConsumer.fetched)
    means = SinkContext(consumer, feed, fence, tables, writer, rejects, PARAMS, SinkStats(), lambda: 10**18)
    return PartitionWriter(AT, PERSISTED, means)


async def working(owner: PartitionWriter) -> None:
    """An owner and what feeds it, until it ends."""
    feeding = asyncio.create_task(owner._means.reader.run())
    try:
        await owner.run()
    finally:
        feeding.cancel()


async def run(owner: PartitionWriter, made: FakeLog, turns: int = 20_000) -> None:
    """Let an owner work until it has committed the end of the log, or is killed."""
    task = asyncio.create_task(working(owner))
    end = made.records[-1].offset + 1
    for _ in range(turns):
        if task.done() or (made.committed is not None and made.committed.offset == end):
            break
        await asyncio.sleep(0.0005)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def run_until_killed(made: FakeLog, tables: FakeTables, fuse: Fuse, most: int = 3) -> None:
    """One life of a sink that its fuse may end."""
    tables.fuse = fuse
    with suppress(Crash):
        await run(partition(made, tables, fuse, most), made)


def exact(made: FakeLog, tables: FakeTables) -> None:
    """Each readable record is in each table once, and the other is rejected once."""
    readable = [record.offset for record in made.records if record.offset != POISON]
    assert sorted(tables.rows["first"]) == readable
    assert sorted(tables.rows["second"]) == readable
    assert [one.offset for one in made.rejected] == [POISON]


# A crash inside a thread reaches the event loop as the thread's result, as it is meant to here.
@pytest.mark.parametrize("after", [False, True])
async def test_killed_anywhere_it_stores_everything_once(after: bool) -> None:
    """Killed before or after any commit, rejection or insert, and brought back with other fetches, nothing differs."""
    for act in count(1):
        made, tables = log(17), FakeTables(Fuse())
        fuse = Fuse(act, after)
        await run_until_killed(made, tables, fuse)
        if fuse.left:
            break
        await run_until_killed(made, tables, Fuse(), most=4)
        exact(made, tables)
    assert act > LEAST_ACTS


@pytest.mark.parametrize("after", [False, True])
async def test_killed_twice_while_it_stores_a_block_again(after: bool) -> None:
    """A second kill, in the middle of storing the block that the first one left, changes nothing either."""
    for act in range(1, LEAST_ACTS):
        for again in (1, 2, 3):
            made, tables = log(17), FakeTables(Fuse())
            await run_until_killed(made, tables, Fuse(act, after))
            await run_until_killed(made, tables, Fuse(again, after))
            await run_until_killed(made, tables, Fuse())
            exact(made, tables)


async def test_a_sleeper_that_wakes_with_an_old_block_stores_nothing_twice() -> None:
    """An owner stopped before any act, and let go on after another did all the work, changes nothing."""
    for act in range(1, 8):
        made, tables = log(17), FakeTables(Fuse())
        sleeper = _Sleeper(made, tables, act)
        await sleeper.fall_asleep()
        await run_until_killed(made, tables, Fuse())
        exact(made, tables)
        await sleeper.wake()
        # It may have been about to say that a record cannot be read: the same key then stands there twice.
        assert {one.offset for one in made.rejected} == {POISON}
        made.rejected = made.rejected[:1]
        exact(made, tables)


class _Sleeper:
    """An owner whose n-th act does not begin before it is woken: the commits and rejections wait on an event."""

    def __init__(self, made: FakeLog, tables: FakeTables, act: int) -> None:
        self._awake, self._asleep = asyncio.Event(), asyncio.Event()
        self._left = act
        own = partition(made, tables, Fuse())
        fence: Any = _Waits(own._means.fence, self._before)
        rejects: Any = _Waits(own._means.rejects, self._before)
        own._means = dataclasses.replace(
            own._means,
            fence=fence,
            rejects=rejects,
            writer=_Waits(own._means.writer, self._before),  # type: ignore[arg-type]
        )
        self._owner = own
        self._task: asyncio.Task[None]

    async def _before(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._asleep.set()
            await self._awake.wait()

    async def fall_asleep(self) -> None:
        self._task = asyncio.create_task(working(self._owner))
        await asyncio.wait_for(self._asleep.wait(), 5)

    async def wake(self) -> None:
        self._awake.set()
        with pytest.raises(PartitionLost):
            await asyncio.wait_for(self._task, 5)


class _Waits:
    """Calls `before` ahead of every act of another object."""

    def __init__(self, inner: Any, before: Any) -> None:
        self._inner = inner
        self._before = before

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._inner, name)
        if name in ("committed", "said"):
            return act

        async def waiting(*given: Any, **named: Any) -> Any:
            await self._before()
            return await act(*given, **named)

        return waiting


async def test_clickhouse_away_only_delays() -> None:
    """Requests that fail for a while are asked again; the offset does not move before the rows are there."""
    made, tables = log(17), FakeTables(Fuse())
    tables.away = 9
    await run_until_killed(made, tables, Fuse())
    exact(made, tables)


async def test_a_block_that_the_server_noted_and_lost_is_stored() -> None:
    """A token whose rows went with the server's process does not keep them out for ever."""
    made, tables = log(17), FakeTables(Fuse())
    tables.forgets_rows = True
    await run_until_killed(made, tables, Fuse())
    exact(made, tables)


@pytest.mark.parametrize("pace", [LatencyClass.BULK, LatencyClass.PROMPT])
async def test_where_rows_come_in_numbers_a_block_waits_for_more(pace: LatencyClass) -> None:
    """A bulk topic's block that has its rows after the short wait goes on growing; another is stored after it."""
    made, tables = log(6), FakeTables(Fuse())
    owner = lingering(made, tables, pace)
    await run(owner, made)
    assert sorted(tables.rows["first"]) == list(range(6))
    assert (owner._means.stats.blocks == 1) is (pace is LatencyClass.BULK)


@pytest.mark.parametrize("pace", [LatencyClass.STEADY, LatencyClass.BACKGROUND])
async def test_what_goes_on_gathers_and_what_comes_after_a_silence_does_not_wait(pace: LatencyClass) -> None:
    """The first block is stored after the short wait, and those that follow it are one."""
    made, tables = log(6), FakeTables(Fuse())
    owner = lingering(made, tables, pace)
    await run(owner, made)
    assert sorted(tables.rows["first"]) == list(range(6))
    assert owner._means.stats.blocks == 2


async def test_records_that_make_no_rows_hurry_nobody() -> None:
    """They wait for rows as long as rows may; those that come then are stored at once, and the offset is past all."""
    made, tables = log(6), FakeTables(Fuse())
    progress = (("type", b"progress"),)
    made.records[:4] = [FakeRecord(offset, b"", 1000 + offset, progress) for offset in range(4)]
    owner = lingering(made, tables, LatencyClass.PROMPT)
    owner._others = frozenset({b"progress"})
    await run(owner, made)
    assert sorted(tables.rows["first"]) == [4, 5]
    assert owner._means.stats.blocks == 1


def lingering(made: FakeLog, tables: FakeTables, pace: LatencyClass) -> PartitionWriter:
    """An owner that waits for two rows, or hardly at all, and then for half a second, or for its slow topic longer."""
    most_s = 1e-9 if pace is LatencyClass.BACKGROUND else 0.5
    params = SinkParams(
        linger_s=1e-9, linger_max_s=most_s, linger_background_s=0.5, bulk_rows=2, block_rows=100, retry_backoff_s=0.001
    )
    owner = partition(made, tables, Fuse(), most=2)
    owner._means = dataclasses.replace(owner._means, params=params)
    owner._persisted = dataclasses.replace(PERSISTED, latency=pace)
    return owner


@pytest.mark.parametrize("value", [b"\x08\x01", b"\xff\xff"])
async def test_another_message_that_the_topic_may_hold_is_passed_over_unread(value: bytes) -> None:
    """Progress stands among symptoms; it is no row, whatever its bytes, and no rejection."""
    made, tables = log(3), FakeTables(Fuse())
    made.records.insert(1, FakeRecord(1, value, 1001, (("type", b"progress"),)))
    made.records[2:] = [FakeRecord(offset, VALUE, 1000 + offset) for offset in (2, 3)]
    owner = partition(made, tables, Fuse())
    owner._others = frozenset({b"progress"})
    await run(owner, made)
    assert sorted(tables.rows["first"]) == [0, 2, 3]
    assert made.rejected == []


async def test_records_that_compaction_took_are_not_waited_for() -> None:
    """A block whose first and last records are gone when it is stored again ends all the same."""
    made, tables = log(17), FakeTables(Fuse())
    await run_until_killed(made, tables, Fuse(2))
    assert made.committed is not None and '"last"' in made.committed.metadata
    made.records = [record for record in made.records if record.offset not in (0, 4, 5)]
    await run_until_killed(made, tables, Fuse())
    assert sorted(set(tables.rows["first"])) == [r.offset for r in made.records if r.offset != POISON]


async def test_without_an_offset_it_begins_after_what_is_stored() -> None:
    """A group whose offset the brokers have forgotten doubles nothing."""
    made, tables = log(17), FakeTables(Fuse())
    await run_until_killed(made, tables, Fuse())
    made.committed = None
    await run(partition(made, tables, Fuse(), most=5), made, turns=40)
    exact(made, tables)


async def test_a_topic_made_anew_is_stored_from_its_beginning() -> None:
    """A topic whose end is before what is stored is another topic: it has its own offsets and tokens."""
    made, tables = log(17), FakeTables(Fuse())
    await run_until_killed(made, tables, Fuse())
    again = FakeLog([FakeRecord(offset, VALUE, 5000 + offset) for offset in range(4)])
    await run_until_killed(again, tables, Fuse())
    assert sorted(tables.rows["first"])[:8] == [0, 0, 1, 1, 2, 2, 3, 3]


async def test_after_a_rewind_only_what_is_new_is_stored() -> None:
    """A log that lost its end and grew again: records that came after the last block are stored, no others again."""
    made, tables = log(17), FakeTables(Fuse())
    await run_until_killed(made, tables, Fuse())
    assert made.committed is not None
    made.records = made.records[:12] + [FakeRecord(offset, VALUE, 9000 + offset) for offset in range(12, 15)]
    owner = partition(made, tables, Fuse())
    owner._means.consumer.seek = _rewound(owner._means.consumer)
    task = asyncio.create_task(working(owner))
    for _ in range(2000):
        if len(tables.rows["second"]) == 16 + 3:
            break
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert sorted(tables.rows["first"]) == sorted([*(o for o in range(17) if o != POISON), 12, 13, 14])


def _rewound(consumer: Any) -> Any:
    """As the driver does where a position is past the end of the log: it begins at the beginning."""
    seek = consumer.seek

    def clipped(at: TopicPartition, offset: int) -> None:
        end = consumer._log.records[-1].offset + 1
        seek(at, 0 if offset > end else offset)

    return clipped


def test_offsets_of_others_are_taken_as_they_are() -> None:
    """Metadata that this sink did not write says only where to begin."""
    from streams.store.persist.block_intent import Committed, parse_metadata

    for metadata in ("", "{", "[]", '{"v":9,"last":3}', "null"):
        assert parse_metadata("t", 0, 5, metadata) == Committed(0)
    assert OffsetAndMetadata(5, "").offset == 5

"""Tests a partition's blocks, with the sink killed before and after each of its external effects."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata

from lab.constants import with_constants
from streams.store.params import SinkParams
from streams.store.persist.block_builder import SinkStats
from streams.store.persist.block_writer import BlockIntent, BlockWriter, Committed, parse_metadata
from streams.store.persist.partition_offsets import PartitionLost
from streams.store.persist.partition_reader import PartitionReader
from streams.store.persist.partition_writer import PartitionWriter, SinkContext
from streams.store.persist.persisted_topics import LatencyClass, PersistedTopic
from streams.wire import topics
from streams.wire.models import Control, ControlKind, Progress
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
PARAMS = with_constants(SinkParams, block_rows=5, retry_backoff_s=0.001, retry_backoff_max_s=0.001, linger_s=0.002)()
PERSISTED = PersistedTopic(topics.CONTROLS, ("first", "second"), lambda _client, _offsets: OffsetBuilder())
WITH_PROGRESS = dataclasses.replace(PERSISTED, topic=dataclasses.replace(topics.CONTROLS, other_models=(Progress,)))
VALUE = topics.encode(topics.CONTROLS, Control("k", ControlKind.KILL_SWITCH)).value
POISON = 7
MIN_EFFECTS = 12
"""Three blocks at least, each with two commits and two inserts; a run with fewer effects tests too little."""


def log(records: int, *, missing: frozenset[int] = frozenset()) -> FakeLog:
    """Return a log whose record at POISON cannot be read, without the records that compaction removed."""
    made = FakeLog()
    for offset in range(records):
        if offset not in missing:
            made.records.append(FakeRecord(offset, b"{" if offset == POISON else VALUE, 1000 + offset))
    return made


class Owner:
    """A new owner of the partition; `before` is awaited ahead of each of its effects."""

    def __init__(
        self,
        made: FakeLog,
        tables: FakeTables,
        fuse: Fuse,
        max_records: int = 3,
        params: SinkParams = PARAMS,
        persisted: PersistedTopic = PERSISTED,
        *,
        consumer: FakeConsumer | None = None,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.stats, self.rejects = SinkStats(), FakeRejects(made, fuse)
        reading: Any = consumer or FakeConsumer(AT, made, max_records)
        effects: list[Any] = [FakeFence(made, fuse), BlockWriter(tables, PARAMS), self.rejects]
        if before is not None:
            effects = [_CallsBefore(one, before) for one in effects]
        fence, writer, rejects = effects
        self._reader = PartitionReader(reading, [AT], type(reading).fetch)
        self._writer = PartitionWriter(
            AT,
            persisted,
            SinkContext(reading, self._reader, fence, tables, writer, rejects, params, self.stats, lambda: 10**18),
        )

    async def run(self) -> None:
        """Run with its reader until it ends."""
        reading = asyncio.create_task(self._reader.run())
        try:
            await self._writer.run()
        finally:
            reading.cancel()


async def run(owner: Owner, made: FakeLog, turns: int = 20_000) -> None:
    """Run an owner until it has committed the end of the log, or is killed."""
    task = asyncio.create_task(owner.run())
    end = made.records[-1].offset + 1
    for _ in range(turns):
        if task.done() or (made.committed is not None and made.committed.offset == end):
            break
        await asyncio.sleep(0.0005)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def run_until_killed(made: FakeLog, tables: FakeTables, fuse: Fuse, max_records: int = 3) -> None:
    """Run a sink that its fuse may kill."""
    tables.fuse = fuse
    with suppress(Crash):
        await run(Owner(made, tables, fuse, max_records), made)


def assert_exactly_once(made: FakeLog, tables: FakeTables) -> None:
    """Assert that each readable record is in each table once, and the other is rejected once."""
    readable = [record.offset for record in made.records if record.offset != POISON]
    assert sorted(tables.rows["first"]) == readable
    assert sorted(tables.rows["second"]) == readable
    assert [one.offset for one in made.rejected] == [POISON]


# A crash inside a thread reaches the event loop as the thread's result, which is intended here.
@pytest.mark.parametrize("after", [False, True])
async def test_a_kill_at_any_point_neither_loses_nor_duplicates_rows(after: bool) -> None:
    """A kill before or after any commit, rejection or insert, and a restart with other fetches, change nothing."""
    for effect in count(1):
        made, tables = log(17), FakeTables(Fuse())
        fuse = Fuse(effect, after)
        await run_until_killed(made, tables, fuse)
        if fuse.left:
            break
        await run_until_killed(made, tables, Fuse(), max_records=4)
        assert_exactly_once(made, tables)
    assert effect > MIN_EFFECTS


@pytest.mark.parametrize("after", [False, True])
async def test_a_second_kill_while_a_block_is_stored_again_changes_nothing(after: bool) -> None:
    """A second kill, while the unfinished block of the first is stored again, changes nothing either."""
    for effect in range(1, MIN_EFFECTS):
        for second in (1, 2, 3):
            made, tables = log(17), FakeTables(Fuse())
            await run_until_killed(made, tables, Fuse(effect, after))
            await run_until_killed(made, tables, Fuse(second, after))
            await run_until_killed(made, tables, Fuse())
            assert_exactly_once(made, tables)


async def test_a_suspended_owner_that_resumes_with_an_old_block_duplicates_nothing() -> None:
    """An owner that is suspended before any effect, and resumes after another stored everything, changes nothing."""
    for effect in range(1, 8):
        made, tables = log(17), FakeTables(Fuse())
        suspended = _SuspendedOwner(made, tables, effect)
        await suspended.suspend()
        await run_until_killed(made, tables, Fuse())
        assert_exactly_once(made, tables)
        await suspended.resume()
        # It may have been about to reject the unreadable record: the topic then has the same key twice.
        assert {one.offset for one in made.rejected} == {POISON}
        made.rejected = made.rejected[:1]
        assert_exactly_once(made, tables)


class _SuspendedOwner:
    """An owner whose n-th effect does not begin before it is resumed: commits and rejections wait on an event."""

    def __init__(self, made: FakeLog, tables: FakeTables, effect: int) -> None:
        self._resumed, self._suspended = asyncio.Event(), asyncio.Event()
        self._left = effect
        self._owner = Owner(made, tables, Fuse(), before=self._before)
        self._task: asyncio.Task[None]

    async def _before(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._suspended.set()
            await self._resumed.wait()

    async def suspend(self) -> None:
        self._task = asyncio.create_task(self._owner.run())
        await asyncio.wait_for(self._suspended.wait(), 5)

    async def resume(self) -> None:
        self._resumed.set()
        with pytest.raises(PartitionLost):
            await asyncio.wait_for(self._task, 5)


class _CallsBefore:
    """Awaits `before` ahead of every effect of another object."""

    def __init__(self, inner: Any, before: Any) -> None:
        self._inner = inner
        self._before = before

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name in ("committed", "already_rejected"):
            return method

        async def waiting(*args: Any, **kwargs: Any) -> Any:
            await self._before()
            return await method(*args, **kwargs)

        return waiting


async def test_an_unavailable_clickhouse_only_delays() -> None:
    """Failed requests are retried; the offset is not committed before the rows are stored."""
    made, tables = log(17), FakeTables(Fuse())
    tables.failures = 9
    await run_until_killed(made, tables, Fuse())
    assert_exactly_once(made, tables)


async def test_a_block_with_a_recorded_token_and_no_rows_is_stored() -> None:
    """A token whose rows were lost when the server was killed does not block them for ever."""
    made, tables = log(17), FakeTables(Fuse())
    tables.loses_rows = True
    await run_until_killed(made, tables, Fuse())
    assert_exactly_once(made, tables)


@pytest.mark.parametrize("latency", [LatencyClass.STEADY, LatencyClass.BACKGROUND])
async def test_a_steady_stream_is_batched_and_the_first_record_after_a_silence_is_not(latency: LatencyClass) -> None:
    """The first block is stored after the short wait, and those that follow it are one; of a prompt topic all are."""
    made, tables = log(6), FakeTables(Fuse())
    owner = lingering(made, tables, latency)
    await run(owner, made)
    assert sorted(tables.rows["first"]) == list(range(6))
    assert owner.stats.blocks == 2


async def test_records_without_rows_wait_for_the_longest_linger() -> None:
    """They wait for rows as long as rows may; rows that follow are stored at once, and the offset is past all."""
    made, tables = log(6), FakeTables(Fuse())
    progress = (("type", b"progress"),)
    made.records[:4] = [FakeRecord(offset, b"", 1000 + offset, progress) for offset in range(4)]
    owner = lingering(made, tables, LatencyClass.PROMPT, WITH_PROGRESS)
    await run(owner, made)
    assert sorted(tables.rows["first"]) == [4, 5]
    assert owner.stats.blocks == 1


def lingering(made: FakeLog, tables: FakeTables, latency: LatencyClass, persisted: PersistedTopic = PERSISTED) -> Owner:
    """Return an owner that reads two rows at once and waits hardly at all, or half a second for those that follow."""
    max_s = 1e-9 if latency is LatencyClass.BACKGROUND else 0.5
    params = with_constants(
        SinkParams,
        linger_max_s=max_s,
        linger_background_s=0.5,
        block_rows=100,
        retry_backoff_s=0.001,
        linger_s=1e-9,
    )()
    persisted = dataclasses.replace(persisted, latency=latency)
    return Owner(made, tables, Fuse(), max_records=2, params=params, persisted=persisted)


@pytest.mark.parametrize("value", [b"\x08\x01", b"\xff\xff"])
async def test_another_message_type_of_the_topic_is_skipped_without_decoding(value: bytes) -> None:
    """Progress is mixed with symptoms; whatever its bytes, it makes neither a row nor a rejection."""
    made, tables = log(3), FakeTables(Fuse())
    made.records.insert(1, FakeRecord(1, value, 1001, (("type", b"progress"),)))
    made.records[2:] = [FakeRecord(offset, VALUE, 1000 + offset) for offset in (2, 3)]
    owner = Owner(made, tables, Fuse(), persisted=WITH_PROGRESS)
    await run(owner, made)
    assert sorted(tables.rows["first"]) == [0, 2, 3]
    assert made.rejected == []


async def test_records_removed_by_compaction_are_not_awaited() -> None:
    """A block whose first and last records are removed before it is stored again still ends."""
    made, tables = log(17), FakeTables(Fuse())
    await run_until_killed(made, tables, Fuse(2))
    assert made.committed is not None and '"last"' in made.committed.metadata
    made.records = [record for record in made.records if record.offset not in (0, 4, 5)]
    await run_until_killed(made, tables, Fuse())
    assert sorted(set(tables.rows["first"])) == [r.offset for r in made.records if r.offset != POISON]


class _RecordsWithTheEnd(FakeConsumer):
    """Fetches the records of an unfinished block only while the broker is queried for the end of the partition."""

    asked = False

    async def fetch(self) -> list[tuple[TopicPartition, Any]]:
        await asyncio.sleep(0.001)
        return await super().fetch() if self.asked else []

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked = True
        for _ in range(1000):
            if self._position > self._log.records[-1].offset:
                break
            await asyncio.sleep(0.001)
        return await super().end_offsets(partitions)


async def test_records_that_arrive_while_the_end_is_queried_belong_to_an_unfinished_block() -> None:
    """A broker that is slow to send the block's records, and fast to send the end, loses none of them."""
    made, tables = log(3), FakeTables(Fuse())
    await run_until_killed(made, tables, Fuse(2))
    assert made.committed is not None and '"last"' in made.committed.metadata
    owner = Owner(made, tables, Fuse(), consumer=_RecordsWithTheEnd(AT, made, 10))
    await run(owner, made)
    assert sorted(tables.rows["first"]) == [0, 1, 2]
    assert owner.stats.lost == 0


async def test_a_group_without_an_offset_starts_after_the_stored_rows() -> None:
    """A group whose offset has expired at the broker duplicates nothing."""
    made, tables = log(17), FakeTables(Fuse())
    await run_until_killed(made, tables, Fuse())
    made.committed = None
    await run(Owner(made, tables, Fuse(), max_records=5), made, turns=40)
    assert_exactly_once(made, tables)


async def test_a_recreated_topic_is_stored_from_its_beginning() -> None:
    """A topic whose end is before the stored offsets is another topic, with offsets and tokens of its own."""
    made, tables = log(17), FakeTables(Fuse())
    await run_until_killed(made, tables, Fuse())
    recreated = FakeLog([FakeRecord(offset, VALUE, 5000 + offset) for offset in range(4)])
    await run_until_killed(recreated, tables, Fuse())
    assert sorted(tables.rows["first"])[:8] == [0, 0, 1, 1, 2, 2, 3, 3]


async def test_after_a_rewind_only_new_records_are_stored() -> None:
    """In a log that lost its end and grew again, records newer than the last block are stored, and no others again."""
    made, tables = log(17), FakeTables(Fuse())
    await run_until_killed(made, tables, Fuse())
    assert made.committed is not None
    made.records = made.records[:12] + [FakeRecord(offset, VALUE, 9000 + offset) for offset in range(12, 15)]
    owner = Owner(made, tables, Fuse(), consumer=_Rewound(AT, made, 3))
    task = asyncio.create_task(owner.run())
    for _ in range(2000):
        if len(tables.rows["second"]) == 16 + 3:
            break
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert sorted(tables.rows["first"]) == sorted([*(o for o in range(17) if o != POISON), 12, 13, 14])


class _Rewound(FakeConsumer):
    """Starts, like the driver, at the beginning where a position is past the end of the log."""

    def seek(self, at: TopicPartition, offset: int) -> None:
        end = self._log.records[-1].offset + 1
        super().seek(at, 0 if offset > end else offset)


def test_metadata_of_another_writer_means_only_the_offset() -> None:
    """An offset with metadata that this sink did not write is only a start position."""
    for metadata in ("", "{", "[]", '{"v":9,"last":3}', "null"):
        assert parse_metadata("t", 0, 5, metadata) == Committed(0)
    assert OffsetAndMetadata(5, "").offset == 5


@pytest.mark.parametrize(("retention_s", "begin", "lost"), [(None, 50, []), (3600, 50, [4, 30]), (3600, None, [4])])
async def test_records_that_retention_deleted_are_counted(
    retention_s: int | None, begin: int | None, lost: list[int]
) -> None:
    """Deleted while the sink was away, and while it ran; a gap of compaction or of transactions loses nothing."""
    persisted = dataclasses.replace(PERSISTED, topic=dataclasses.replace(topics.CONTROLS, retention_s=retention_s))
    made, tables = log(60, missing=frozenset(range(20, 50))), FakeTables(Fuse())
    made.committed = OffsetAndMetadata(2, Committed(1001).metadata())
    del made.records[:6]
    made.begin = begin
    owner = Owner(made, tables, Fuse(), persisted=persisted)
    await run(owner, made)
    assert owner.stats.lost == sum(lost)
    reported = owner.rejects.losses
    assert [count for _, count, _ in reported] == lost
    assert not retention_s or reported[0] == (2, 4, False)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("deleted", [3, 17])
async def test_a_loss_inside_an_unfinished_block_is_counted(stored: bool, deleted: int) -> None:
    """Records of a block that a killed sink had announced count as lost, unless it had stored them.

    Retention deleted a part of the block, or all of it and what follows.
    """
    persisted = dataclasses.replace(PERSISTED, topic=dataclasses.replace(topics.CONTROLS, retention_s=3600))
    made, tables = log(20), FakeTables(Fuse())
    intent = BlockIntent(AT.topic, AT.partition, 0, 4, 1000)
    made.committed = OffsetAndMetadata(0, intent.metadata())
    if stored:
        tables.rows = {table: [0, 1, 2, 3, 4] for table in persisted.tables}
        tables.tokens = {table: [intent.token] for table in persisted.tables}
    del made.records[:deleted]
    owner = Owner(made, tables, Fuse(), persisted=persisted)
    await run(owner, made)
    in_block = min(deleted, 5)
    assert owner.stats.lost == deleted - (in_block if stored else 0)

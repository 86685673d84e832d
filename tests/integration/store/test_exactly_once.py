"""Tests that acknowledged messages are in ClickHouse exactly once, whatever is killed or suspended."""

import asyncio
import random
import signal
from collections import Counter
from functools import partial

import pytest
from aiokafka import TopicPartition

from lab.constants import with_constants
from streams.store.params import SinkParams
from streams.store.persist.partition_offsets import CommitFence, PartitionLost
from streams.store.persist.sink import Sink
from streams.wire import topics
from tests.integration.store.rig import ROWS, Database, Rig, until

KILLS = 10


def _grew(database: Database, before: int) -> bool:
    return database.count("sample_messages") > before


def _assert_exactly_once(rig: Rig, database: Database) -> None:
    """Assert that every acknowledged message is stored once, with all its rows and lanes."""
    stored = Counter(database.stored())
    assert {key for key, times in stored.items() if times > 1} == set()
    assert set(stored) == set(rig.sent)
    assert database.count("samples") == ROWS * len(rig.sent)
    assert database.count("sample_lanes") == 2 * ROWS * len(rig.sent)
    twice = "SELECT count() FROM (SELECT device, row, sequence FROM samples GROUP BY ALL HAVING count() > 1)"
    assert database.rows(twice) == [(0,)]
    _assert_minutes(database)


def _assert_minutes(database: Database) -> None:
    """Assert that every minute but the last is rolled up once, with its growth: one in 10 s, 20 s of the first."""
    minutes = dict(database.rows("SELECT device, uniqExact(toStartOfMinute(sampled_at)) FROM samples GROUP BY device"))
    rolled = database.rows(
        "SELECT device, row, count(), uniqExact(bucket), sum(rx_bytes_increase), sum(observed_s), sum(resets)"
        " FROM samples_1m GROUP BY device, row"
    )
    assert len(rolled) == ROWS * len(minutes)
    for device, _, count, buckets, grown, observed_s, resets in rolled:
        assert count == buckets == minutes[device] - 1
        assert (grown, observed_s, resets) == (6 * buckets - 4, 60 * buckets - 40, 0)


async def _assert_complete(rig: Rig, database: Database) -> None:
    """Wait for all sent messages, then assert that each is stored once."""
    await until(lambda: database.count("sample_messages") >= len(rig.sent))
    # A duplicate would arrive within a block's time of the last row.
    await until(lambda: database.count("sample_messages") > len(rig.sent), within_s=1.0)
    await asyncio.to_thread(_assert_exactly_once, rig, database)


async def test_killed_sinks_and_a_killed_clickhouse_neither_lose_nor_duplicate_rows(
    rig: Rig, database: Database
) -> None:
    """After ten kills of a sink at random moments and two of ClickHouse, each row is stored once."""
    rng = random.Random(20261121)
    sending = asyncio.create_task(rig.produce(rounds=120, devices=6, pause_s=0.15))
    for turn in range(KILLS):
        sink = database.start_sink(instance="one")
        before = database.count("sample_messages")
        await until(partial(_grew, database, before), within_s=10)  # not asserted: all may be stored already
        await asyncio.sleep(rng.uniform(0, 0.6))  # varies the moment of the kill; nothing is awaited
        if turn in (3, 7):
            rig.clickhouse.kill()
            await asyncio.sleep(rng.uniform(0, 0.5))
        sink.kill()
        sink.wait(10)
        if turn in (3, 7):
            await asyncio.to_thread(rig.clickhouse.start)
    await sending
    database.start_sink(instance="one")
    await _assert_complete(rig, database)


async def test_a_sink_that_resumes_after_a_takeover_duplicates_nothing(rig: Rig, database: Database) -> None:
    """One of two sinks of a group is suspended for longer than its session, then resumed."""
    suspended = database.start_sink()
    before = database.count("sample_messages")
    await rig.produce(rounds=1, devices=6, pause_s=0)
    assert await until(lambda: database.count("sample_messages") > before)
    # Sent only now: a sink that starts slowly would read all at once, and nothing would arrive after the suspension.
    sending = asyncio.create_task(rig.produce(rounds=90, devices=6, pause_s=0.15))
    database.start_sink()
    suspended.send_signal(signal.SIGSTOP)
    stopped_at = database.count("sample_messages")
    assert await until(lambda: database.count("sample_messages") > stopped_at + 60)
    suspended.send_signal(signal.SIGCONT)
    await sending
    await _assert_complete(rig, database)
    assert suspended.poll() is None


async def test_a_sink_waits_for_clickhouse_and_loses_nothing(rig: Rig, database: Database) -> None:
    """ClickHouse is killed and restarted some seconds later: the running sink continues by itself."""
    sink = database.start_sink()
    sending = asyncio.create_task(rig.produce(rounds=40, devices=6, pause_s=0.1))
    assert await until(lambda: database.count("sample_messages") > 0)
    rig.clickhouse.kill()
    await sending
    await asyncio.to_thread(rig.clickhouse.start)
    await _assert_complete(rig, database)
    assert sink.poll() is None


async def test_a_commit_that_is_refused_without_a_rebalance_lets_the_sink_join_again(
    rig: Rig, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that reads its groups again may refuse the current generation; no other sink has the partition then."""
    refused: set[TopicPartition] = set()
    commit = CommitFence.commit

    async def refuse_once(fence: CommitFence, at: TopicPartition, offset: int, metadata: str) -> None:
        if at.topic == topics.SAMPLES.name and at not in refused:
            refused.add(at)
            raise PartitionLost(f"{at.topic}/{at.partition}: IllegalGenerationError")
        await commit(fence, at, offset, metadata)

    monkeypatch.setattr(CommitFence, "commit", refuse_once)
    constants = {
        "group": database.name, "linger_s": 0.2, "linger_max_s": 0.2, "session_timeout_s": 6,
        "retry_backoff_max_s": 1,
    }  # fmt: skip
    params = with_constants(SinkParams, **constants)()
    sink, stop = Sink(database.client, {"bootstrap_servers": rig.kafka.bootstrap}, params), asyncio.Event()
    running = asyncio.create_task(sink.run(stop))
    try:
        await rig.produce(rounds=20, devices=6, pause_s=0.1)
        await _assert_complete(rig, database)
        assert refused
    finally:
        stop.set()
        await running

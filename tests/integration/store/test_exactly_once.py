"""What Kafka acknowledged is in ClickHouse once, whatever is killed or paused."""

import asyncio
import random
import signal
from collections import Counter
from functools import partial

from tests.integration.store.rig import ROWS, Database, Rig, until

KILLS = 10


def _grew(database: Database, begun: int) -> bool:
    return database.count("sample_messages") > begun


def _exact(rig: Rig, database: Database) -> None:
    """Every acknowledged message is stored once, with all its rows and lanes."""
    stored = Counter(database.stored())
    assert {key for key, times in stored.items() if times > 1} == set()
    assert set(stored) == set(rig.sent)
    assert database.count("samples") == ROWS * len(rig.sent)
    assert database.count("sample_lanes") == 2 * ROWS * len(rig.sent)
    twice = "SELECT count() FROM (SELECT device, row, sequence FROM samples GROUP BY ALL HAVING count() > 1)"
    assert database.rows(twice) == [(0,)]


async def _whole(rig: Rig, database: Database) -> None:
    """Wait for everything that was sent, then look whether it is exact."""
    await until(lambda: database.count("sample_messages") >= len(rig.sent))
    # Whatever would double a row comes within a block's time of the last one.
    await until(lambda: database.count("sample_messages") > len(rig.sent), within_s=1.0)
    await asyncio.to_thread(_exact, rig, database)


async def test_killed_sinks_and_a_killed_clickhouse_lose_and_double_nothing(rig: Rig, database: Database) -> None:
    """A sink killed at ten random moments, and ClickHouse killed twice between, leave each row there once."""
    chance = random.Random(20261121)
    sending = asyncio.create_task(rig.produce(rounds=120, devices=6, pause_s=0.15))
    for turn in range(KILLS):
        sink = database.start_sink(instance="one")
        begun = database.count("sample_messages")
        await until(partial(_grew, database, begun), within_s=10)
        await asyncio.sleep(chance.uniform(0, 0.6))  # the moment of the kill is what varies, not what is waited for
        if turn in (3, 7):
            rig.clickhouse.kill()
            await asyncio.sleep(chance.uniform(0, 0.5))
        sink.kill()
        sink.wait(10)
        if turn in (3, 7):
            await asyncio.to_thread(rig.clickhouse.start)
    await sending
    database.start_sink(instance="one")
    await _whole(rig, database)


async def test_a_sink_that_slept_while_another_took_over_doubles_nothing(rig: Rig, database: Database) -> None:
    """Of two sinks of one group, one is stopped for longer than its session and then goes on."""
    sleeper = database.start_sink()
    begun = database.count("sample_messages")
    await rig.produce(rounds=1, devices=6, pause_s=0)
    assert await until(lambda: database.count("sample_messages") > begun)
    # Only now: a sink that begins slowly would find all of it at once, and nothing would come after the stop.
    sending = asyncio.create_task(rig.produce(rounds=90, devices=6, pause_s=0.15))
    database.start_sink()
    sleeper.send_signal(signal.SIGSTOP)
    stopped_at = database.count("sample_messages")
    assert await until(lambda: database.count("sample_messages") > stopped_at + 60)
    sleeper.send_signal(signal.SIGCONT)
    await sending
    await _whole(rig, database)
    assert sleeper.poll() is None


async def test_a_sink_waits_for_clickhouse_and_loses_nothing(rig: Rig, database: Database) -> None:
    """ClickHouse killed under a running sink and back some seconds later: the sink goes on by itself."""
    sink = database.start_sink()
    sending = asyncio.create_task(rig.produce(rounds=40, devices=6, pause_s=0.1))
    assert await until(lambda: database.count("sample_messages") > 0)
    rig.clickhouse.kill()
    await sending
    await asyncio.to_thread(rig.clickhouse.start)
    await _whole(rig, database)
    assert sink.poll() is None

"""Tests sharing by Kafka's group protocol: targets of a killed member move, a paused member stops reading."""

import asyncio
import signal
from pathlib import Path

import pytest

from collectors.core.params import Core
from collectors.core.shard_assignment import ShardAssignment
from collectors.core.tasks import cancel_and_wait
from streams.config.kafka import KafkaSettings
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.runtime.admin import ensure_topics
from streams.wire.errors import Misconfigured
from streams.wire.topics import TARGETS, Partitions
from tests.fixtures.waiting import until
from tests.integration.collectors.sharing import CADENCE_S, SESSION_S, Sharing, sharing
from tests.integration.fixtures_kafka import Broker

SLACK_S = 1.5
"""Margin for a machine of two cores that runs all processes, a broker and forty switches."""
START_S = 40.0


async def shared_by_two(now: Sharing) -> None:
    """Start two members, and wait until each reads its own targets and no target has two readers."""
    now.start("a")
    now.start("b")

    def settled() -> bool:
        since_s = max((at_s for reads in now.read.values() for at_s, _ in reads), default=0.0) - CADENCE_S * 1.5
        readers = now.readers(since_s)
        return all(len(who) == 1 for who in readers.values()) and set().union(*readers.values()) == {"a", "b"}

    await now.until(settled, START_S)


async def test_the_targets_of_a_killed_collector_are_read_within_the_session_and_a_cadence(
    kafka: Broker, tmp_path: Path
) -> None:
    """All targets are read again by the other member, and none has two readers meanwhile."""
    async with sharing(kafka.bootstrap, tmp_path) as now:
        assert len(now.devices) >= 40
        await shared_by_two(now)
        killed_s = now.signal("a", signal.SIGKILL)
        bound_s = SESSION_S + CADENCE_S
        await now.until(
            lambda: all(who == {"b"} for who in now.readers(killed_s + 0.1).values()), bound_s + SLACK_S + 5
        )
        first_s = {
            device: min(at_s for at_s, who in reads if who == "b" and at_s > killed_s)
            for device, reads in now.read.items()
        }
        assert max(first_s.values()) - killed_s <= bound_s + SLACK_S


async def test_a_collector_that_was_paused_stops_reading_its_lost_targets(kafka: Broker, tmp_path: Path) -> None:
    """It resumes long after its session: its devices are the other's, and soon each has one reader again."""
    async with sharing(kafka.bootstrap, tmp_path) as now:
        await shared_by_two(now)
        paused_s = now.signal("a", signal.SIGSTOP)
        await now.until(
            lambda: all(who == {"b"} for who in now.readers(paused_s + 0.5).values()), SESSION_S + CADENCE_S + 10
        )
        woken_s = now.signal("a", signal.SIGCONT)
        # It rejoins: the group rebalances, and each device has one reader again.
        await now.until(
            lambda: (
                set().union(*now.readers(woken_s + SESSION_S).values()) == {"a", "b"}
                and all(now.readers(woken_s + SESSION_S).values())
            ),
            3 * SESSION_S,
        )
        after = now.readers(woken_s + SESSION_S)
        assert all(len(who) == 1 for who in after.values())
        lost = [device for device, who in after.items() if who == {"b"}]
        overlapping = now.readers(woken_s + CADENCE_S)
        assert lost and all(overlapping[device] == {"b"} for device in lost)


async def test_an_unavailable_kafka_removes_no_shard(tmp_path: Path) -> None:
    """It cannot reassign targets either, and readings go to the spool meanwhile."""
    embedded, emitted = EmbeddedKafka(KafkaParams(data=tmp_path / "kafka")), list[frozenset[int]]()
    await asyncio.to_thread(embedded.start)
    try:
        await ensure_topics(KafkaSettings(bootstrap=embedded.bootstrap), [TARGETS])
        core = Core(client_options={"bootstrap_servers": embedded.bootstrap})
        taking_part = asyncio.create_task(ShardAssignment(core, "alone", SESSION_S, emitted.append).run())
        all_of_them = frozenset(range(8))
        await until(lambda: all_of_them in emitted, 30)
        await asyncio.to_thread(embedded.stop)
        await asyncio.sleep(SESSION_S + 2)
        await asyncio.to_thread(embedded.start)
        await asyncio.sleep(2)
        assert emitted == [all_of_them]
        assert not taking_part.done()
    finally:
        await cancel_and_wait(taking_part)
        await asyncio.to_thread(embedded.stop)


async def test_a_targets_topic_of_another_number_of_partitions_is_refused(kafka: Broker) -> None:
    """The other members rely on a target's shard."""
    await ensure_topics(KafkaSettings(bootstrap=kafka.bootstrap), [TARGETS])
    core = Core(client_options={"bootstrap_servers": kafka.bootstrap}, partitions=Partitions(telemetry=5))
    with pytest.raises(Misconfigured, match="8 partitions where 5"):
        await asyncio.wait_for(ShardAssignment(core, "wrong", SESSION_S, lambda _: None).run(), 20)

"""The bridge at work, on a topic and a Kafka of its own making."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from collectors.bridge.bridge import Bridge
from collectors.bridge.delivery import CommittedState, Ledger, Place, committed_state, state_at
from collectors.bridge.fold import Position
from collectors.bridge.params import Params
from collectors.bridge.points import Source
from collectors.bridge.read import Batch, Lost
from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics
from lab.constants import params_of
from streams.wire.errors import Retry
from streams.wire.models import CollectorStatus, Rejected, Samples
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.bridge_records import START_NS, S, octets
from tests.fixtures.waiting import until

PLACE: Place = ("peers", 0)


class Topic:
    """One partition with what was committed of it: what outlives a process."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.committed: tuple[int, str] | None = None


class FakeReader:
    """A Reader of one partition. `broken` commits fail once each; `is_lost` simulates a rebalance."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.at = 0
        self.broken = 0
        self.is_lost = False
        self.order: list[str] = []

    def assigned(self) -> set[Place]:
        return {PLACE}

    async def begin(self, place: Place) -> tuple[int, CommittedState | None]:
        offset, metadata = self.topic.committed or (0, "")
        self.at, self.is_lost = offset, False
        return offset, committed_state(metadata)

    async def poll(self, wait_s: float) -> Batch:
        await asyncio.sleep(0.001)
        came = [Source(n, 0, self.topic.records[n]) for n in range(self.at, len(self.topic.records))]
        self.at += len(came)
        return [(PLACE, came)] if came else []

    async def commit(self, positions: dict[Place, tuple[int, str]]) -> None:
        if self.broken:
            self.broken -= 1
            raise Retry("away")
        if self.is_lost:
            raise Lost("moved")
        self.topic.committed = positions[PLACE]
        self.order.append(f"commit {positions[PLACE][0]}")


class Kafka(RecordingPublisher):
    """A publisher that counts its records as the own one does; it acknowledges while `is_open`."""

    def __init__(self, reader: FakeReader) -> None:
        super().__init__()
        self.metrics = CollectorMetrics()
        self.is_open = True
        self._reader = reader

    def offer(self, record: Any, rows: int = 0) -> bool:
        self._reader.order.append(record.topic.name.split(".")[1])
        self.metrics.add("offered", record.topic.name)
        accepted = super().offer(record, rows)
        if self.is_open:
            self.acknowledge()
        return accepted

    def acknowledge(self) -> None:
        """Acknowledge all records, and from now on each."""
        self.is_open = True
        for topic, count in self.metrics.by_label("offered").items():
            self.metrics.add("acknowledged", topic, count - self.metrics.value("acknowledged", topic))


@asynccontextmanager
async def running(topic: Topic, **settings: Any) -> AsyncIterator[tuple[Kafka, FakeReader, Bridge]]:
    params = params_of(
        Params, {"topics": "peers", "quiet_s": 0.03, "wait_s": 0.2, "silent_s": 1, "status_every_s": 1} | settings
    )
    reader = FakeReader(topic)
    kafka = Kafka(reader)
    bridge = Bridge(params, CollectorContext(kafka, "bridge@test", kafka.metrics))
    work = asyncio.create_task(bridge.run(reader))
    try:
        yield kafka, reader, bridge
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


async def test_what_no_one_comes_after_goes_out_soon() -> None:
    """The cut is committed before the reading is published, and the position only after its acknowledgement."""
    topic = Topic()
    topic.records = [octets(START_NS, 1), octets(START_NS + 1, 2, port="Ethernet2")]
    async with running(topic) as (kafka, reader, _):
        await kafka.until(lambda: bool(kafka.of(Samples)))
        await until(lambda: topic.committed is not None and topic.committed[0] == 2)
    assert [one for one in reader.order if one != "collector-status"] == ["commit 0", "commit 0", "samples", "commit 2"]
    assert kafka.of(Samples)[0].row == ("Ethernet1", "Ethernet2")


async def test_nothing_is_committed_before_it_is_acknowledged() -> None:
    """Kafka away: the offset stays; afterwards it goes on."""
    topic = Topic()
    topic.records = [octets(START_NS + n * 10 * S, n) for n in range(20)]
    async with running(topic) as (kafka, _, _bridge):
        kafka.is_open = False
        await kafka.until(lambda: len(kafka.of(Samples)) == 20)
        await asyncio.sleep(0.7)  # longer than the pace of commits: time enough to do it wrong
        assert topic.committed is not None and topic.committed[0] == 0
        kafka.acknowledge()
        await until(lambda: topic.committed is not None and topic.committed[0] == 20)


async def test_what_stands_beside_an_offset_stays_short_while_nothing_is_acknowledged() -> None:
    """Kafka takes 4,096 characters there: past a hundred declared cuts what is gathered waits, and then goes out."""
    topic = Topic()
    async with running(topic, quiet_s=0.01, wait_s=0.01) as (kafka, reader, _):
        await until(lambda: topic.committed is not None)
        kafka.is_open = False
        longest, count = 0, 0
        while len(kafka.of(Samples)) < 100:
            topic.records.append(octets(START_NS + count * S // 10, count, port=f"Eth{count % 2}"))
            count += 1
            count = len(kafka.of(Samples))
            await until(lambda count=count: len(kafka.of(Samples)) > count)  # type: ignore[misc]
            assert topic.committed is not None
            longest = max(longest, len(topic.committed[1]))
        topic.records.append(octets(START_NS + count * S // 10, count, port=f"Eth{count % 2}"))
        await until(lambda: reader.at == len(topic.records))
        await asyncio.sleep(0.1)  # ten times what a cut takes: time enough to do it wrong
        assert len(kafka.of(Samples)) == 100
        assert longest < 1000
        kafka.acknowledge()
        await kafka.until(lambda: len(kafka.of(Samples)) == 101)


async def test_a_commit_that_fails_is_made_again_before_anything_is_reported() -> None:
    """A cut with an unknown commit result is declared again, at the same place."""
    topic = Topic()
    async with running(topic) as (kafka, reader, _):
        await until(lambda: topic.committed is not None)
        reader.broken = 2
        topic.records = [octets(START_NS, 1)]
        await kafka.until(lambda: bool(kafka.of(Samples)))
        assert reader.broken == 0
    assert reader.order.index("samples") > 1


async def test_partitions_that_moved_are_begun_again() -> None:
    """Gathered values are dropped, not published: the partition's new owner reads them again."""
    topic = Topic()
    async with running(topic) as (kafka, reader, _):
        await until(lambda: topic.committed is not None)
        reader.is_lost = True
        topic.records = [octets(START_NS, 1)]
        await kafka.until(lambda: bool(kafka.of(Samples)))
    assert len(kafka.of(Samples)) == 1


async def test_a_device_of_a_lost_partition_is_not_reported_any_more() -> None:
    """Another process reports it now; a device with waiting values in a remaining partition stays."""
    topic = Topic()
    topic.records = [octets(START_NS, 1, "leaf1")]
    async with running(topic) as (kafka, _, bridge):
        await kafka.until(lambda: bool(kafka.of(Samples)))
        assert set(bridge.devices.known) == {"leaf1"}
        bridge.revoked([PLACE])
        assert not bridge.devices.known


async def test_a_device_is_reported_to_be_received_and_then_silent() -> None:
    """A status at first contact, and another when nothing of it comes any more."""
    topic = Topic()
    topic.records = [octets(START_NS, 1)]
    async with running(topic, silent_s=3) as (kafka, _, _bridge):
        await kafka.until(lambda: any(not one.reachable for one in kafka.of(CollectorStatus)))
    statuses = kafka.of(CollectorStatus, "leaf1")
    assert statuses[0].reachable and statuses[0].last_sample_at_ns == START_NS
    assert "no records" in statuses[-1].error


async def test_a_poisoned_record_goes_to_the_rejected_topic() -> None:
    topic = Topic()
    topic.records = [b"{", octets(START_NS, 1)]
    async with running(topic) as (kafka, _, _bridge):
        await kafka.until(lambda: bool(kafka.of(Samples)))
    (rejected,) = kafka.of(Rejected)
    assert (rejected.topic, rejected.partition, rejected.offset, rejected.value) == ("peers", 0, 0, b"{")


def test_what_stands_beside_an_offset_is_read_back_and_others_are_not() -> None:
    """A group that was another tool's has other words there, or none."""
    assert committed_state(CommittedState(0xFF, 7, (9, 11)).text()) == CommittedState(0xFF, 7, (9, 11))
    assert state_at(Position(9, 7), 0xFF, [8, 9, 11]) == CommittedState(0xFF, 7, (11,)).text()
    for text in (None, "", "hello", "railsight1 0 1", "railsight1 xyz 1", "railsight1 ff"):
        assert committed_state(text) is None


def test_a_position_waits_for_what_was_reported_before_it() -> None:
    """In the order of the publisher, for each partition its own."""
    ledger = Ledger()
    for place in (PLACE, ("peers", 1)):
        ledger.begin(place, Position(0, 1))
    ledger.add(3, PLACE, Position(5, 2))
    ledger.add(4, ("peers", 1), Position(7, 2))
    ledger.settle(2)
    assert ledger.ready() == {}
    ledger.settle(3)
    assert ledger.ready() == {PLACE: Position(5, 2)}
    ledger.committed(ledger.ready())
    ledger.settle(9)
    assert ledger.ready() == {("peers", 1): Position(7, 2)}
    ledger.drop(("peers", 1))
    assert ledger.ready() == {}

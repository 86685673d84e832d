"""An owner sends Progress at shared times, and continues while its snapshot is written."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.instrument.metrics import NullMetrics
from streams.runtime.partition_owner import OwnerContext, PartitionOwner
from tests.fakes.chunk_source import FakeChunkSource
from tests.fakes.producer import FakeProducer, Metadata
from tests.fakes.stages import CountingStage
from tests.fixtures.runtime_bindings import (
    FIRST,
    IN,
    MID,
    SNAPSHOTS,
    FixedClock,
    PartitionLog,
    event,
    started_processor,
)


@dataclass
class AcknowledgingSource(FakeChunkSource):
    """Records the acknowledged offsets."""

    acknowledged: list[tuple[str, int]] = field(default_factory=list)

    def acknowledge(self, topic: str, partition: int, offset: int) -> None:
        self.acknowledged.append((topic, offset))


@dataclass
class SlowSnapshotProducer(FakeProducer):
    """Accepts snapshots at once, and delivers them when the test sets `written`."""

    written: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(
        self, topic: str, value: bytes | None, *, key: bytes, partition: int, headers: Sequence[tuple[str, bytes]]
    ) -> "asyncio.Future[Metadata]":
        delivery = await super().send(topic, value, key=key, partition=partition, headers=headers)
        return asyncio.ensure_future(self._later(delivery)) if topic == SNAPSHOTS.name else delivery

    async def _later(self, delivery: "asyncio.Future[Metadata]") -> Metadata:
        await self.written.wait()
        return await delivery


def make_owner(producer: FakeProducer, source: FakeChunkSource) -> PartitionOwner:
    """Return the owner of a partition without a previous owner."""
    context = OwnerContext(
        KafkaSettings(),
        RuntimeSettings(wall_clock_ticks=False),
        FixedClock(),
        NullMetrics(),
        lambda: source,
        lambda: producer,
    )
    owner = PartitionOwner(started_processor(FIRST, lambda _: CountingStage(MID)), context, lambda: True)
    owner._due |= {"progress_topic": 1000.0, "snapshot": 1000.0}
    return owner


async def test_progress_is_sent_at_the_times_that_all_owners_share() -> None:
    """An owner whose watermark advances within a tenth of a second sends one Progress, at the end of that interval."""
    producer, log = FakeProducer(), PartitionLog(IN).add(event(1), event(2))
    owner = make_owner(producer, FakeChunkSource())
    owner._processor.on_chunk(log.chunk(0, 1))
    for now in (500.01, 500.05, 500.09):
        await owner._housekeeping(now)
    assert not producer.log
    assert math.isclose(owner._next_turn(), 500.1)
    await owner._housekeeping(500.1001)
    sent = len(producer.log[MID.name, 0])
    assert sent == 1
    await owner._housekeeping(500.3)
    assert len(producer.log[MID.name, 0]) == sent
    assert owner._next_turn() == 1000.0


async def test_an_owner_processes_input_while_its_snapshot_is_written() -> None:
    """Once the snapshot is written, the owner acknowledges the input that the snapshot covers, and no more."""
    producer, source, log = SlowSnapshotProducer(), AcknowledgingSource(), PartitionLog(IN).add(event(1), event(2))
    owner = make_owner(producer, source)
    owner._processor.on_chunk(log.chunk(0, 1))
    await owner._housekeeping(2000.0)
    owner._processor.on_chunk(log.chunk(1, 2))
    await owner._housekeeping(2001.0)
    assert owner._processor.positions[IN.name] == 2
    assert owner._due["snapshot"] == math.inf
    assert source.acknowledged == []
    producer.written.set()
    await owner._written()
    assert (IN.name, 1) in source.acknowledged
    assert owner._due["snapshot"] < math.inf

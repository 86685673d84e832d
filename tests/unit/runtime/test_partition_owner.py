"""What an owner says when, and that it goes on while its state is written."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.instrument.metrics import NullMetrics
from streams.runtime.partition_owner import OwnerContext, PartitionOwner
from tests.fakes.chunk_source import Source
from tests.fakes.producer import Metadata, Producer
from tests.fakes.stages import CountingStage
from tests.fixtures.runtime_bindings import FIRST, IN, MID, SNAPSHOTS, Clock, Log, begun, event


@dataclass
class Acknowledging(Source):
    """Keeps what was acknowledged."""

    acknowledged: list[tuple[str, int]] = field(default_factory=list)

    def acknowledge(self, topic: str, partition: int, offset: int) -> None:
        self.acknowledged.append((topic, offset))


@dataclass
class Slow(Producer):
    """Takes snapshots at once, and has them written when it is told to."""

    written: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(
        self, topic: str, value: bytes | None, *, key: bytes, partition: int, headers: Sequence[tuple[str, bytes]]
    ) -> "asyncio.Future[Metadata]":
        delivery = await super().send(topic, value, key=key, partition=partition, headers=headers)
        return asyncio.ensure_future(self._later(delivery)) if topic == SNAPSHOTS.name else delivery

    async def _later(self, delivery: "asyncio.Future[Metadata]") -> Metadata:
        await self.written.wait()
        return await delivery


def owner(producer: Producer, source: Source) -> PartitionOwner:
    """The owner of a partition that was taken over from nobody."""
    around = OwnerContext(
        KafkaSettings(),
        RuntimeSettings(wall_clock_ticks=False),
        Clock(),
        NullMetrics(),
        lambda: source,
        lambda: producer,
    )
    made = PartitionOwner(begun(FIRST, lambda _: CountingStage(MID)), around, lambda: True)
    made._due |= {"beside": 1000.0, "snapshot": 1000.0}
    return made


async def test_progress_waits_for_the_moment_that_all_owners_share() -> None:
    """Whenever an owner's time moved within a tenth of a second, it says so at the end of that, and once."""
    producer, log = Producer(), Log(IN).add(event(1), event(2))
    made = owner(producer, Source())
    made._fold.on_chunk(log.chunk(0, 1))
    for now in (500.01, 500.05, 500.09):
        await made._housekeeping(now)
    assert not producer.log
    assert math.isclose(made._next_turn(), 500.1)
    await made._housekeeping(500.1001)
    said = len(producer.log[MID.name, 0])
    assert said == 1
    await made._housekeeping(500.3)
    assert len(producer.log[MID.name, 0]) == said
    assert made._next_turn() == 1000.0


async def test_an_owner_goes_on_while_its_state_is_written() -> None:
    """Input is folded meanwhile; what the state covers, and no more, is acknowledged once it is written."""
    producer, source, log = Slow(), Acknowledging(), Log(IN).add(event(1), event(2))
    made = owner(producer, source)
    made._fold.on_chunk(log.chunk(0, 1))
    await made._housekeeping(2000.0)
    made._fold.on_chunk(log.chunk(1, 2))
    await made._housekeeping(2001.0)
    assert made._fold.positions[IN.name] == 2
    assert made._due["snapshot"] == math.inf
    assert source.acknowledged == []
    producer.written.set()
    await made._written()
    assert (IN.name, 1) in source.acknowledged
    assert made._due["snapshot"] < math.inf

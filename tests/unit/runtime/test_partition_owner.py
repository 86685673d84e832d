"""An owner sends Progress at shared times, and continues while its snapshot is written."""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.instrument.clock import BrokerClock
from streams.instrument.metrics import NullMetrics
from streams.runtime.bindings import BINDINGS
from streams.runtime.partition_owner import OwnerContext, PartitionOwner
from streams.wire.topics import SAMPLES, SYMPTOMS
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
    make_processor,
    started_processor,
)
from tests.worlds.observations import samples


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
        BrokerClock(FixedClock(), time.monotonic_ns),
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


async def test_a_snapshot_that_waited_for_brokers_does_not_postpone_the_next() -> None:
    """Two in a row that take long do: that is the state, not an outage."""
    producer, log = SlowSnapshotProducer(), PartitionLog(IN).add(event(1), event(2), event(3))
    owner = make_owner(producer, AcknowledgingSource())
    producer.written.set()
    due: list[float] = []
    for number, lasted_s in enumerate((20.0, 20.0, 0.0)):
        owner._processor.on_chunk(log.chunk(number, number + 1))
        began = time.monotonic() - lasted_s
        await owner._write(owner._processor.snapshot(), {}, began)
        due.append(owner._due["snapshot"] - began)
    assert due[0] == due[2] == owner._snapshot_s
    assert due[1] >= 400


@pytest.mark.parametrize("ahead_s", [365 * 86_400, 7200, -3600])
async def test_the_clock_of_the_worker_makes_no_device_silent(ahead_s: int) -> None:
    """The stage goes by the time of the brokers, which appended its epoch a moment ago."""
    now_ms = 1_000_000_000
    producer, wall = FakeProducer(append_ms=now_ms), FixedClock((now_ms + ahead_s * 1000) * 1_000_000)
    clock = BrokerClock(wall, time.monotonic_ns)
    context = OwnerContext(
        KafkaSettings(), RuntimeSettings(), clock, NullMetrics(), AcknowledgingSource, lambda: producer
    )
    binding = BINDINGS["measure"]
    processor = make_processor(binding, lambda _: Measure(DetectParams()), clock=clock)
    nothing = {topic.name: 0 for topic in binding.inputs}
    processor.begin(1, (), nothing, nothing)
    owner = PartitionOwner(processor, context, lambda: True)
    owner._due |= {"progress_topic": 0.0, "snapshot": math.inf, "tick": math.inf}
    await owner._housekeeping(time.monotonic())
    log = PartitionLog(SAMPLES)
    for number in range(8):
        at_ms = now_ms - 70_000 + 10_000 * number
        log.add(replace(samples("p1-h1", 0, {}), sampled_at_ns=at_ms * 1_000_000, sequence=number), at_ms=at_ms)
    await owner._publish(processor.on_chunk(log.chunk()))
    owner._due["tick"] = 0.0
    await owner._housekeeping(time.monotonic())
    assert isinstance(processor.stage, Measure)
    assert abs(processor.stage.watermark_ns - now_ms * 1_000_000) < 10**9
    sent = {key for (topic, _), own in producer.log.items() if topic == SYMPTOMS.name for key, _ in own}
    assert sent <= {b"measure/0"}, "only Progress"
    assert abs(clock.wall_offset_ns - ahead_s * 10**9) < 10**9

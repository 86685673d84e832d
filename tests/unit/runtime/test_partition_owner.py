"""An owner sends Progress at shared times, and acknowledges input once a snapshot that covers it is written."""

import asyncio
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import pytest

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.instrument.clock import BrokerClock
from streams.runtime.bindings import BINDINGS
from streams.wire.errors import Reject
from streams.wire.models import Message
from streams.wire.stage import Output
from streams.wire.topics import SAMPLES, SYMPTOMS
from tests.fakes.producer import FakeProducer, Metadata
from tests.fakes.stages import BLOCK, CountingStage
from tests.fixtures.runtime_bindings import IN, MID, PROGRESS, SNAPSHOTS, FixedClock, OwnerRig, PartitionLog, event
from tests.worlds.observations import samples


@dataclass
class SlowSnapshotProducer(FakeProducer):
    """Accepts snapshots at once, and delivers those after the epoch when the test sets `written`."""

    written: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(
        self, topic: str, value: bytes | None, *, key: bytes, partition: int, headers: Sequence[tuple[str, bytes]]
    ) -> "asyncio.Future[Metadata]":
        delivery = await super().send(topic, value, key=key, partition=partition, headers=headers)
        is_snapshot = topic == SNAPSHOTS.name and len(self.log[topic, partition]) > 1
        return asyncio.ensure_future(self._later(delivery)) if is_snapshot else delivery

    async def _later(self, delivery: "asyncio.Future[Metadata]") -> Metadata:
        await self.written.wait()
        return await delivery


class FaultyState(CountingStage):
    """Its state cannot be written, or not be read back, while `fault` is set."""

    fault = ""

    def snapshot(self) -> bytes:
        if type(self).fault == "unwritable":
            raise TypeError("Integer exceeds 64-bit range")
        return super().snapshot()

    def restore(self, data: bytes) -> None:
        if type(self).fault == "unreadable":
            raise Reject("null where a number belongs")
        super().restore(data)


class WaitingRecovery(CountingStage):
    """Its recovery ends when the event loop runs; `recovered` is False if it did not within 20 s."""

    loop: asyncio.AbstractEventLoop
    recovered = False

    def recover(self, batch: Sequence[Message], content: Collection[Message] | None = None) -> list[Output]:
        ran = threading.Event()
        type(self).loop.call_soon_threadsafe(ran.set)
        type(self).recovered = ran.wait(20)
        return []


class SlowRestore(CountingStage):
    """Reading its state back takes 20 ms of CPU, so that it is done once in 67 s."""

    restored = 0

    def restore(self, data: bytes) -> None:
        type(self).restored += 1
        end_s = time.thread_time() + 0.02
        while time.thread_time() < end_s:
            pass
        super().restore(data)


async def taken_over(producer: FakeProducer, stage: type[CountingStage] = CountingStage) -> OwnerRig:
    """Return an owner after its takeover, at 1000 s, and its first Progress."""
    rig = OwnerRig(producer, lambda _: stage(MID))
    await rig.owner.take_over()
    await rig.turn(1000.0)
    return rig


async def test_progress_is_sent_at_the_times_that_all_owners_share() -> None:
    """Progress follows outputs at the end of a tenth of a second; time alone, of which none waits, at a second's."""
    rig, log = await taken_over(FakeProducer()), PartitionLog(IN).add(*map(event, range(1, BLOCK + 2)))
    begin = len(rig.sent(MID))
    await rig.turn(1000.01, log.chunk(0, BLOCK))
    for now in (1000.05, 1000.09):
        await rig.turn(now)
    assert len(rig.sent(MID)) == begin + 1, "the output"
    await rig.turn(1000.1001)
    assert len(rig.sent(MID)) == begin + 2
    await rig.turn(1000.2, log.chunk(BLOCK, BLOCK + 1))
    for now in (1000.3, 1000.9):
        await rig.turn(now)
    assert len(rig.sent(MID)) == begin + 2
    assert len(rig.sent(PROGRESS)) == 1
    await rig.turn(1001.001)
    assert len(rig.sent(MID)) == begin + 3
    assert len(rig.sent(PROGRESS)) == 2


async def test_input_is_acknowledged_once_a_snapshot_that_covers_it_is_written() -> None:
    """The owner processes input while its snapshot is written; the snapshot covers what was read before it."""
    producer, log = SlowSnapshotProducer(), PartitionLog(IN).add(event(1), event(2))
    rig = await taken_over(producer)
    await rig.turn(1100.0, log.chunk(0, 1))
    await rig.turn(1101.0, log.chunk(1, 2))
    assert rig.processor.positions[IN.name] == 2
    assert rig.source.acknowledged == {}
    producer.written.set()
    await rig.owner.written()
    assert rig.source.acknowledged[IN.name] == 1
    await rig.turn(1200.0)
    await rig.owner.written()
    assert rig.source.acknowledged[IN.name] == 2


async def test_a_snapshot_that_waited_for_brokers_does_not_postpone_the_next() -> None:
    """Two in a row that take long do: that is the state, not an outage. `measure` has one in 30 s."""
    producer, log = SlowSnapshotProducer(), PartitionLog(IN).add(*(event(number) for number in range(9)))
    rig = await taken_over(producer)

    async def snapshots_after(now_s: float, number: int, lasts_s: float = 0.0) -> int:
        producer.written.clear()
        await rig.turn(now_s, log.chunk(number, number + 1))
        rig.now_s += lasts_s
        producer.written.set()
        await rig.owner.written()
        return len(rig.snapshots())

    assert await snapshots_after(1100.0, 0, lasts_s=20.0) == 1
    assert await snapshots_after(1130.0, 1, lasts_s=20.0) == 2
    assert await snapshots_after(1170.0, 2) == 2
    assert await snapshots_after(1529.0, 3) == 2
    assert await snapshots_after(1530.0, 4) == 3


async def test_other_tasks_run_while_a_stage_recovers() -> None:
    """A blocked event loop looks like a pause of the process, after which the runner takes over again."""
    WaitingRecovery.loop = asyncio.get_running_loop()
    await taken_over(FakeProducer(), WaitingRecovery)
    assert WaitingRecovery.recovered


async def test_a_released_owner_ends_with_a_snapshot() -> None:
    """So that a successor has nothing to repeat."""
    processed = asyncio.Event()

    class Signalling(CountingStage):
        def process(self, batch: Sequence[Message]) -> list[Output]:
            processed.set()
            return super().process(batch)

    rig = OwnerRig(FakeProducer(), lambda _: Signalling(MID))
    running = asyncio.create_task(rig.owner.run())
    await rig.owner.input.put(PartitionLog(IN).add(event(1)).chunk())
    await processed.wait()
    rig.owner.release()
    await running
    assert rig.source.acknowledged[IN.name] == 1


@pytest.mark.parametrize("fault", ["unwritable", "unreadable"])
async def test_a_state_that_cannot_be_restored_replaces_no_snapshot(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner goes on, counts the failure and tries again later; then the snapshot is written."""
    rig = await taken_over(FakeProducer(), FaultyState)
    monkeypatch.setattr(FaultyState, "fault", fault)
    await rig.turn(1100.0, PartitionLog(IN).add(event(1)).chunk())
    await rig.owner.written()
    assert rig.snapshots() == []
    assert rig.metrics.counts["railsight_snapshot_failures_total"] == 1
    assert rig.source.acknowledged == {}
    monkeypatch.setattr(FaultyState, "fault", "")
    await rig.turn(1131.0)
    await rig.owner.written()
    assert len(rig.snapshots()) == 1
    assert rig.source.acknowledged[IN.name] == 1


async def test_the_first_snapshot_is_read_back_and_then_a_small_share_of_time() -> None:
    """Snapshots in between have keys of their own, so that they do not replace a verified one."""
    rig, log = await taken_over(FakeProducer(), SlowRestore), PartitionLog(IN).add(*(event(n) for n in range(4)))
    for number, now_s in enumerate((1100.0, 1131.0, 1162.0, 9e9)):
        await rig.turn(now_s, log.chunk(number, number + 1))
        await rig.owner.written()
    slots = [int(key.decode().rsplit("/", 1)[1].split(".")[0]) for key in rig.snapshots()]
    assert [slot >= 2 for slot in slots] == [True, False, False, True]
    assert SlowRestore.restored == 2


@pytest.mark.parametrize("ahead_s", [365 * 86_400, 7200, -3600])
async def test_the_clock_of_the_worker_makes_no_device_silent(ahead_s: int) -> None:
    """The stage goes by the time of the brokers, which appended its epoch a moment ago."""
    now_ms = 1_000_000_000
    producer, wall = FakeProducer(append_ms=now_ms), FixedClock((now_ms + ahead_s * 1000) * 1_000_000)
    clock = BrokerClock(wall, time.monotonic_ns)
    rig = OwnerRig(producer, lambda _: Measure(DetectParams()), BINDINGS["measure"], clock=clock, wall_clock_ticks=True)
    await rig.owner.take_over()
    log = PartitionLog(SAMPLES)
    for number in range(8):
        at_ms = now_ms - 70_000 + 10_000 * number
        log.add(replace(samples("p1-h1", 0, {}), sampled_at_ns=at_ms * 1_000_000, sequence=number), at_ms=at_ms)
    await rig.turn(1000.0, log.chunk())
    for now_s in (1004.0, 1008.0, 1011.0):
        await rig.turn(now_s)
    stage = rig.processor.stage
    assert isinstance(stage, Measure)
    assert abs(stage.watermark_ns - now_ms * 1_000_000) < 10**9
    sent = {key for (topic, _), own in producer.log.items() if topic == SYMPTOMS.name for key, _ in own}
    assert sent <= {b"measure/0"}, "only Progress"
    assert abs(clock.wall_offset_ns - ahead_s * 10**9) < 10**9

"""Urgent messages are concluded from at once, while busy inputs wait, and are processed in their order later."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from streams.runtime.ordered_input import CHUNK_RECORDS, MOST_RECORDS, QUEUED, OrderedInput
from streams.runtime.partition_owner import PartitionOwner
from streams.wire.models import Event, Message
from streams.wire.stage import Output
from tests.fakes.chunk_source import FakeChunkSource, chunk
from tests.fakes.producer import FakeProducer
from tests.fakes.stages import BLOCK, CountingStage
from tests.fixtures.runtime_bindings import (
    BUSY,
    FIRST,
    IN,
    MID,
    URGENT,
    OwnerRig,
    PartitionLog,
    event,
    make_processor,
    symptom,
)
from tests.fixtures.waiting import until


class Previewing(CountingStage):
    """Concludes from each event alone, and from a block of them in order."""

    def preview(self, batch: Sequence[Message]) -> list[Output]:
        return [Output(MID, symptom(one.code, one.at_ns)) for one in batch if isinstance(one, Event)]


async def taken_over() -> OwnerRig:
    rig = OwnerRig(FakeProducer(), lambda _: Previewing(MID), URGENT)
    await rig.owner.take_over()
    await rig.turn(1000.0)
    return rig


async def test_an_event_behind_unread_samples_is_concluded_from_at_once_and_processed_in_order() -> None:
    """Its conclusion is sent before the first of the samples is processed; it is read again from its own offset."""
    rig = await taken_over()
    before, urgent = len(rig.sent(MID)), PartitionLog(IN).add(event(7), at_ms=50).chunk()
    samples = PartitionLog(BUSY).add(*map(event, range(BLOCK - 1)), at_ms=40)
    await rig.owner.input.put(samples.chunk())
    await rig.owner.preview(urgent)
    assert len(rig.sent(MID)) == before + 1
    assert rig.processor.positions == {"busy": 0, "in": 0}
    await rig.owner.input.put(urgent)
    for now_s in (1000.01, 1000.02):
        await rig.turn(now_s)
    assert rig.processor.positions == {"busy": BLOCK - 1, "in": 1}
    assert len(rig.sent(MID)) == before + 2, "the block of all events, in order"


async def test_an_event_that_is_processed_at_once_is_concluded_from_once() -> None:
    """The owner waits for input, and no earlier record is unread."""
    rig = await taken_over()
    before, urgent = len(rig.sent(MID)), PartitionLog(IN).add(event(7), at_ms=50).chunk()
    rig.now_s = 0.0  # nothing else is due for long
    turn = asyncio.create_task(rig.owner.turn())
    await until(lambda: not rig.owner.input.is_delayed)
    await rig.owner.preview(urgent)
    await rig.owner.input.put(urgent)
    await turn
    assert rig.processor.positions["in"] == 1
    assert len(rig.sent(MID)) == before


async def test_an_owner_without_its_state_concludes_nothing() -> None:
    """Its epoch is not written yet."""
    rig = OwnerRig(FakeProducer(), lambda _: Previewing(MID), URGENT)
    await rig.owner.preview(PartitionLog(IN).add(event(7)).chunk())
    assert rig.sent(MID) == []


async def test_a_full_queue_of_samples_delays_no_event() -> None:
    """One reader delivers the events of all partitions, so that a wait for one of them would delay all."""
    ordered = OrderedInput(URGENT, 0, FakeChunkSource, lambda: 0.0)
    ordered.begin({"busy": 0, "in": 0})
    for number in range(QUEUED):
        await ordered.put(chunk("busy", 1, start=number))
    blocked = asyncio.create_task(ordered.put(chunk("busy", 1, start=QUEUED)))
    await asyncio.sleep(0)
    assert not blocked.done()
    await asyncio.wait_for(ordered.put(chunk("in", 0)), 5)
    first = await ordered.next(0)
    assert first is not None and first.topic == "in"
    blocked.cancel()


async def test_events_that_wait_for_samples_are_never_processed_before_them() -> None:
    """However many wait, their order is that of their arrival."""
    ordered = OrderedInput(URGENT, 0, lambda: FakeChunkSource({"busy": 1}), lambda: 0.0)
    ordered.begin({"busy": 0, "in": 0})
    for number in range(QUEUED):
        await ordered.put(chunk("in", *[5] * CHUNK_RECORDS, start=CHUNK_RECORDS * number))
        assert await ordered.next(0) is None
    await ordered.put(chunk("busy", 1))
    first = await ordered.next(0)
    assert first is not None and first.topic == "busy"


async def test_other_work_runs_between_the_chunks_of_busy_inputs() -> None:
    """Also if many owners have chunks of samples: an event waits for one of them at a time."""
    steps: list[str] = []

    class Noting(CountingStage):
        def process(self, batch: Sequence[Message]) -> list[Output]:
            steps.append("chunk")
            return []

    rig = OwnerRig(FakeProducer(), lambda _: Noting(MID), URGENT)
    owners = [rig.owner]
    owners += [
        PartitionOwner(make_processor(URGENT, lambda _: Noting(MID)), rig.context, lambda: True) for _ in range(3)
    ]
    log = PartitionLog(BUSY).add(*map(event, range(4 * CHUNK_RECORDS)))
    for owner in owners:
        await owner.take_over()
        for start in range(0, len(log.records), CHUNK_RECORDS):
            await owner.input.put(log.chunk(start, start + CHUNK_RECORDS))

    batches = -(-len(log.records) // MOST_RECORDS)

    async def turns(owner: PartitionOwner) -> None:
        for _ in range(batches):
            await owner.turn()

    working = asyncio.gather(*map(turns, owners))
    while not working.done():
        steps.append("other")
        await asyncio.sleep(0)
    await working
    assert {owner.positions["busy", 0] for owner in owners} == {len(log.records)}
    assert steps.count("chunk") == batches * len(owners)
    assert all(pair != ("chunk", "chunk") for pair in pairwise(steps))


async def test_records_of_two_inputs_in_turn_do_not_take_a_turn_each() -> None:
    """Progress in both inputs of `correlate` cuts them into chunks of one record; outputs are sent at once."""
    binding = replace(FIRST, inputs=(BUSY, IN))
    rig = OwnerRig(FakeProducer(), lambda _: CountingStage(MID), binding)
    await rig.owner.take_over()
    busy, other = PartitionLog(BUSY), PartitionLog(IN)
    for number in range(BLOCK):
        busy.add(event(number), at_ms=2 * number)
        other.add(event(number), at_ms=2 * number + 1)
    await rig.owner.input.put(busy.chunk())
    await rig.turn(1000.0, other.chunk())
    assert rig.processor.positions == {"busy": BLOCK // 2, "in": BLOCK // 2}
    assert len(rig.sent(MID)) > 0


async def test_busy_inputs_in_turn_are_one_batch_in_the_order_of_their_arrival() -> None:
    """Samples and statuses of all collectors alternate; a batch of few costs as much as one of many."""
    batches: list[list[int]] = []

    class Noting(CountingStage):
        def process(self, batch: Sequence[Message]) -> list[Output]:
            batches.append([one.code for one in batch if isinstance(one, Event)])
            return []

    binding = replace(FIRST, inputs=(BUSY, IN), bulk=(BUSY, IN))
    rig = OwnerRig(FakeProducer(), lambda _: Noting(MID), binding)
    await rig.owner.take_over()
    busy, other = PartitionLog(BUSY), PartitionLog(IN)
    for number in range(MOST_RECORDS):
        (other if number % 3 == 2 else busy).add(event(number), at_ms=number)
    late = len(busy.records)
    busy.add(event(MOST_RECORDS), at_ms=MOST_RECORDS)
    await rig.owner.input.put(busy.chunk())
    await rig.owner.input.put(other.chunk())
    await rig.owner.turn()
    assert batches == [list(range(MOST_RECORDS))]
    assert rig.processor.positions == {"busy": late, "in": len(other.records)}
    await rig.owner.turn()
    assert batches[1:] == [[MOST_RECORDS]]

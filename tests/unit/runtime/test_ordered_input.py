"""What an owner is handed: no gap, no repeat, and all inputs in the order in which the brokers took them."""

import asyncio
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from streams.runtime.merge import Merge
from streams.runtime.ordered_input import OrderedInput
from tests.fakes.chunk_source import Source, chunk
from tests.fixtures.runtime_bindings import FIRST, LAST


def never(_topic: str) -> bool:
    return False


def handed_on(merge: Merge) -> list[tuple[str, list[int]]]:
    found = []
    while (ready := merge.next(never)) is not None:
        found.append((ready.topic, [record.timestamp for record in ready.records]))
    return found


def test_inputs_are_cut_where_the_other_has_its_turn() -> None:
    """Records come in the order of their arrival; of one millisecond, in the order of the inputs."""
    merge = Merge(["in", "kept"])
    merge.add(chunk("kept", 2, 5, 9))
    merge.add(chunk("in", 1, 2, 3, 7))
    assert handed_on(merge) == [("in", [1, 2]), ("kept", [2]), ("in", [3]), ("kept", [5]), ("in", [7]), ("kept", [9])]
    assert len(merge) == 0


@given(st.lists(st.integers(0, 20), max_size=20), st.lists(st.integers(0, 20), max_size=20), st.integers(1, 7))
def test_however_inputs_are_cut_into_chunks_nothing_is_lost_and_the_order_is_one(
    one: list[int], other: list[int], size: int
) -> None:
    """All records of both inputs come once, sorted by arrival, with offsets that follow each other."""
    merge = Merge(["in", "kept"])
    for topic, times in (("in", sorted(one)), ("kept", sorted(other))):
        for start in range(0, len(times), size):
            merge.add(chunk(topic, *times[start : start + size], start=start))
    ends = {"in": 0, "kept": 0}
    order = []
    while (ready := merge.next(never)) is not None:
        assert ready.start == ends[ready.topic] < ready.end
        ends[ready.topic] = ready.end
        order += [(record.timestamp, ready.topic) for record in ready.records]
    assert order == sorted(order)
    assert ends == {"in": len(one), "kept": len(other)}


@dataclass
class Time:
    """A monotonic clock that stands until it is moved."""

    s: float = 0.0

    def __call__(self) -> float:
        return self.s


def ordered_input(source: Source, time: Time | None = None, binding: object = None) -> OrderedInput:
    made = OrderedInput(FIRST if binding is None else LAST, 0, lambda: source, time or Time())
    made.begin({topic.name: 10 for topic in (FIRST if binding is None else LAST).inputs})
    return made


async def test_a_gap_is_asked_for_and_what_came_behind_it_is_dropped() -> None:
    """A chunk that begins past what was read is left; reading begins again at the gap, asked once, and later anew."""
    source, time = Source(), Time()
    made = ordered_input(source, time)
    assert source.asked == [("in", 10), ("kept", 10)]
    source.asked.clear()
    await made.put(chunk("in", 1, start=10))
    assert await made.next(0) is not None
    for _ in range(2):
        await made.put(chunk("in", 3, start=12))
        assert await made.next(0) is None
    assert source.asked == [("in", 11)]
    time.s = 3.0
    await made.put(chunk("in", 3, start=12))
    assert await made.next(0) is None
    assert source.asked == [("in", 11), ("in", 11)]
    await made.put(chunk("in", 2, 3, start=11))
    found = await made.next(0)
    assert found is not None and (found.start, found.end) == (11, 13)


async def test_what_overlaps_is_cut_and_what_repeats_is_dropped() -> None:
    """Only what is new of a chunk is handed on."""
    made = ordered_input(Source())
    await made.put(chunk("in", 1, 2, 3, start=8))
    found = await made.next(0)
    assert found is not None and (found.start, found.end, len(found.records)) == (10, 11, 1)
    await made.put(chunk("in", 1, 2, 3, start=8))
    assert await made.next(0) is None


async def test_records_wait_for_an_input_that_is_behind_but_not_for_ever() -> None:
    """While the brokers hold unread records of another input, nothing is handed on; after a while it is."""
    source, time = Source({"out": 10, "beside": 12}), Time()
    made = ordered_input(source, time, LAST)
    await made.put(chunk("out", 5, start=10))
    assert await made.next(0) is None
    await made.put(chunk("beside", 1, start=10))
    first = await made.next(0)
    assert first is not None and first.topic == "beside"
    assert await made.next(0) is None
    time.s = 0.6
    assert await made.next(0) is None
    time.s = 5.1
    last = await made.next(0)
    assert last is not None and last.topic == "out"


async def test_nobody_waits_for_a_compacted_topic() -> None:
    """The end of a compacted topic may have no record: it holds nobody up."""
    made = ordered_input(Source({"in": 11, "kept": 99}))
    await made.put(chunk("in", 5, start=10))
    assert await made.next(0) is not None


async def test_whoever_waits_for_nothing_can_be_woken() -> None:
    """An owner that is to give up does not sit out its wait; what was handed in meanwhile is not lost by it."""
    made = ordered_input(Source())
    waiting = asyncio.create_task(made.next(60))
    await asyncio.sleep(0)
    made.wake()
    assert await asyncio.wait_for(waiting, 5) is None
    await made.put(chunk("in", 5, start=10))
    made.wake()
    assert await made.next(0) is not None

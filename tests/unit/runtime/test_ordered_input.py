"""An owner receives its inputs without gaps or repeats, in the order in which the brokers stored the records."""

import asyncio
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from streams.runtime.ordered_input import Merge, OrderedInput
from tests.fakes.chunk_source import FakeChunkSource, chunk
from tests.fixtures.runtime_bindings import FIRST, LAST


def never(_topic: str) -> bool:
    return False


@given(
    st.lists(st.integers(0, 20), max_size=20), st.lists(st.integers(0, 20), max_size=20), st.integers(1, 7),
    st.integers(1, 9),
)  # fmt: skip
def test_for_any_chunk_size_nothing_is_lost_and_the_order_is_the_same(
    first: list[int], second: list[int], size: int, most: int
) -> None:
    """Each record of both inputs is returned once, sorted by arrival, with contiguous offsets."""
    merge = Merge(["in", "retained"])
    for topic, times in (("in", sorted(first)), ("retained", sorted(second))):
        for start in range(0, len(times), size):
            merge.add(chunk(topic, *times[start : start + size], start=start))
    ends = {"in": 0, "retained": 0}
    order = []
    while (ready := merge.next(never, most)) is not None:
        assert ready.start == ends[ready.topic] < ready.end and len(ready.records) <= most
        ends[ready.topic] = ready.end
        order += [(record.timestamp, ready.topic) for record in ready.records]
    assert order == sorted(order)
    assert ends == {"in": len(first), "retained": len(second)}


@dataclass
class FakeTime:
    """A monotonic clock that only the test advances."""

    s: float = 0.0

    def __call__(self) -> float:
        return self.s


def ordered_input(source: FakeChunkSource, time: FakeTime | None = None, binding: object = None) -> OrderedInput:
    ordered = OrderedInput(FIRST if binding is None else LAST, 0, lambda: source, time or FakeTime())
    ordered.begin({topic.name: 10 for topic in (FIRST if binding is None else LAST).inputs})
    return ordered


async def test_a_gap_is_requested_and_the_chunk_after_it_is_dropped() -> None:
    """After a gap the input is requested from the first missing offset, and again if nothing comes for 2 s."""
    source, time = FakeChunkSource(), FakeTime()
    ordered = ordered_input(source, time)
    assert source.requests == [("in", 10), ("retained", 10)]
    source.requests.clear()
    await ordered.put(chunk("in", 1, start=10))
    assert await ordered.next(0) is not None
    for _ in range(2):
        await ordered.put(chunk("in", 3, start=12))
        assert await ordered.next(0) is None
    assert source.requests == [("in", 11)]
    time.s = 3.0
    await ordered.put(chunk("in", 3, start=12))
    assert await ordered.next(0) is None
    assert source.requests == [("in", 11), ("in", 11)]
    await ordered.put(chunk("in", 2, 3, start=11))
    found = await ordered.next(0)
    assert found is not None and (found.start, found.end) == (11, 13)


async def test_overlapping_chunks_are_shortened_and_repeated_chunks_dropped() -> None:
    """Only the new records of a chunk are returned."""
    ordered = ordered_input(FakeChunkSource())
    await ordered.put(chunk("in", 1, 2, 3, start=8))
    found = await ordered.next(0)
    assert found is not None and (found.start, found.end, len(found.records)) == (10, 11, 1)
    await ordered.put(chunk("in", 1, 2, 3, start=8))
    assert await ordered.next(0) is None


async def test_an_input_that_ended_before_what_was_read_may_be_rewound() -> None:
    """Repeated and overlapping chunks of the same topic are not taken for one that was created again."""
    ordered = ordered_input(FakeChunkSource())
    for records in ((1, 2, 3), (1, 2, 3)):
        await ordered.put(chunk("in", *records, start=8))
        await ordered.next(0)
    assert not ordered.may_be_rewound
    await ordered.put(chunk("in", 1, start=0))
    assert await ordered.next(0) is None
    assert ordered.may_be_rewound


async def test_records_wait_for_an_input_that_is_behind_for_a_limited_time() -> None:
    """While the brokers have unread records of another input, nothing is returned; after 5 s and three fetches it is.

    On an overloaded machine a fetch takes long.
    """
    source, time = FakeChunkSource({"out": 10, "progress": 12}), FakeTime()
    ordered = ordered_input(source, time, LAST)
    await ordered.put(chunk("out", 5, start=10))
    assert await ordered.next(0) is None
    await ordered.put(chunk("progress", 1, start=10))
    first = await ordered.next(0)
    assert first is not None and first.topic == "progress"
    assert await ordered.next(0) is None
    time.s = 0.6
    assert await ordered.next(0) is None
    time.s = 5.1
    assert await ordered.next(0) is None
    source.fetches = 3
    last = await ordered.next(0)
    assert last is not None and last.topic == "out"


async def test_records_do_not_wait_for_a_compacted_topic() -> None:
    """The end of a compacted topic may have no record, so its unread offsets do not count."""
    ordered = ordered_input(FakeChunkSource({"in": 11, "retained": 99}))
    await ordered.put(chunk("in", 5, start=10))
    assert await ordered.next(0) is not None


async def test_a_waiting_owner_can_be_woken() -> None:
    """An owner that releases its partition ends its wait at once; chunks that arrived meanwhile are not lost."""
    ordered = ordered_input(FakeChunkSource())
    waiting = asyncio.create_task(ordered.next(60))
    await asyncio.sleep(0)
    ordered.wake()
    assert await asyncio.wait_for(waiting, 5) is None
    await ordered.put(chunk("in", 5, start=10))
    ordered.wake()
    assert await ordered.next(0) is not None

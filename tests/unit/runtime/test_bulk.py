"""Fetches of busy topics wait for a batch, those of quiet topics return at once, and neither has gaps."""

import pytest

from streams.runtime.bindings import BINDINGS
from streams.runtime.bulk import FULL_PER_S, FetchPacer
from streams.runtime.ordered_input import CHUNK_RECORDS, Chunker, OrderedInput
from streams.wire import topics
from tests.fakes.chunk_source import FakeChunkSource, chunk
from tests.fixtures.runtime_bindings import FIRST, FakeRecord


def pacer_at(per_s: float, seconds: int = 3) -> FetchPacer:
    pacer = FetchPacer(0.2)
    for tenth in range(seconds * 10):
        pacer.on_fetch(round(per_s / 10), tenth / 10)
    return pacer


@pytest.mark.parametrize(("per_s", "wait_s"), [(5, 0), (20, 0), (50, 0.1), (FULL_PER_S, 0.2), (10 * FULL_PER_S, 0.2)])
def test_a_fetch_waits_the_longer_the_busier_its_topic_is(per_s: float, wait_s: float) -> None:
    """For some hundred devices with an interval of 10 s, the wait is proportional to their number."""
    assert pacer_at(per_s).wait_s == pytest.approx(wait_s, abs=0.02 if per_s == 50 else 0)


def test_a_fetch_after_a_busy_time_does_not_wait() -> None:
    """A fetch that waits returns at least two messages."""
    assert all(pacer_at(rate).wait_s * rate >= 2 or pacer_at(rate).wait_s == 0 for rate in range(10, 200, 10))
    pacer = pacer_at(2000)
    for second in range(4, 7):
        pacer.on_fetch(0, second)
    assert pacer.wait_s == 0.0


def test_chunks_are_contiguous_over_gaps_from_compaction() -> None:
    """A chunk begins at the end of the last one, also over compacted records; after a seek, at the sought offset."""
    chunker = Chunker()
    records = [FakeRecord(offset, b"") for offset in range(2 * CHUNK_RECORDS + 1)]
    found = list(chunker.chunks("t", 0, records, 9999))
    assert [(c.start, c.end) for c in found] == [
        (0, CHUNK_RECORDS),
        (CHUNK_RECORDS, 2 * CHUNK_RECORDS),
        (2 * CHUNK_RECORDS, 2 * CHUNK_RECORDS + 1),
    ]
    assert {c.highwater for c in found} == {9999}
    (after,) = chunker.chunks("t", 0, [FakeRecord(2010, b"")])
    assert (after.start, after.end, after.highwater) == (2 * CHUNK_RECORDS + 1, 2011, 2011)
    chunker.positions["t", 0] = 5
    (after_seek,) = chunker.chunks("t", 0, [FakeRecord(7, b"")])
    assert (after_seek.start, after_seek.end) == (5, 8)


async def test_before_the_first_fetch_the_end_of_an_input_is_that_at_the_takeover() -> None:
    """Records that existed at the takeover of a partition are awaited, although no fetch has reported them yet."""
    source = FakeChunkSource()
    ordered = OrderedInput(FIRST, 0, lambda: source, lambda: 0.0)
    ordered.begin({"in": 10, "retained": 10}, {"in": 12, "retained": 10})
    await ordered.put(chunk("retained", 5, start=10))
    assert await ordered.next(0) is None
    await ordered.put(chunk("in", 1, 2, start=10))
    first = await ordered.next(0)
    assert first is not None and first.topic == "in"


def test_only_periodic_messages_of_devices_wait_for_a_batch() -> None:
    """Events and the outputs of stages never wait."""
    bulk = {topic for binding in BINDINGS.values() for topic in binding.bulk}
    assert bulk == {topics.SAMPLES, topics.FACTS, topics.COLLECTOR_STATUS, topics.PROBES}
    assert all(set(binding.bulk) <= set(binding.inputs) for binding in BINDINGS.values())

"""How busy topics are fetched: gathered when they are busy, at once when they are not, and without gaps."""

from streams.runtime.bindings import BINDINGS
from streams.runtime.chunk import CHUNK_RECORDS, Chunker
from streams.runtime.fetch_pacing import FULL_PER_S, FetchPacer
from streams.runtime.ordered_input import OrderedInput
from streams.wire import topics
from tests.fakes.chunk_source import Source, chunk
from tests.fixtures.runtime_bindings import FIRST, Fetched


def paced(per_s: float, seconds: int = 3) -> FetchPacer:
    pace = FetchPacer(0.2)
    for tenth in range(seconds * 10):
        pace.on_fetch(round(per_s / 10), tenth / 10)
    return pace


def test_a_busy_topic_is_gathered_as_long_as_may_be() -> None:
    """From the full rate on, a fetch gathers for the whole of its time."""
    assert paced(FULL_PER_S).wait_s == paced(10 * FULL_PER_S).wait_s == 0.2


def test_a_quieter_topic_is_gathered_less_long() -> None:
    """Some hundred devices with a cadence of 10 s are gathered in proportion to how many they are."""
    assert 0.08 <= paced(50).wait_s <= 0.12


def test_a_quiet_topic_is_delivered_as_it_comes() -> None:
    """A few devices are not waited for, nor is one that falls silent; a fetch that gathers brings more than one."""
    assert paced(5).wait_s == paced(20).wait_s == 0.0
    assert all(paced(rate).wait_s * rate >= 2 or paced(rate).wait_s == 0 for rate in range(10, 200, 10))
    pace = paced(2000)
    for second in range(4, 7):
        pace.on_fetch(0, second)
    assert pace.wait_s == 0.0


def test_chunks_follow_each_other_over_what_compaction_took() -> None:
    """A chunk begins where the last one ended, also where the records between are gone; a seek begins anew."""
    cut = Chunker()
    records = [Fetched(offset, b"") for offset in range(2 * CHUNK_RECORDS + 1)]
    found = list(cut.chunks("t", 0, records, 9999))
    assert [(c.start, c.end) for c in found] == [
        (0, CHUNK_RECORDS),
        (CHUNK_RECORDS, 2 * CHUNK_RECORDS),
        (2 * CHUNK_RECORDS, 2 * CHUNK_RECORDS + 1),
    ]
    assert {c.highwater for c in found} == {9999}
    (after,) = cut.chunks("t", 0, [Fetched(2010, b"")])
    assert (after.start, after.end, after.highwater) == (2 * CHUNK_RECORDS + 1, 2011, 2011)
    cut.positions["t", 0] = 5
    (back,) = cut.chunks("t", 0, [Fetched(7, b"")])
    assert (back.start, back.end) == (5, 8)


async def test_before_the_first_fetch_an_input_goes_as_far_as_it_did_at_the_take_over() -> None:
    """What was there already when a partition was taken over is waited for, though no fetch has told of it yet."""
    source = Source()
    made = OrderedInput(FIRST, 0, lambda: source, lambda: 0.0)
    made.begin({"in": 10, "kept": 10}, {"in": 12, "kept": 10})
    await made.put(chunk("kept", 5, start=10))
    assert await made.next(0) is None
    await made.put(chunk("in", 1, 2, start=10))
    first = await made.next(0)
    assert first is not None and first.topic == "in"


def test_events_and_conclusions_never_wait_for_a_batch() -> None:
    """Only what devices send by the clock is gathered."""
    gathered = {topic for binding in BINDINGS.values() for topic in binding.bulk}
    assert gathered == {topics.SAMPLES, topics.FACTS, topics.COLLECTOR_STATUS}
    assert all(set(binding.bulk) <= set(binding.inputs) for binding in BINDINGS.values())

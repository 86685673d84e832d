"""The chunks of fetches have no gaps, and only periodic messages wait for a batch."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from aiokafka import TopicPartition

from streams.config.kafka import KafkaSettings
from streams.runtime import bulk
from streams.runtime.bindings import BINDINGS
from streams.runtime.ordered_input import CHUNK_RECORDS, MOST_RECORDS, Chunk, Chunker, OrderedInput
from streams.wire import topics
from tests.fakes.chunk_source import FakeChunkSource, chunk
from tests.fixtures.runtime_bindings import FIRST, FakeRecord


def test_chunks_are_contiguous_over_gaps_from_compaction() -> None:
    """A chunk begins at the end of the last one, also over compacted records; after a seek, at the sought offset."""
    chunker = Chunker()
    records = [FakeRecord(offset, b"") for offset in range(2 * CHUNK_RECORDS + 1)]
    found = list(chunker.chunks("t", 0, records, 9999))
    assert [(c.start, c.end) for c in found] == [(0, CHUNK_RECORDS + 1), (CHUNK_RECORDS + 1, 2 * CHUNK_RECORDS + 1)]
    assert {c.highwater for c in found} == {9999}
    (after,) = chunker.chunks("t", 0, [FakeRecord(2010, b"")])
    assert (after.start, after.end, after.highwater) == (2 * CHUNK_RECORDS + 1, 2011, 2011)
    chunker.positions["t", 0] = 5
    (after_seek,) = chunker.chunks("t", 0, [FakeRecord(7, b"")])
    assert (after_seek.start, after_seek.end) == (5, 8)


@pytest.mark.parametrize("count", [1, CHUNK_RECORDS + 6, MOST_RECORDS, MOST_RECORDS + 1, 1000])
def test_no_chunk_of_a_fetch_has_few_records(count: int) -> None:
    """A rest of six records would cost as much as fifty."""
    records = [FakeRecord(offset, b"") for offset in range(count)]
    sizes = [len(c.records) for c in Chunker().chunks("t", 0, records)]
    assert sum(sizes) == count and max(sizes) <= MOST_RECORDS and max(sizes) - min(sizes) <= len(sizes)
    assert not list(Chunker().chunks("t", 0, []))


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


class Fetched:
    """A consumer with one fetch of two inputs of two partitions."""

    records: ClassVar = {
        TopicPartition(topic, partition): [FakeRecord(0, b"")] for topic in "ab" for partition in (0, 1)
    }

    def assignment(self) -> set[TopicPartition]:
        return set(self.records)

    def highwater(self, tp: TopicPartition) -> int:
        return len(self.records[tp])


async def test_a_partition_is_delivered_with_the_ends_of_all_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner waits for all of them; the next partition has no known end yet, so that its events need not wait."""

    async def no_wait(*_: object) -> None:
        pass

    def drained(consumer: Fetched) -> Iterator[tuple[TopicPartition, Any]]:
        yield from consumer.records.items()

    monkeypatch.setattr(bulk, "wait_for_fetch", no_wait)
    monkeypatch.setattr(bulk, "drain_fetched", drained)
    taken: list[tuple[str, int, list[int | None]]] = []

    async def take(chunk: Chunk, _: int) -> None:
        ends = [reader.end_of(topic, partition) for partition in (0, 1) for topic in "ab"]
        taken.append((chunk.topic, chunk.partition, ends))

    group = bulk.Group(lambda: 1, lambda: Fetched.records)
    reader = bulk.BulkReader(KafkaSettings(), 0.5, frozenset("ab"), group, take)
    reader._generation = 1
    await reader._step(Fetched())
    first, both = [1, 1, None, None], [1, 1, 1, 1]
    assert taken == [("a", 0, first), ("b", 0, first), ("a", 1, both), ("b", 1, both)]

"""A chunk: what one fetch brought of one partition, as it came; the unit in which records are handed to a stage."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from streams.wire.batch_fetch import FetchedRecord

CHUNK_RECORDS = 250
"""Bounds how long one chunk keeps a process from all else, an event on its way included: of samples of the largest
fabric it takes 10 ms. Larger ones were not faster: what a batch costs beside its messages is that of two or three."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """All that the partition holds from offset `start` up to, not including, `end`.

    Offsets between them may lack a record: compaction took it. `highwater` is where the partition ended then.
    """

    topic: str
    partition: int
    start: int
    end: int
    records: Sequence[FetchedRecord]
    highwater: int


@dataclass(slots=True)
class Chunker:
    """Cuts what fetches bring into chunks that follow each other without a gap."""

    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    """The next offset of each partition; absent where nothing is known of what was read before."""

    def chunks(
        self, topic: str, partition: int, records: Sequence[FetchedRecord], highwater: int | None = None
    ) -> Iterator[Chunk]:
        """Return the records of one partition in a fetch."""
        for i in range(0, len(records), CHUNK_RECORDS):
            some = records[i : i + CHUNK_RECORDS]
            first, end = some[0].offset, some[-1].offset + 1
            start = min(first, self.positions.get((topic, partition), first))
            self.positions[topic, partition] = end
            yield Chunk(topic, partition, start, end, some, highwater or end)

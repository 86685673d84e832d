"""A fake input source that records its requests, and chunks with given arrival times."""

from dataclasses import dataclass, field

from streams.runtime.ordered_input import Chunk
from tests.fixtures.runtime_bindings import FakeRecord


def chunk(topic: str, *at_ms: int, start: int = 0) -> Chunk:
    end = start + len(at_ms)
    records = [FakeRecord(start + i, b"", timestamp=at) for i, at in enumerate(at_ms)]
    return Chunk(topic, 0, start, end, records, end)


@dataclass
class FakeChunkSource:
    """An input source that records its requests and has the end offset of each input."""

    ends: dict[str, int] = field(default_factory=dict)
    requests: list[tuple[str, int]] = field(default_factory=list)
    fetches: int = 0

    def read_from(self, topic: str, partition: int, offset: int) -> None:
        self.requests.append((topic, offset))

    def acknowledge(self, topic: str, partition: int, offset: int) -> None:
        raise AssertionError("reading must not acknowledge")

    def end_of(self, topic: str, partition: int) -> int | None:
        return self.ends.get(topic)

    def fetches_of(self, topic: str) -> int:
        return self.fetches

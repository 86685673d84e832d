"""A source of chunks that records what was requested, and chunks with given times."""

from dataclasses import dataclass, field

from streams.runtime.chunk import Chunk
from tests.fixtures.runtime_bindings import Fetched


def chunk(topic: str, *at_ms: int, start: int = 0) -> Chunk:
    end = start + len(at_ms)
    records = [Fetched(start + i, b"", timestamp=at) for i, at in enumerate(at_ms)]
    return Chunk(topic, 0, start, end, records, end)


@dataclass
class Source:
    """A source of chunks that records its requests and has the end of each input."""

    ends: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)

    def read_from(self, topic: str, partition: int, offset: int) -> None:
        self.asked.append((topic, offset))

    def acknowledge(self, topic: str, partition: int, offset: int) -> None:
        raise AssertionError("reading acknowledges nothing")

    def end_of(self, topic: str, partition: int) -> int | None:
        return self.ends.get(topic)

"""Several inputs of one partition in one order: that in which the brokers took their records.

Pure. In a backlog a fetch brings hours of a quiet topic and seconds of a busy one; folded as they come, the one would
be far ahead of the other in event time, and what the busy one reports would be late. So a record waits for those of the
other inputs that came before it.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence

from streams.runtime.chunk import Chunk


class Merge:
    """Chunks that wait for their turn, each input's in its own order."""

    def __init__(self, topics: Sequence[str]) -> None:
        """`topics` in the order that holds among records of one millisecond."""
        self._waiting: dict[str, deque[Chunk]] = {topic: deque() for topic in topics}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, chunk: Chunk) -> None:
        """Take a chunk with records; it follows the one before of its topic."""
        self._waiting[chunk.topic].append(chunk)

    def next(self, awaited: Callable[[str], bool]) -> Chunk | None:
        """Return the next records, up to where another input has its turn; None while there is nothing.

        None too while an input from which nothing waits is `awaited`: it has earlier records that are on their way.
        """
        heads = {topic: chunks[0] for topic, chunks in self._waiting.items() if chunks}
        if not heads or any(topic not in heads and awaited(topic) for topic in self._waiting):
            return None
        if len(heads) == 1:  # the usual case: nothing to put in order
            return self._waiting[next(iter(heads))].popleft()
        order = list(heads)
        chosen = min(order, key=lambda topic: (heads[topic].records[0].timestamp, order.index(topic)))
        head = heads[chosen]
        end = len(head.records)
        for topic in order:
            if topic != chosen:
                cut = bisect_right if order.index(chosen) < order.index(topic) else bisect_left
                until = heads[topic].records[0].timestamp
                end = min(end, max(1, cut(head.records, until, key=lambda record: record.timestamp)))
        self._waiting[chosen].popleft()
        if end == len(head.records):
            return head
        offset = head.records[end].offset
        self._waiting[chosen].appendleft(
            Chunk(chosen, head.partition, offset, head.end, head.records[end:], head.highwater)
        )
        return Chunk(chosen, head.partition, head.start, offset, head.records[:end], head.highwater)

"""Merges the inputs of an owner in the order of the brokers' times, without gaps and without repeats.

Decides which records are requested again, how long inputs wait for each other, and which records count as lost.
"""

import asyncio
import logging
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from streams.instrument.clock import Clock
from streams.instrument.metrics import Metrics
from streams.runtime.bindings import Binding
from streams.wire import topics
from streams.wire.batch_fetch import FetchedRecord
from streams.wire.models import InputLoss
from streams.wire.topics import Record, Topic

CHUNK_RECORDS = 128
"""Limits the time of one chunk, during which the process does nothing else. In batches of 250 samples `measure` takes
0.2 CPU seconds per million port-samples less, and nearly twice as long for one; in batches of 64 it takes 0.5 more."""
MOST_RECORDS = CHUNK_RECORDS * 3 // 2
"""Limits the chunks that are processed together. A fetch is cut into equal chunks of at most this size: a rest of few
records would take a turn of its own."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The records of a partition from offset `start` up to, not including, `end`: the unit that a stage processes.

    Compaction may have removed records between them. `highwater` is the end of the partition at the time of the fetch.
    """

    topic: str
    partition: int
    start: int
    end: int
    records: Sequence[FetchedRecord]
    highwater: int


@dataclass(slots=True)
class Chunker:
    """Cuts the records of fetches into consecutive chunks without gaps."""

    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    """The next offset of each partition; a partition without a known position is absent."""

    def chunks(
        self, topic: str, partition: int, records: Sequence[FetchedRecord], highwater: int | None = None
    ) -> Iterator[Chunk]:
        """Yield the records of one partition from a fetch in chunks of about equal size."""
        count = max(1, round(len(records) / CHUNK_RECORDS))
        size = max(1, -(-len(records) // count))
        for i in range(0, len(records), size):
            some = records[i : i + size]
            first, end = some[0].offset, some[-1].offset + 1
            start = min(first, self.positions.get((topic, partition), first))
            self.positions[topic, partition] = end
            yield Chunk(topic, partition, start, end, some, highwater or end)


class Merge:
    """Merges the waiting chunks of all inputs by time.

    In a backlog a fetch has hours of a quiet topic and seconds of a busy one. Processed in the order of fetches, the
    quiet topic would be far ahead in event time, and the busy one's messages would be late. So a record waits for
    earlier records of the other inputs.
    """

    def __init__(self, topics: Sequence[str]) -> None:
        """Create the merge; `topics` are in the order of processing for records of one millisecond."""
        self._waiting: dict[str, deque[Chunk]] = {topic: deque() for topic in topics}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def count(self, topics: Iterable[str]) -> int:
        """Return the number of waiting chunks of these topics."""
        return sum(len(self._waiting[topic]) for topic in topics)

    def add(self, chunk: Chunk) -> None:
        """Add a chunk with records, which follows the previous chunk of its topic; small ones are joined."""
        waiting = self._waiting[chunk.topic]
        if waiting and len(waiting[-1].records) + len(chunk.records) <= CHUNK_RECORDS:
            last = waiting.pop()
            chunk = replace(chunk, start=last.start, records=[*last.records, *chunk.records])
        waiting.append(chunk)

    def next(self, awaited: Callable[[str], bool], most: int = MOST_RECORDS) -> Chunk | None:
        """Return the next records, at most so many, up to the first of another input; None without waiting records.

        Also returns None while an input without waiting records is `awaited`, because its earlier records may arrive.
        """
        heads = {topic: chunks[0] for topic, chunks in self._waiting.items() if chunks}
        if not heads or any(topic not in heads and awaited(topic) for topic in self._waiting):
            return None
        order = list(heads)
        chosen = min(order, key=lambda topic: (heads[topic].records[0].timestamp, order.index(topic)))
        head = heads[chosen]
        end = min(most, len(head.records))
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


log = logging.getLogger(__name__)


_REPORTED_EVERY_NS = 60 * 10**9
BEHIND_NS = 60 * 10**9
"""Input that arrived this long ago and is not read yet is reported; the delays of a healthy pipeline are shorter."""
_MAX_REASON = 300


class InputLosses:
    """Collects the losses of one owner until `take` returns them for sending."""

    def __init__(self, binding: Binding, partition: int, clock: Clock, metrics: Metrics) -> None:
        self._binding = binding
        self._partition = partition
        self._clock = clock
        self._metrics = metrics
        self._records: list[Record] = []
        self._refusals: dict[str, tuple[int, int, int]] = {}
        """Topic -> the time and the offset of the first refused record that no report covers, and their number."""
        self._behind_due_ns = 0
        self.must_reconcile = False
        """True if the stage must still evaluate the present states."""

    def report(self, topic: Topic, first: int, count: int, *, is_recreated: bool = False) -> None:
        """Report `count` records from offset `first` on, or that a topic was recreated; compaction loses nothing."""
        if (count <= 0 and not is_recreated) or topic.retention_s is None:
            return
        stage = self._binding.stage
        loss = InputLoss(
            stage, topic.name, self._partition, first, max(0, count), self._clock.now_ns(), is_recreated=is_recreated
        )
        self._records.append(topics.encode(topics.INPUT_LOSSES, loss))
        self.must_reconcile = bool(self._binding.present)
        if count > 0:
            log.error(
                "input is lost, records were deleted before they were read: stage=%s topic=%s partition=%d records=%d; "
                "give the topic more retention than the longest outage",
                stage, topic.name, self._partition, count,
            )  # fmt: skip
            self._metrics.count(
                "railsight_input_lost_records_total", stage, self._partition, topic=topic.name, by=count
            )

    def refuse(self, topic: Topic, offset: int, reason: str) -> None:
        """Count a record without a valid MAC; report such records once a minute while they go on."""
        now_ns = self._clock.now_ns()
        since_ns, first, count = self._refusals.get(topic.name, (now_ns, offset, 0))
        if now_ns - since_ns > 2 * _REPORTED_EVERY_NS:  # single records, with long pauses
            since_ns, first, count = now_ns, offset, 0
        if now_ns - since_ns < _REPORTED_EVERY_NS:
            self._refusals[topic.name] = since_ns, first, count + 1
            return
        loss = InputLoss(
            self._binding.stage, topic.name, self._partition, first, count + 1, now_ns, refused=reason[:_MAX_REASON]
        )
        self._records.append(topics.encode(topics.INPUT_LOSSES, loss))
        self._refusals[topic.name] = now_ns, offset + 1, 0

    def report_behind(self, topic: Topic, first: int, behind_ns: int) -> None:
        """Report input from offset `first` on that is not read though it arrived `behind_ns` ago, once a minute."""
        now_ns = self._clock.now_ns()
        if behind_ns < BEHIND_NS or now_ns < self._behind_due_ns:
            return
        self._behind_due_ns = now_ns + _REPORTED_EVERY_NS
        stage = self._binding.stage
        log.warning(
            "behind: stage=%s topic=%s partition=%d by_s=%d", stage, topic.name, self._partition, behind_ns // 10**9
        )
        loss = InputLoss(stage, topic.name, self._partition, first, 0, now_ns, behind_ns=behind_ns)
        self._records.append(topics.encode(topics.INPUT_LOSSES, loss))

    def take(self) -> list[Record]:
        """Return the unsent reports and clear them."""
        records, self._records = self._records, []
        return records


QUEUED = 32
"""The limit of an owner's queued chunks of a MB each; the reader then waits. At the full rate they last seconds,
because an owner processes no chunk while it takes a snapshot."""
_WAITING_MAX = 64
"""The limit of chunks that wait for another input; beyond it they are processed without waiting. Urgent ones then wait
in their queue, because the busy inputs have another reader and queue."""
_GAP_TIMEOUT_S, _GAP_FETCHES = 5.0, 3
"""The longest wait of records for another input's records that the brokers report. A fetch takes some milliseconds, but
the first one of a backlog of megabytes, by a separate consumer on a busy machine, has taken more than half a second.
On an overloaded one all take longer, so that the reader must also have finished this number of fetches: the end of an
input may have no record, but the marker of a transaction."""
_REQUEST_RETRY_S = 2.0


class InputSource(Protocol):
    """The interface of a source of chunks for an owner, such as ChunkConsumer."""

    def read_from(self, topic: str, partition: int, offset: int) -> None:
        """Deliver from this offset on; chunks that were fetched before are still delivered."""
        ...

    def acknowledge(self, topic: str, partition: int, offset: int) -> None:
        """Commit this offset with the next commit; a snapshot covers all records before it."""
        ...

    def end_of(self, topic: str, partition: int) -> int | None:
        """Return the offset after the last record at the last fetch; None before the first fetch."""
        ...

    def fetches_of(self, topic: str) -> int:
        """Return the number of finished fetches of the topic's reader, also those without records."""
        ...


class OrderedInput:
    """The ordered chunks of one partition in one generation."""

    def __init__(
        self,
        binding: Binding,
        partition: int,
        source: Callable[[], InputSource],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._partition = partition
        self._source = source
        self._now_s = now_s
        names = [topic.name for topic in binding.inputs]
        self.busy = [topic.name for topic in binding.bulk]
        """The busy inputs; those of a stage without urgent inputs are not distinguished."""
        self._urgent = [name for name in names if name not in self.busy] if self.busy else []
        self._others = self.busy or names
        self._urgent_chunks: asyncio.Queue[Chunk] = asyncio.Queue(QUEUED)
        self._chunks: asyncio.Queue[Chunk] = asyncio.Queue(QUEUED)
        self._news = asyncio.Event()
        self._is_woken = self._is_waiting = False
        self._merge = Merge(names)
        # No input waits for a compacted topic, because compaction may have removed the record at its end.
        self._timed = {topic.name for topic in binding.inputs if topic.retention_s is not None}
        self._expected: dict[str, int] = {}
        self._requested: dict[str, tuple[int, float]] = {}
        self._since: tuple[float, dict[str, int]] | None = None
        """The time at which records began to wait, and the fetches of each input until then."""
        self._given_up: set[str] = set()
        self._ends: dict[str, int] = {}
        self.may_be_rewound = False
        """True after a chunk of an input that ended before the next expected offset: the chunk is old, or the topic was
        deleted and created again."""

    def begin(self, positions: dict[str, int], ends: dict[str, int] | None = None) -> None:
        """Read each input from these positions on; `ends` are the known ends before the first fetch."""
        self._ends = ends or {}
        for topic, offset in positions.items():
            self._expected[topic] = offset
            self._request(topic, offset)

    async def put(self, chunk: Chunk) -> None:
        """Add a fetched chunk; wait while the queue of urgent or of other chunks is full."""
        await (self._urgent_chunks if chunk.topic in self._urgent else self._chunks).put(chunk)
        self._news.set()

    def wake(self) -> None:
        """Make a waiting `next`, or the next one, return."""
        self._is_woken = True
        self._news.set()

    @property
    def is_delayed(self) -> bool:
        """True if a chunk that is put now is not processed at once: the owner is busy, or earlier input is unread."""
        return not self._is_waiting or any(map(self._has_unread, self._others)) or self._merge.count(self._others) > 0

    async def next(self, within_s: float) -> Chunk | None:
        """Return the next chunk in order, or None if there is none within this time."""
        if (ready := self.ready()) is not None:
            return ready
        wait_s = max(0.0, within_s)
        if len(self._merge):
            fetches = {topic: self._source().fetches_of(topic) for topic in self._timed}
            self._since = self._since or (self._now_s(), fetches)
            wait_s = min(wait_s, _GAP_TIMEOUT_S)
        if not self._is_woken:
            self._is_waiting = True
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._news.wait()
            self._is_waiting = False
        self._is_woken = False
        return self.ready()

    def ready(self, most: int = MOST_RECORDS) -> Chunk | None:
        """Return the next chunk in order of those that were put; more of them wait in the merge only if none is due.

        The chunk has at most so many records.
        """
        self._news.clear()
        for limit in (QUEUED, _WAITING_MAX):
            for names, queue in ((self._urgent, self._urgent_chunks), (self._others, self._chunks)):
                while not queue.empty() and self._merge.count(names) < limit:
                    self._accept(queue.get_nowait())
            if (chunk := self._merge.next(self._is_requested, most)) is not None:
                self._since = None
                return chunk
        return None

    def _accept(self, chunk: Chunk) -> None:
        """Add a chunk at the expected offset; request a missing part again; drop records that were read."""
        expected = self._expected[chunk.topic]
        self.may_be_rewound = self.may_be_rewound or max(chunk.highwater, chunk.end) < expected
        if chunk.start > expected:
            requested, at = self._requested[chunk.topic]
            # Chunks that were fetched before the seek may still arrive, so the request is repeated only after a wait.
            if requested != expected or self._now_s() - at > _REQUEST_RETRY_S:
                self._request(chunk.topic, expected)
        elif chunk.end > expected:
            fresh = [record for record in chunk.records if record.offset >= expected]
            self._expected[chunk.topic] = chunk.end
            self._given_up.discard(chunk.topic)
            self._merge.add(replace(chunk, start=expected, records=fresh))

    def _request(self, topic: str, offset: int) -> None:
        self._requested[topic] = offset, self._now_s()
        self._source().read_from(topic, self._partition, offset)

    def _has_unread(self, topic: str) -> bool:
        """Return whether the brokers have unread records of this input, by what is known of its end."""
        end = self._source().end_of(topic, self._partition) or 0
        return topic in self._timed and max(end, self._ends.get(topic, 0)) > self._expected[topic]

    def _is_requested(self, topic: str) -> bool:
        """Return whether the brokers have unread records of this input that are worth a wait."""
        if topic in self._given_up or self._merge.count(self._others) >= _WAITING_MAX or not self._has_unread(topic):
            return False
        if self._since is None or self._now_s() - self._since[0] <= _GAP_TIMEOUT_S:
            return True
        if self._source().fetches_of(topic) < self._since[1][topic] + _GAP_FETCHES:
            return True
        self._given_up.add(topic)
        return False

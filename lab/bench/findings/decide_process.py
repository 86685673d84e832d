"""Runs `decide` as its runner does, over topics in memory, and kills it.

The runner's own PartitionProcessor and Merge select the stage's inputs and the outputs that a successor repeats. A kill
loses the transaction that was being sent: its outputs, and the state that covers them.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from streams.decide.stage import Decide
from streams.instrument.metrics import NullMetrics
from streams.runtime.bindings import BINDINGS
from streams.runtime.inventory_versions import Versions
from streams.runtime.ordered_input import Chunk, Merge
from streams.runtime.partition_processor import PartitionProcessor
from streams.wire.models import Snapshot
from streams.wire.topics import CONTROLS, Partitions, Record, Topic

BINDING = BINDINGS["decide"]
_PARTITIONS = Partitions(1, 1)


@dataclass(slots=True)
class SimulatedClock:
    """The time of the simulated day."""

    at_ns: int

    def now_ns(self) -> int:
        return self.at_ns


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as a consumer fetches it; `timestamp` is the append time in ms."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


@dataclass(slots=True)
class TopicLog:
    """One partition, starting at the oldest retained record."""

    first: int = 0
    records: list[StoredRecord] = field(default_factory=list)

    @property
    def end(self) -> int:
        """Return the offset after the last record."""
        return self.first + len(self.records)

    def since(self, offset: int) -> list[StoredRecord]:
        """Return the records from an offset on."""
        return self.records[offset - self.first :]

    def trim(self, offset: int) -> None:
        """Delete the records before an offset."""
        if offset > self.first:
            del self.records[: offset - self.first]
            self.first = offset


class TopicLogs:
    """The logs of these topics by name; `follow` receives each appended record of any topic, with its time."""

    def __init__(self, stored: Iterable[Topic], follow: Callable[[Record, int], None]) -> None:
        self._logs = {topic.name: TopicLog() for topic in stored}
        self._follow = follow

    def log(self, topic: str) -> TopicLog:
        """Return the log of a topic."""
        return self._logs[topic]

    def append(self, record: Record, at_ns: int) -> None:
        """Append one record."""
        if (log := self._logs.get(record.topic.name)) is not None:
            log.records.append(StoredRecord(log.end, at_ns // 1_000_000, record.key, record.value, record.headers))
        self._follow(record, at_ns)

    def chunk(self, topic: str, position: int) -> Chunk | None:
        """Return all records of a topic from a position on; None if there are none."""
        log = self.log(topic)
        if position >= log.end:
            return None
        return Chunk(topic, 0, position, log.end, log.since(position), log.end)


class DecideProcess:
    """Runs `decide` in consecutive processes; `snapshots_bytes` has the sizes of their snapshots."""

    def __init__(
        self, make_stage: Callable[[], Decide], versions: Versions, logs: TopicLogs, clock: SimulatedClock, seed: int
    ) -> None:
        self._make_stage, self._versions, self._logs, self._clock = make_stage, versions, logs, clock
        self._chance = random.Random(seed)  # noqa: S311 — no secret
        self._processor: PartitionProcessor | None = None
        self._snapshot: Snapshot | None = None
        self._epoch = 0
        self._is_exact = False
        """True from a snapshot on until the next start: then each output is committed with its state."""
        self.kills = 0
        self.repeated = 0
        """The number of input records that successors read again."""
        self.snapshot_bytes = 0

    @property
    def is_running(self) -> bool:
        """Return True if it is running."""
        return self._processor is not None

    def start(self) -> None:
        """Take over as the runner does, and process the backlog in the order of the append times."""
        self._epoch += 1
        processor = PartitionProcessor(
            BINDING, 0, lambda _: self._make_stage(), _PARTITIONS, self._versions, clock=self._clock,
            metrics=NullMetrics(),
        )  # fmt: skip
        names = [topic.name for topic in BINDING.inputs]
        ends = {name: self._logs.log(name).end for name in names}
        earliest = {name: self._logs.log(name).first for name in names}
        snapshots = [self._snapshot] if self._snapshot is not None else []
        digest = processor.begin(self._epoch, snapshots, earliest, ends)
        self._processor, self._is_exact = processor, False
        controls = self._logs.log(CONTROLS.name)
        self._publish(processor.resume(digest))
        self._publish(processor.recover({CONTROLS: list(controls.records)}, {CONTROLS.name: controls.end}))
        self.repeated += sum(ends[name] - processor.positions[name] for name in names)
        merge = Merge(names)
        for name in names:
            if (chunk := self._logs.chunk(name, processor.positions[name])) is not None:
                merge.add(chunk)
        while (chunk := merge.next(lambda _: False)) is not None:
            self._publish(processor.on_chunk(chunk))

    def read(self) -> None:
        """Process all waiting inputs."""
        while self._processor is not None and (chunk := self._next_chunk(self._processor)) is not None:
            self._commit(self._processor.on_chunk(chunk))

    def read_and_die(self) -> None:
        """Process the next chunks of input, and end like a killed process before the outputs of one are committed."""
        processor = self._processor
        assert processor is not None
        left = self._chance.randint(1, 4)
        while (chunk := self._next_chunk(processor)) is not None:
            records = processor.on_chunk(chunk)
            left -= 1
            if left <= 0:
                break
            self._commit(records)
        self._processor = None
        self.kills += 1

    def write_snapshot(self) -> Snapshot:
        """Write a snapshot, and delete the input records that it covers, because no successor reads them."""
        processor = self._processor
        assert processor is not None
        self._is_exact = True
        snapshot = self._snapshot = processor.snapshot()
        self.snapshot_bytes = len(snapshot.state)
        for topic in BINDING.inputs:
            if topic is not CONTROLS:
                self._logs.log(topic.name).trim(processor.positions[topic.name])
        return snapshot

    def _next_chunk(self, processor: PartitionProcessor) -> Chunk | None:
        for topic in BINDING.inputs:
            if (chunk := self._logs.chunk(topic.name, processor.positions[topic.name])) is not None:
                return chunk
        return None

    def _commit(self, records: list[Record]) -> None:
        """Publish outputs with the state that covers them, which is written only shortly before a kill."""
        self._publish(records)
        if self._is_exact and any(record.topic in BINDING.outputs for record in records):
            self.write_snapshot()

    def _publish(self, records: list[Record]) -> None:
        for record in records:
            self._logs.append(record, self._clock.at_ns)

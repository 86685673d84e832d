"""Runs `decide` as its runner does, over topics in memory, and kills it.

The runner's own PartitionProcessor and Merge decide what the stage receives and what a successor repeats. A kill loses
the state since the last snapshot, and the end of what was being sent.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from lab.bench.findings.topic_logs import TopicLogs
from streams.decide.stage import Decide
from streams.instrument.metrics import NullMetrics
from streams.runtime.bindings import BINDINGS
from streams.runtime.chunk import Chunk
from streams.runtime.merge import Merge
from streams.runtime.partition_processor import PartitionProcessor
from streams.runtime.versions import Versions
from streams.wire.models import Snapshot
from streams.wire.topics import CONTROLS, Partitions, Record

BINDING = BINDINGS["decide"]
_PARTITIONS = Partitions(1, 1)


@dataclass(slots=True)
class SimulatedClock:
    """The time of the simulated day."""

    at_ns: int

    def now_ns(self) -> int:
        return self.at_ns


class DecideProcess:
    """One process after another; `snapshots_bytes` are the sizes of what they wrote."""

    def __init__(
        self, make_stage: Callable[[], Decide], versions: Versions, logs: TopicLogs, clock: SimulatedClock, seed: int
    ) -> None:
        self._make_stage, self._versions, self._logs, self._clock = make_stage, versions, logs, clock
        self._chance = random.Random(seed)  # noqa: S311 — no secret
        self._processor: PartitionProcessor | None = None
        self._snapshot: Snapshot | None = None
        self._epoch = 0
        self.kills = 0
        self.repeated = 0
        """Records of inputs that successors read again."""
        self.snapshot_bytes = 0

    @property
    def is_running(self) -> bool:
        """Return whether it runs."""
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
        self._processor = processor
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
        """Process what its inputs hold, until nothing is left."""
        while self._processor is not None and (chunk := self._next_chunk(self._processor)) is not None:
            self._publish(self._processor.on_chunk(chunk))

    def read_and_die(self) -> None:
        """Process the next chunks of input, and be killed while the outputs of one of them are sent."""
        processor = self._processor
        assert processor is not None
        left = self._chance.randint(1, 4)
        while (chunk := self._next_chunk(processor)) is not None:
            records = processor.on_chunk(chunk)
            left -= 1
            if left <= 0:
                self._logs.append_partly(records, self._clock.at_ns, self._chance)
                break
            self._publish(records)
        self._processor = None
        self.kills += 1

    def write_snapshot(self) -> Snapshot:
        """Write a snapshot; delete the records of the inputs that it covers, which no successor reads."""
        processor = self._processor
        assert processor is not None
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

    def _publish(self, records: list[Record]) -> None:
        for record in records:
            self._logs.append(record, self._clock.at_ns)

"""Processes one owner's partition without I/O: takes chunks and returns records to send.

Decides which messages a stage gets, in which order, and which input its state covers. partition_owner.py fetches,
sends and has the clock. Records before a Progress in its partition are processed first, then time advances.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from streams.instrument.clock import Clock
from streams.instrument.metrics import Counter, Metrics
from streams.instrument.text import clean
from streams.runtime.bindings import Binding
from streams.runtime.event_time import (
    FUTURE_NS,
    ArrivalClock,
    UpstreamWatermarks,
    dated_by_arrival,
    event_time_ns,
    within_arrival,
)
from streams.runtime.inventory_versions import InventorySchedule, Versions
from streams.runtime.ordered_input import Chunk, InputLosses
from streams.runtime.snapshots import SCHEMA
from streams.wire import topics
from streams.wire.batch_fetch import FetchedRecord
from streams.wire.errors import Reject
from streams.wire.models import IDLE_NS, Control, Message, Progress, Rejected, SchedulerAnswer, Snapshot
from streams.wire.stage import (
    MeteredStage,
    Output,
    PreviewingStage,
    ReconcilingStage,
    RecoverableStage,
    SigningStage,
    Stage,
    TimeLimitedStage,
    VerifyingStage,
)
from streams.wire.topics import Partitions, Record, Topic

if TYPE_CHECKING:
    from streams.wire.identity import MacSigner, MacVerifier, OnRefusal

log = logging.getLogger(__name__)

MakeStage = Callable[[int], Stage]
"""Makes one owner's stage for a partition of its input; called again for every takeover."""

REJECTED_BYTES = 4096
_MS = 1_000_000
MAX_RECORD_BYTES = 1_000_000
"""Brokers accept batches of 1 MiB by default (message.max.bytes); a larger record would be retried forever."""


class PartitionProcessor:
    """A stage with the positions in its input and its event time."""

    def __init__(
        self,
        binding: Binding,
        partition: int,
        make_stage: MakeStage,
        partitions: Partitions,
        versions: Versions,
        *,
        clock: Clock,
        metrics: Metrics,
        cluster: str = "local",
        is_live: bool = True,
        verifier: "MacVerifier | None" = None,
        signer: "MacSigner | None" = None,
    ) -> None:
        """Create a processor; `is_live` is False for recorded input, whose messages have their times of arrival.

        `verifier` verifies the MACs of telemetry; `signer` adds those of the stage's own events.
        """
        self.binding = binding
        self.partition = partition
        self.epoch = self.records = 0
        self.changed = False
        """True after a change since the last snapshot that a successor should not repeat."""
        self.moved = False
        """True if any input was read since the last snapshot, even only Progress."""
        self.behind_ns = 0
        """The age of the newest record up to which all input was read, at the last tick; 0 if all was."""
        self.is_restored = False
        """True if the stage was restored from a snapshot."""
        self._make_stage = make_stage
        self._partitions = partitions
        self._versions = versions
        self._clock = clock
        self._metrics = metrics
        self.cluster = cluster
        self._topics = {topic.name: topic for topic in binding.inputs}
        self._highwater: dict[str, int] = {}
        self._arrived_ns: dict[str, int] = {}
        dated = binding.inputs if is_live and binding.upstream is None else ()
        self._arrivals = {topic.name: ArrivalClock(clock.now_ns) for topic in dated}
        """The clocks of telemetry inputs, whose messages get their time of arrival."""
        self._verifier = verifier if binding.upstream is None else None
        self._signer = signer
        self.losses = InputLosses(binding, partition, clock, metrics)
        self._stale_progress = 0
        self.positions: dict[str, int] = {}
        self._set_up()

    def _set_up(self) -> None:
        self.stage = self._make_stage(self.partition)
        self._verify = self.stage.verify if isinstance(self.stage, VerifyingStage) else None
        self._sign = self.stage.sign if isinstance(self.stage, SigningStage) else None
        self._preview = self.stage.preview if isinstance(self.stage, PreviewingStage) else None
        self._counted = self.stage.counted if isinstance(self.stage, MeteredStage) else None
        self._inventory = InventorySchedule(self.stage, self._versions)
        self._advanced_ns = 0
        up = self.binding.upstream
        self._barrier = up.barrier.name if up and up.barrier else ""
        self._upstreams = (
            None
            if up is None
            else UpstreamWatermarks(
                up.stage, self._partitions.count(up.inputs), tuple(topic.name for topic in up.topics), self._barrier
            )
        )

    def begin(self, epoch: int, snapshots: Sequence[Snapshot], earliest: dict[str, int], end: dict[str, int]) -> str:
        """Take over from the first readable snapshot under a new epoch; return the digest of its inventory.

        `earliest` and `end` are the bounds of each input. If the state is older than `earliest`, input was lost to
        retention; without a state, all remaining input is read.
        """
        self.epoch = epoch
        self._highwater = dict(end)
        self.stage.start_epoch(epoch)
        snapshot = next((one for one in snapshots if self._restore(one)), None)
        if snapshot is None and snapshots:
            log.error(
                "state is lost, reading the input again: stage=%s partition=%d", self.binding.stage, self.partition
            )
        offsets = snapshot.next_offset if snapshot else {}
        for topic in self.binding.inputs:
            offset, first = offsets.get(f"{topic.name}/{self.partition}"), earliest[topic.name]
            self.positions[topic.name] = first
            if offset is not None:
                self.positions[topic.name] = self._resume(topic, offset, first, end[topic.name])
        if snapshot is not None and self._upstreams is not None:
            self._upstreams.restore(snapshot.upstream_watermark_ns, self._clock.now_ns() + FUTURE_NS)
            self._advanced_ns = self._upstreams.watermark_ns or 0
        return snapshot.inventory_digest if snapshot else ""

    def _resume(self, topic: Topic, offset: int, earliest: int, end: int) -> int:
        """Return the offset at which to continue an input whose next offset was `offset`, and report lost records."""
        if offset <= end:
            self.losses.report(topic, offset, earliest - offset)
            return max(offset, earliest)
        self.losses.report(topic, 0, earliest, is_recreated=True)
        log.error(
            "a topic was created again, reading from its start: stage=%s topic=%s partition=%d offset=%d end=%d",
            self.binding.stage, topic.name, self.partition, offset, end,
        )  # fmt: skip
        return earliest

    def _restore(self, snapshot: Snapshot) -> bool:
        """Restore a snapshot; if it cannot be read, make a new stage and return False."""
        if not snapshot.state:
            return True
        try:
            self.stage.restore(snapshot.state)
            if isinstance(self.stage, TimeLimitedStage):
                self.stage.limit_time(self._clock.now_ns() + FUTURE_NS)
        except Reject as error:
            # The snapshot has another version or a future time, so the remaining input is processed again.
            log.warning("state not readable: stage=%s partition=%d: %s", self.binding.stage, self.partition, error)
            self._count("railsight_snapshots_unreadable_total")
            self._set_up()
            self.stage.start_epoch(self.epoch)
            return False
        self.is_restored = True
        return True

    def resume(self, inventory_digest: str) -> list[Record]:
        """Adopt the inventory version of the restored state."""
        return self.losses.take() + self._records(self._inventory.restore(inventory_digest))

    def reconcile(self, read: dict[Topic, list[FetchedRecord]]) -> list[Record]:
        """Pass the present states to the stage after unread input was deleted."""
        self.losses.must_reconcile = False
        if not isinstance(self.stage, ReconcilingStage):
            return []
        records: list[Record] = []
        batch = self._decode_all(read, records)
        pods = self._partitions.count(self.binding.inputs[0])
        outputs = self.stage.reconcile(batch, lambda pod: topics.partition_of(pod, pods) == self.partition)
        self.changed = True
        return records + self._records(outputs)

    def recover(self, read: dict[Topic, list[FetchedRecord]], ends: dict[str, int]) -> list[Record]:
        """Pass the records of the recovered topics to the stage before its first message; `ends` are the next offsets.

        Records of an input that are read here are not delivered again.
        """
        if not isinstance(self.stage, RecoverableStage):
            return []
        records: list[Record] = []
        found = [
            (topic, record.offset, message)
            for topic, fetched in read.items()
            for record in fetched
            if (message := self._decode(topic, record, records)) is not None
        ]
        unread = [one for topic, offset, one in found if offset >= self.positions.get(topic.name, 0)]
        content = [one for topic, _, one in found if topic in self.binding.recovered]
        records += self._records(self.stage.recover(unread, content))
        for topic, end in ends.items():
            if topic in self.positions:
                self.positions[topic] = max(self.positions[topic], end)
                self.set_end_offset(topic, end)
        self.changed = True
        return records

    def _decode_all(self, read: dict[Topic, list[FetchedRecord]], records: list[Record]) -> list[Message]:
        return [
            message
            for topic, fetched in read.items()
            for record in fetched
            if (message := self._decode(topic, record, records)) is not None
        ]

    def on_chunk(self, *chunks: Chunk) -> list[Record]:
        """Process chunks, of telemetry several as one batch; skip records that were read.

        Each begins at or before the end of its input's last chunk.
        """
        batch: list[Message] = []
        records: list[Record] = []
        for chunk in chunks:
            self.set_end_offset(chunk.topic, max(chunk.highwater, chunk.end))
            if chunk.end > self.positions[chunk.topic]:
                self._read(chunk, batch, records)
        records += self._process(batch) + self._advance() + self.losses.take()
        self.changed = self.changed or bool(records)
        for topic in {chunk.topic for chunk in chunks}:
            self._pass_counts_on(topic)
        return records

    def _read(self, chunk: Chunk, batch: list[Message], records: list[Record]) -> None:
        """Add the unread messages of a chunk to a batch, which is processed before each Progress."""
        topic, position = self._topics[chunk.topic], self.positions[chunk.topic]
        fresh = [record for record in chunk.records if record.offset >= position]
        self.losses.report(topic, position, chunk.end - position - len(fresh))
        records += self.losses.take()
        for record in fresh:
            message = self._decode(topic, record, records)
            if isinstance(message, Progress) and self._upstreams is not None:
                records += self._process(batch)
                batch.clear()
                self._update_watermark(self._upstreams, topic, within_arrival(message, record.timestamp * _MS))
            elif message is not None:
                self.changed = self.changed or topic not in self.binding.repeated
                if not batch:
                    records += self._advance()
                batch.append(message)
        self.positions[chunk.topic] = chunk.end
        self._arrived_ns[chunk.topic] = chunk.records[-1].timestamp * _MS
        if self._upstreams is not None and chunk.topic == self._barrier:
            self._upstreams.reached(chunk.end)
        self.records += len(fresh)
        self.moved = True
        self._count("railsight_messages_total", len(fresh), topic.name)

    def preview(self, chunk: Chunk) -> list[Record]:
        """Return what the stage concludes from records of an urgent input that `on_chunk` processes later, in order."""
        if self._preview is None:
            return []
        topic, batch = self._topics[chunk.topic], []
        for record in chunk.records:
            with suppress(Reject):  # `on_chunk` counts and reports it
                message = self._message(topic, record, lambda *_: None)
                # The broker's time as it is: that of ArrivalClock depends on earlier records.
                batch.append(dated_by_arrival(message, record.timestamp * _MS) if self._arrivals else message)
        return self._records(self._preview(batch))

    def _pass_counts_on(self, topic: str) -> None:
        """Add the counts of the stage and of the input's clock to the metrics."""
        if self._counted:
            for name, by in self._counted.items():
                self._count(name, by)
            self._counted.clear()
        if (arrivals := self._arrivals.get(topic)) is not None and arrivals.refused:
            self._count("railsight_append_times_refused_total", arrivals.refused)
            arrivals.refused = 0

    def _count(self, name: Counter, by: float = 1, topic: str = "") -> None:
        self._metrics.count(name, self.binding.stage, self.partition, topic=topic, by=by)

    def _update_watermark(self, upstreams: UpstreamWatermarks, topic: Topic, progress: Progress) -> None:
        """Apply a Progress, and count Progress of replaced owners, because restarted epochs show as such."""
        ignored = upstreams.ignored
        upstreams.update(topic.name, progress, self.positions.get(self._barrier, 0))
        if upstreams.ignored == ignored:
            return
        self._count("railsight_stale_progress_total")
        self._stale_progress += 1
        if self._stale_progress in (1, 100) or self._stale_progress % 10_000 == 0:
            log.warning(
                "ignored Progress of a replaced owner: stage=%s partition=%d sender=%s/%d epoch=%d count=%d",
                self.binding.stage, self.partition, progress.stage, progress.partition, progress.epoch,
                self._stale_progress,
            )  # fmt: skip

    def set_end_offset(self, topic: str, end: int) -> None:
        """Record the end of an input by the brokers."""
        self._highwater[topic] = max(end, self._highwater[topic])

    def tick(self, now_ns: int) -> list[Record]:
        """Advance the arrival clock of a stage whose upstream are devices."""
        arrival_ns = self._arrival_ns(now_ns)
        if arrival_ns is None:
            return []
        busiest, self.behind_ns = self.binding.inputs[0], max(0, now_ns - arrival_ns)
        self.losses.report_behind(busiest, self.positions[busiest.name], self.behind_ns)
        outputs = self._inventory.begin(arrival_ns) + self.stage.advance_watermark(arrival_ns) + self._inventory.due()
        self.changed = self.changed or bool(outputs)
        return self.losses.take() + self._records(outputs)

    def _arrival_ns(self, now_ns: int) -> int | None:
        """Return the time up to which all arrived records were read: now, or in a backlog the last arrival.

        Otherwise a worker after a pause would report every device as silent that it has not read yet. Compacted topics
        do not count, because compaction may have removed the record at their end.
        """
        behind = self._behind()
        if any(topic not in self._arrived_ns for topic in behind):
            return None
        return min(now_ns, *(self._arrived_ns[topic] for topic in behind)) if behind else now_ns

    def _behind(self) -> list[str]:
        return [
            topic.name
            for topic in self.binding.inputs
            if topic.retention_s is not None and self.positions[topic.name] < self._highwater[topic.name]
        ]

    @property
    def has_unread_input(self) -> bool:
        """True if the stage is idle and has unread input."""
        return self.stage.watermark_ns == IDLE_NS and bool(self._behind())

    def refresh(self) -> list[Record]:
        """Adopt changes of the inventory or the jobs."""
        return self._records(self._inventory.refresh())

    def progress(self, after_offset: int = 0) -> Progress:
        """Return the Progress of this owner."""
        lag = sum(max(0, end - self.positions[topic]) for topic, end in self._highwater.items())
        watermark_ns = self.stage.watermark_ns
        return Progress(self.binding.stage, self.partition, self.epoch, watermark_ns, after_offset, self.records, lag)

    def snapshot(self) -> Snapshot:
        """Return the state for a successor."""
        self.changed = self.moved = False
        return Snapshot(
            SCHEMA,
            self.epoch,
            {f"{topic}/{self.partition}": position for topic, position in self.positions.items()},
            self._upstreams.snapshot() if self._upstreams else {},
            self.stage.watermark_ns,
            self._inventory.digest,
            self.stage.snapshot(),
        )

    def verify(self, snapshot: Snapshot) -> str:
        """Return the reason why a successor could not restore a snapshot; empty if it can."""
        stage = self._make_stage(self.partition)
        stage.start_epoch(snapshot.epoch)
        try:
            stage.restore(snapshot.state)
        except Reject as error:
            return str(error)
        return ""

    def _decode(self, topic: Topic, record: FetchedRecord, records: list[Record]) -> Message | None:
        """Return the message of a record; None for a meaningless tombstone or a rejected record."""
        if record.value is None and topic.retention_s is None:
            return topics.decode_tombstone(topic, record.key)
        try:
            if self._verify is not None:
                self._verify(topic, record.key, record.value, record.headers, record.timestamp * _MS)
            message = self._message(topic, record, self._on_refusal)
            if isinstance(message, Control):
                return replace(message, arrived_at_ns=record.timestamp * _MS, offset=record.offset)
            if isinstance(message, SchedulerAnswer):
                return replace(message, arrived_at_ns=record.timestamp * _MS)
            if (clock := self._arrivals.get(topic.name)) is None:
                return message
            return dated_by_arrival(message, clock.arrived_ns(record.timestamp))
        except Reject as error:
            records.append(self._rejected(topic, record.offset, str(error), record.value or b""))
            return None

    def _message(self, topic: Topic, record: FetchedRecord, on_refusal: "OnRefusal") -> Message:
        if self._verifier is None:
            return topics.decode(topic, record.value, record.headers)
        return self._verifier.decode(topic, record, on_refusal)

    def _on_refusal(self, topic: Topic, offset: int, reason: str) -> None:
        self._count("railsight_unauthenticated_total", topic=topic.name)
        self.losses.refuse(topic, offset, clean(reason))

    def _rejected(self, topic: Topic, offset: int, reason: str, value: bytes) -> Record:
        """Return the record of a rejected message, and count it."""
        self._count("railsight_rejected_total", topic=topic.name)
        text, at_ns = clean(reason)[:REJECTED_BYTES], self._clock.now_ns()
        rejected = Rejected(topic.name, self.partition, offset, self.binding.stage, text, at_ns, value[:REJECTED_BYTES])
        return topics.encode(topics.REJECTED, rejected)

    def _process(self, batch: list[Message]) -> list[Record]:
        if not batch:
            return []
        times = [at for at in map(event_time_ns, batch) if at is not None]
        outputs = self._inventory.begin(min(times, default=None))
        switch_ns = self._inventory.next_ns()
        if switch_ns is not None and any(at >= switch_ns for at in times):
            # One by one, so that the version changes at the same record, however records were fetched.
            for message in batch:
                outputs += self.stage.process([message])
                outputs += self._inventory.due()
        else:
            outputs += self.stage.process(batch)
        return self._records(outputs)

    def _advance(self) -> list[Record]:
        watermark_ns = self._upstreams.watermark_ns if self._upstreams else None
        if watermark_ns is None or watermark_ns <= self._advanced_ns:
            return []
        outputs = self._inventory.begin(watermark_ns)
        while (at := self._inventory.next_ns()) is not None and self._advanced_ns < at < watermark_ns:
            self._advanced_ns = at
            outputs += self.stage.advance_watermark(at)
            outputs += self._inventory.due()
        self._advanced_ns = watermark_ns
        outputs += self.stage.advance_watermark(watermark_ns)
        outputs += self._inventory.due()
        return self._records(outputs)

    def _records(self, outputs: list[Output]) -> list[Record]:
        for output in outputs:
            self._count("railsight_outputs_total", topic=output.topic.name)
        return [self._record(output) for output in outputs]

    def _record(self, output: Output) -> Record:
        if output.message is None:
            assert output.key is not None, f"{self.binding.stage} deletes from {output.topic.name} without a key"
            return topics.tombstone(output.topic, output.key)
        try:
            record = topics.encode(output.topic, output.message, key=output.key, cluster=self.cluster)
        except (TypeError, ValueError, OverflowError, UnicodeError) as error:
            # An output that cannot be encoded must not end the owner: the next one would read its input and end again.
            return self._unsendable(output, f"cannot encode {type(output.message).__name__}: {error}")
        if self._sign is not None:
            record = self._sign(record, self._clock.now_ns())
        if self._signer is not None and (header := self._signer.header(record)) is not None:
            record = replace(record, headers=(*record.headers, header))
        size = len(record.value or b"")
        if size > MAX_RECORD_BYTES:
            return self._unsendable(
                output, f"{type(output.message).__name__} has {size} bytes, the limit is {MAX_RECORD_BYTES}"
            )
        return record

    def _unsendable(self, output: Output, reason: str) -> Record:
        """Return the rejected record of an output; its offset is -1."""
        log.error("rejecting an output: stage=%s topic=%s: %s", self.binding.stage, output.topic.name, reason)
        return self._rejected(output.topic, -1, reason, repr(output.message)[:REJECTED_BYTES].encode(errors="replace"))

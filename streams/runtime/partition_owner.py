"""The owner of one input partition: takes it over, folds what comes, sends what follows, and writes snapshots.

One task, so nothing of an owner happens at the same time as something else of it. What is processed and when time
advances is decided in partition_processor.py. Here is the order of what others can see: an epoch before its first
output, outputs before the Progress that covers them, outputs and a snapshot before input is acknowledged.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.instrument.clock import BrokerClock
from streams.instrument.metrics import Metrics
from streams.runtime.ordered_input import InputSource, OrderedInput
from streams.runtime.partition_processor import PartitionProcessor
from streams.runtime.reliable_sender import PartitionLost, ReliableSender
from streams.runtime.snapshots import SnapshotTopic, highest_known_epoch
from streams.wire import topics
from streams.wire.models import IDLE_NS, Progress, Snapshot
from streams.wire.retry import Backoff, Failure, retry
from streams.wire.standalone_consumer import AWAY, open_consumer, records, start_and_end_offsets
from streams.wire.topics import Record, Topic

log = logging.getLogger(__name__)

_RETRY = Backoff.constant(0.5)
# What a take-over asks of brokers that have just lost a node can hang for as long as a request may (40 s).
_TAKE_OVER_S = 60.0
# A turn takes milliseconds, and one that waits for the brokers as long as they are away.
_STALL_S = 5.0
_FIRST_PROGRESS_S = 10.0
"""An owner that has input to read, and has not read any, sends no Progress for so long: it would call itself idle, and
time would pass over what it is about to read."""


_NEVER = math.inf
_SNAPSHOT_SHARE = 0.05
"""Of an owner's time: a state that takes long to write is written less often. The shorter of its last two times counts:
one that waited for brokers does not predict the next, and twenty times an outage of 10 s would leave the input of three
minutes unacknowledged."""
_VERIFICATION_SHARE = 0.0003
"""Of an owner's time. Reading back an eighth of the largest fabric takes `measure` 0.1 s; for each of its snapshots it
would cost 4 % of the pipeline, so that only one in 330 s is read back, which keys of its own protect."""

_VERIFIER = ThreadPoolExecutor(1, "verify")
"""Of all owners of a process: what is read back is a second state in memory, of one owner at a time."""

_SNAPSHOT_RETRY_S = 30.0


def _next(every_s: float, now: float) -> float:
    """Return the next of the moments that all owners of this machine share: what they send then goes out together."""
    return (now // every_s + 1) * every_s


@dataclass(frozen=True, slots=True)
class OwnerContext:
    """The dependencies that all owners of a stage in one process share."""

    kafka: KafkaSettings
    runtime: RuntimeSettings
    clock: BrokerClock
    metrics: Metrics
    input: Callable[[], InputSource]
    producer: Callable[[], Any]
    """Answers aiokafka's producer, None while there is none."""


class InputRewound(Exception):
    """An input was deleted and created again while it was read: only a takeover begins at its new beginning."""


class PartitionOwner:
    """One partition in one generation of the consumer group."""

    def __init__(self, processor: PartitionProcessor, context: OwnerContext, owned: Callable[[], bool]) -> None:
        self._processor = processor
        self._context = context
        binding = self._binding = processor.binding
        self.input = OrderedInput(binding, processor.partition, context.input)
        self._sender = ReliableSender(
            context.producer,
            context.kafka.partitions,
            owned,
            stage=binding.stage,
            partition=processor.partition,
            metrics=context.metrics,
            appended=context.clock.observe,
        )
        self._snapshots = SnapshotTopic(binding.stage, binding.snapshots, processor.partition, self._sender)
        runtime = context.runtime
        self._snapshot_s = runtime.measure_snapshot_s if binding.upstream is None else runtime.snapshot_s
        self._stopping = False
        self.is_restored = False
        """The partition was taken over, with its state."""
        self._takeover_attempts = 0
        self._covered_offset = 0
        self._last_progress = (-1, -1)
        self._due = {"progress": _NEVER, "progress_topic": 0.0, "snapshot": 0.0, "tick": 0.0}
        self._ticks = binding.upstream is None and runtime.wall_clock_ticks
        self._turned = 0.0
        self._began = 0.0
        self._writing: asyncio.Task[None] | None = None
        self._last_write_s = 0.0
        self._verify_at = 0.0
        """The time from which on the next snapshot is read back before it is written; the first one is."""

    async def run(self) -> None:
        """Own the partition until it is lost or given up; whatever else ends this is a bug."""
        try:
            await self._take_over()
            self.is_restored = True
            while not self._stopping:
                chunk = await self.input.next(self._next_turn() - time.monotonic())
                if chunk is not None:
                    await self._publish(self._processor.on_chunk(chunk))
                if self._processor.losses.must_reconcile:
                    await self._reconcile()
                if self.input.may_be_rewound:
                    await self._check_rewound()
                await self._housekeeping(time.monotonic())
                # Nothing above need wait for anything, and in a backlog the next chunk is there.
                await asyncio.sleep(0)
            await self._snapshot()
            await self._written()
        except PartitionLost:
            log.info("%s/%d: lost to another worker", self._binding.stage, self._processor.partition)
        finally:
            if self._writing is not None:
                self._writing.cancel()

    def release(self) -> None:
        """End after this turn and a snapshot, so that a successor has nothing to repeat."""
        self._stopping = True
        self.input.wake()

    @property
    def positions(self) -> dict[tuple[str, int], int]:
        """The next offset of each input that is not compacted, once the state is restored."""
        if not self.is_restored:
            return {}
        partition, read = self._processor.partition, self._processor.positions
        timed = (topic.name for topic in self._binding.inputs if topic.retention_s is not None)
        return {(name, partition): read[name] for name in timed}

    @property
    def sending_s(self) -> float:
        """The time for which the oldest unacknowledged records wait."""
        return self._sender.sending_s

    @property
    def attempts(self) -> int:
        """Count the attempts to take over and to send; each ends in bounded time."""
        return self._takeover_attempts + self._sender.attempts

    async def _take_over(self) -> None:
        processor, context = self._processor, self._context
        inputs = [(topic.name, processor.partition) for topic in self._binding.inputs]
        began = time.monotonic()

        async def read(_: int) -> tuple[int, list[Snapshot], dict[str, int], dict[str, int]]:
            self._takeover_attempts += 1
            async with asyncio.timeout(_TAKE_OVER_S), open_consumer(context.kafka.client_options()) as consumer:
                epoch, states = await self._snapshots.take_over(
                    consumer, lambda: highest_known_epoch(consumer, self._binding, processor.partition)
                )
                earliest, end = await start_and_end_offsets(consumer, inputs)
                if self._binding.covers is not None:
                    covers = self._binding.covers.name
                    self._covered_offset = (await start_and_end_offsets(consumer, [(covers, 0)]))[1][covers]
            return epoch, states, earliest, end

        def warn(failure: Failure) -> None:
            error = str(failure.error) or "no answer"
            log.warning("%s/%d: cannot take over, retrying: %s", self._binding.stage, processor.partition, error)

        epoch, states, earliest, end = await retry(read, AWAY, _RETRY, before_wait=warn)
        # The state of thousands of devices takes a while to read; owners beside this one go on meanwhile.
        digest = await asyncio.to_thread(processor.begin, epoch, states, earliest, end)
        binding = self._binding
        wanted = (*binding.recovered, *(() if processor.is_restored else binding.history))
        recovered, ends = await self._read_whole(wanted)
        await self._publish(processor.resume(digest))
        await self._publish(processor.recover(recovered, ends))
        self.input.begin(processor.positions, end)
        now = time.monotonic()
        self._report_takeover(epoch, "a snapshot" if states else "nothing", now - began)
        self._turned = self._began = now
        # Owners take over together; their snapshots are not to coincide as well.
        share = (processor.partition + 1) / self._binding.partitions(context.kafka.partitions)
        self._due = {
            "progress": _NEVER,
            "progress_topic": now,
            "snapshot": now + self._snapshot_s * share,
            "tick": now + context.runtime.settle_s,
        }

    def _report_takeover(self, epoch: int, source: str, lasted_s: float) -> None:
        metrics, stage, partition = self._context.metrics, self._binding.stage, self._processor.partition
        metrics.count("railsight_takeovers_total", stage, partition)
        metrics.set("railsight_epoch", stage, partition, epoch)
        metrics.set("railsight_takeover_seconds", stage, partition, lasted_s)
        if self._snapshots.unreadable:
            metrics.count("railsight_snapshots_unreadable_total", stage, partition, by=self._snapshots.unreadable)
        log.info("%s/%d: epoch %d from %s, %.2f s", stage, partition, epoch, source, lasted_s)

    async def _check_rewound(self) -> None:
        """Raise InputRewound if an input ends before what was read of it."""
        positions = dict(self._processor.positions)
        inputs = [(name, self._processor.partition) for name in positions]

        async def read(_: int) -> dict[str, int]:
            self._takeover_attempts += 1
            async with asyncio.timeout(_TAKE_OVER_S), open_consumer(self._context.kafka.client_options()) as consumer:
                return (await start_and_end_offsets(consumer, inputs))[1]

        end = await retry(read, AWAY, _RETRY)
        self.input.may_be_rewound = False
        if rewound := {name: at for name, at in positions.items() if end[name] < at}:
            raise InputRewound(", ".join(f"{name} ends at {end[name]}, {at} is read" for name, at in rewound.items()))

    async def _reconcile(self) -> None:
        """Evaluate the present states, because input was deleted before it was read."""
        read, _ = await self._read_whole(self._binding.present)
        await self._publish(self._processor.reconcile(read))

    async def _read_whole(self, wanted: Sequence[Topic]) -> tuple[dict[Topic, list[Any]], dict[str, int]]:
        """Return all records of topics with one partition, and the offsets after them."""
        binding, partition = self._binding, self._processor.partition

        async def read(_: int) -> tuple[dict[Topic, list[Any]], dict[str, int]]:
            self._takeover_attempts += 1
            async with asyncio.timeout(_TAKE_OVER_S), open_consumer(self._context.kafka.client_options()) as consumer:
                found = {topic: [one async for one in records(consumer, topic.name, 0)] for topic in wanted}
                return found, {topic.name: own[-1].offset + 1 for topic, own in found.items() if own}

        def warn(failure: Failure) -> None:
            names = ", ".join(topic.name for topic in wanted)
            log.warning("%s/%d: cannot read %s, retrying: %s", binding.stage, partition, names, failure.error)

        return await retry(read, AWAY, _RETRY, before_wait=warn) if wanted else ({}, {})

    def _next_turn(self) -> float:
        """Return the time at which there is something to do though nothing comes."""
        due = [self._due["progress_topic"], self._due["progress"]]
        if self._processor.changed:
            due.append(self._due["snapshot"])
        if self._ticks:
            due.append(self._due["tick"])
        return min(due)

    @property
    def _moved(self) -> bool:
        return self._last_progress != (self._processor.stage.watermark_ns, self._covered_offset)

    async def _publish(self, records: list[Record]) -> None:
        offsets = await self._sender.send(records)
        for record, offset in zip(records, offsets, strict=True):
            if record.topic is self._binding.covers:
                self._covered_offset = offset + 1

    async def _housekeeping(self, now: float) -> None:
        if now - self._turned > _STALL_S:
            # The brokers were away, or this process was stopped: what devices sent meanwhile is still on its way.
            self._due["tick"] = now + self._context.runtime.settle_s
        self._turned = now
        if self._writing is not None and self._writing.done():
            await self._written()
        for topic in self._binding.inputs:
            self._processor.set_end_offset(
                topic.name, self._context.input().end_of(topic.name, self._processor.partition) or 0
            )
        await self._publish(self._processor.refresh())
        if self._ticks and now >= self._due["tick"]:
            self._due["tick"] = _next(self._context.runtime.tick_s, now)
            await self._publish(self._processor.tick(self._context.clock.now_ns()))
        await self._progress(now)
        quiet = self._processor.moved and now >= self._due["snapshot"] + self._context.runtime.quiet_snapshot_s
        if quiet or (self._processor.changed and now >= self._due["snapshot"]):
            await self._snapshot()

    async def _progress(self, now: float) -> None:
        """Send how far event time has come, behind all that it covers."""
        to_progress_topic = now >= self._due["progress_topic"]
        runtime = self._context.runtime
        if self._moved and self._due["progress"] == _NEVER:
            # Not at once: the brokers, and all who read it, have less to do where all owners send at the same moment.
            self._due["progress"] = _next(runtime.progress_s, now)
        if not (to_progress_topic or now >= self._due["progress"]):
            return
        self._due["progress"] = _NEVER
        if self._processor.has_unread_input and now - self._began < _FIRST_PROGRESS_S:
            return
        progress = self._processor.progress(self._covered_offset)
        self._last_progress = progress.watermark_ns, self._covered_offset
        targets = list(self._binding.progress_in_band)
        if to_progress_topic or self._binding.covers is not None:
            targets.append(self._binding.progress_topic)
        if to_progress_topic:
            self._due["progress_topic"] = _next(runtime.progress_at_least_s, now)
            self._gauges(progress)
        records, at = [], []
        for topic in targets:
            record = topics.encode(topic, progress, key=f"{progress.stage}/{progress.partition}")
            for partition in range(self._context.kafka.partitions.count(topic)):
                records.append(record)
                at.append(partition)
        await self._sender.send(records, at)

    def _gauges(self, progress: Progress) -> None:
        metrics, stage, partition = self._context.metrics, self._binding.stage, self._processor.partition
        metrics.set("railsight_lag_records", stage, partition, progress.lag)
        metrics.set("railsight_clock_offset_seconds", stage, partition, self._context.clock.wall_offset_ns / 1e9)
        if progress.watermark_ns != IDLE_NS:
            metrics.set("railsight_watermark_seconds", stage, partition, progress.watermark_ns / 1e9)

    async def _snapshot(self) -> None:
        """Take the state down; it is written while the owner goes on."""
        if not (self._processor.changed or self._processor.moved):
            return
        await self._written()
        self._due["snapshot"] = math.inf
        began = time.monotonic()
        covered = dict(self._processor.positions)
        # At once, some 50 ms for an eighth of the largest fabric: a thread, which gets the interpreter from the others
        # a millisecond at a time, took up to half a second, and what came for this partition waited.
        try:
            snapshot = self._processor.snapshot()
        except (TypeError, ValueError, OverflowError) as error:
            self._keep_last_snapshot(str(error), began)
            return
        self._writing = asyncio.create_task(self._write(snapshot, covered, began))

    async def _write(self, snapshot: Snapshot, covered: dict[str, int], began: float) -> None:
        """Write a state, then acknowledge the input that it covers."""
        is_verified = began >= self._verify_at
        if is_verified:
            reason, lasted = await asyncio.get_running_loop().run_in_executor(_VERIFIER, self._verify, snapshot)
            if reason:
                self._keep_last_snapshot(reason, began)
                return
            self._verify_at = began + lasted / _VERIFICATION_SHARE
        size = await self._snapshots.write(snapshot, is_verified=is_verified)
        for topic, offset in covered.items():
            self._context.input().acknowledge(topic, self._processor.partition, offset)
        lasted = time.monotonic() - began
        cost_s, self._last_write_s = min(lasted, self._last_write_s), lasted
        self._due["snapshot"] = began + max(self._snapshot_s, cost_s / _SNAPSHOT_SHARE)
        self.input.wake()
        metrics, stage, partition = self._context.metrics, self._binding.stage, self._processor.partition
        metrics.count("railsight_snapshots_total", stage, partition)
        metrics.count("railsight_snapshot_bytes_total", stage, partition, by=size)
        metrics.count("railsight_snapshot_seconds_total", stage, partition, by=lasted)

    def _verify(self, snapshot: Snapshot) -> tuple[str, float]:
        """Return the reason for which a state cannot be restored, empty if it can; and the time that it took."""
        began = time.thread_time()
        return self._processor.verify(snapshot), time.thread_time() - began

    def _keep_last_snapshot(self, reason: str, began: float) -> None:
        """Leave the last good snapshot in place: a successor reads the input after it again."""
        stage, partition = self._binding.stage, self._processor.partition
        log.error("cannot write a snapshot, keeping the last one: stage=%s partition=%d: %s", stage, partition, reason)
        self._context.metrics.count("railsight_snapshot_failures_total", stage, partition)
        self._processor.changed = True
        self._verify_at = 0.0
        self._due["snapshot"] = began + _SNAPSHOT_RETRY_S

    async def _written(self) -> None:
        """Wait until the state that was taken down last is written; raises what that ended with."""
        if self._writing is not None:
            await self._writing
            self._writing = None

"""The owner of one input partition: takes it over, folds what comes, sends what follows, and writes snapshots.

One task, so nothing of an owner happens at the same time as something else of it. What is folded and when time
advances is fold.py's; this decides the order of what others can see: an epoch before its first output, outputs before
the Progress that covers them, outputs and a snapshot before input is acknowledged.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.instrument.clock import Clock
from streams.instrument.metrics import Metrics
from streams.runtime.fold import Fold
from streams.runtime.inbox import Inbox, Input
from streams.runtime.outbox import Lost, Outbox
from streams.runtime.reading import AWAY, bounds, reading
from streams.runtime.snapshot_topic import SnapshotTopic
from streams.wire import topics
from streams.wire.models import IDLE_NS, Progress, Snapshot
from streams.wire.retry import Backoff, Failure, retry
from streams.wire.topics import Record

log = logging.getLogger(__name__)

_RETRY = Backoff.constant(0.5)
# What a take-over asks of brokers that have just lost a node can hang for as long as a request may (40 s).
_TAKE_OVER_S = 60.0
# A turn takes milliseconds, and one that waits for the brokers as long as they are away.
_STALL_S = 5.0
_FIRST_PROGRESS_S = 10.0
"""An owner that has input to read, and has not read any, sends no Progress for so long: it would call itself idle, and
time would pass over what it is about to read."""


_NOTHING_TO_SEND = math.inf
_SNAPSHOT_SHARE = 0.05
"""Of an owner's time: a state that takes long to write is written less often."""


def _next(every_s: float, now: float) -> float:
    """Return the next of the moments that all owners of this machine share: what they send then goes out together."""
    return (now // every_s + 1) * every_s


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings that all owners of a stage in one process share."""

    kafka: KafkaSettings
    runtime: RuntimeSettings
    clock: Clock
    metrics: Metrics
    input: Callable[[], Input]
    producer: Callable[[], Any]
    """Answers aiokafka's producer, None while there is none."""


class Owner:
    """One partition in one generation of the consumer group."""

    def __init__(self, fold: Fold, around: Surroundings, owned: Callable[[], bool]) -> None:
        self._fold = fold
        self._around = around
        binding = self._binding = fold.binding
        self.inbox = Inbox(binding, fold.partition, around.input)
        self._outbox = Outbox(
            around.producer,
            around.kafka.partitions,
            owned,
            stage=binding.stage,
            partition=fold.partition,
            metrics=around.metrics,
        )
        self._snapshots = SnapshotTopic(binding.stage, binding.snapshots, fold.partition, self._outbox)
        runtime = around.runtime
        self._snapshot_s = runtime.measure_snapshot_s if binding.upstream is None else runtime.snapshot_s
        self._stopping = False
        self._covered_offset = 0
        self._last_progress = (-1, -1)
        self._due = {"progress": _NOTHING_TO_SEND, "beside": 0.0, "snapshot": 0.0, "tick": 0.0}
        self._ticks = binding.upstream is None and runtime.wall_clock_ticks
        self._turned = 0.0
        self._began = 0.0
        self._writing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Own the partition until it is lost or given up; whatever else ends this is a bug."""
        try:
            await self._take_over()
            while not self._stopping:
                chunk = await self.inbox.next(self._next_turn() - time.monotonic())
                if chunk is not None:
                    await self._send(self._fold.take(chunk))
                await self._duties(time.monotonic())
                # Nothing above need wait for anything, and in a backlog the next chunk is there.
                await asyncio.sleep(0)
            await self._snapshot()
            await self._written()
        except Lost:
            log.info("%s/%d: lost to another worker", self._binding.stage, self._fold.partition)
        finally:
            if self._writing is not None:
                self._writing.cancel()

    def give_up(self) -> None:
        """End after this turn and a snapshot, so that a successor has nothing to repeat."""
        self._stopping = True
        self.inbox.wake()

    async def _take_over(self) -> None:
        fold, around = self._fold, self._around
        inputs = [(topic.name, fold.partition) for topic in self._binding.inputs]
        began = time.monotonic()

        async def read(_: int) -> tuple[int, Snapshot | None, dict[str, int], dict[str, int]]:
            async with asyncio.timeout(_TAKE_OVER_S), reading(around.kafka) as consumer:
                epoch, state = await self._snapshots.take_over(consumer)
                earliest, end = await bounds(consumer, inputs)
                if self._binding.covers is not None:
                    covers = self._binding.covers.name
                    self._covered_offset = (await bounds(consumer, [(covers, 0)]))[1][covers]
            return epoch, state, earliest, end

        def warn(failure: Failure) -> None:
            error = str(failure.error) or "no answer"
            log.warning("%s/%d: cannot take over, retrying: %s", self._binding.stage, fold.partition, error)

        epoch, state, earliest, end = await retry(read, AWAY, _RETRY, before_wait=warn)
        # The state of thousands of devices takes a while to read; owners beside this one go on meanwhile.
        digest = await asyncio.to_thread(fold.begin, epoch, state, earliest, end)
        self.inbox.begin(fold.positions, end)
        await self._send(fold.resume(digest))
        around.metrics.count("railsight_takeovers_total", self._binding.stage, fold.partition)
        around.metrics.set("railsight_epoch", self._binding.stage, fold.partition, epoch)
        now = time.monotonic()
        around.metrics.set("railsight_takeover_seconds", self._binding.stage, fold.partition, now - began)
        source = "a snapshot" if state else "nothing"
        log.info("%s/%d: epoch %d from %s, %.2f s", self._binding.stage, fold.partition, epoch, source, now - began)
        self._turned = self._began = now
        # Owners take over together; their snapshots are not to coincide as well.
        share = (fold.partition + 1) / self._binding.partitions(around.kafka.partitions)
        self._due = {
            "progress": _NOTHING_TO_SEND,
            "beside": now,
            "snapshot": now + self._snapshot_s * share,
            "tick": now + around.runtime.settle_s,
        }

    def _next_turn(self) -> float:
        """Return the time at which there is something to do though nothing comes."""
        due = [self._due["beside"], self._due["progress"]]
        if self._fold.changed:
            due.append(self._due["snapshot"])
        if self._ticks:
            due.append(self._due["tick"])
        return min(due)

    @property
    def _moved(self) -> bool:
        return self._last_progress != (self._fold.stage.watermark_ns, self._covered_offset)

    async def _send(self, records: list[Record]) -> None:
        offsets = await self._outbox.send(records)
        for record, offset in zip(records, offsets, strict=True):
            if record.topic is self._binding.covers:
                self._covered_offset = offset + 1

    async def _duties(self, now: float) -> None:
        if now - self._turned > _STALL_S:
            # The brokers were away, or this process was stopped: what devices sent meanwhile is still on its way.
            self._due["tick"] = now + self._around.runtime.settle_s
        self._turned = now
        if self._writing is not None and self._writing.done():
            await self._written()
        for topic in self._binding.inputs:
            self._fold.grown_to(topic.name, self._around.input().end_of(topic.name, self._fold.partition) or 0)
        await self._send(self._fold.refresh())
        if self._ticks and now >= self._due["tick"]:
            self._due["tick"] = _next(self._around.runtime.tick_s, now)
            await self._send(self._fold.tick(self._around.clock.now_ns()))
        await self._progress(now)
        quiet = self._fold.moved and now >= self._due["snapshot"] + self._around.runtime.quiet_snapshot_s
        if quiet or (self._fold.changed and now >= self._due["snapshot"]):
            await self._snapshot()

    async def _progress(self, now: float) -> None:
        """Send how far event time has come, behind all that it covers."""
        beside = now >= self._due["beside"]
        runtime = self._around.runtime
        if self._moved and self._due["progress"] == _NOTHING_TO_SEND:
            # Not at once: the brokers, and all who read it, have less to do where all owners send at the same moment.
            self._due["progress"] = _next(runtime.progress_s, now)
        if not (beside or now >= self._due["progress"]):
            return
        self._due["progress"] = _NOTHING_TO_SEND
        if self._fold.unread and now - self._began < _FIRST_PROGRESS_S:
            return
        progress = self._fold.progress(self._covered_offset)
        self._last_progress = progress.watermark_ns, self._covered_offset
        targets = list(self._binding.progress_in_band)
        if beside or self._binding.covers is not None:
            targets.append(self._binding.progress_beside)
        if beside:
            self._due["beside"] = _next(runtime.progress_at_least_s, now)
            self._gauges(progress)
        records, at = [], []
        for topic in targets:
            record = topics.encode(topic, progress, key=f"{progress.stage}/{progress.partition}")
            for partition in range(self._around.kafka.partitions.count(topic)):
                records.append(record)
                at.append(partition)
        await self._outbox.send(records, at)

    def _gauges(self, progress: Progress) -> None:
        metrics, stage, partition = self._around.metrics, self._binding.stage, self._fold.partition
        metrics.set("railsight_lag_records", stage, partition, progress.lag)
        if progress.watermark_ns != IDLE_NS:
            metrics.set("railsight_watermark_seconds", stage, partition, progress.watermark_ns / 1e9)

    async def _snapshot(self) -> None:
        """Take the state down; it is written while the owner goes on."""
        if not (self._fold.changed or self._fold.moved):
            return
        await self._written()
        self._due["snapshot"] = math.inf
        began = time.monotonic()
        covered = dict(self._fold.positions)
        # At once, some 50 ms for an eighth of the largest fabric: a thread, which gets the interpreter from the others
        # a millisecond at a time, took up to half a second, and what came for this partition waited.
        snapshot = self._fold.snapshot()
        self._writing = asyncio.create_task(self._write(snapshot, covered, began))

    async def _write(self, snapshot: Snapshot, covered: dict[str, int], began: float) -> None:
        """Write a state, then acknowledge the input that it covers."""
        size = await self._snapshots.write(snapshot)
        for topic, offset in covered.items():
            self._around.input().acknowledge(topic, self._fold.partition, offset)
        lasted = time.monotonic() - began
        self._due["snapshot"] = began + max(self._snapshot_s, lasted / _SNAPSHOT_SHARE)
        self.inbox.wake()
        metrics, stage, partition = self._around.metrics, self._binding.stage, self._fold.partition
        metrics.count("railsight_snapshots_total", stage, partition)
        metrics.count("railsight_snapshot_bytes_total", stage, partition, by=size)
        metrics.count("railsight_snapshot_seconds_total", stage, partition, by=lasted)

    async def _written(self) -> None:
        """Wait until the state that was taken down last is written; raises what that ended with."""
        if self._writing is not None:
            await self._writing
            self._writing = None

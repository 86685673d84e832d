"""Owns one input partition: takes it over, processes its input, sends the outputs, and writes snapshots.

An owner is one task, so its steps never overlap. partition_processor.py decides which records are processed and when
time advances. This module ensures the order of visible effects: an epoch is written before its first output
(`take_over`); in `turn`, outputs are sent before the Progress that covers them, and outputs and a snapshot before the
input is acknowledged. Outputs of a stage with transactions wait for the next snapshot, which is then taken at once, and
are sent with it (transactions.py).
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from streams.config.runtime import RuntimeSettings
from streams.instrument.clock import BrokerClock
from streams.instrument.metrics import Counter, Gauge, Metrics
from streams.runtime.bindings import BINDINGS
from streams.runtime.ordered_input import CHUNK_RECORDS, MOST_RECORDS, Chunk, InputSource, OrderedInput
from streams.runtime.partition_processor import PartitionProcessor
from streams.runtime.reliable_sender import PartitionLost, ReliableSender
from streams.runtime.snapshots import SnapshotTopic, highest_known_epoch
from streams.runtime.transactions import OpenProducer, TransactionalSender
from streams.wire import topics
from streams.wire.models import IDLE_NS, Progress, Snapshot
from streams.wire.retry import Backoff, Failure, retry
from streams.wire.standalone_consumer import AWAY, records, start_and_end_offsets
from streams.wire.topics import Partitions, Record, Topic

if TYPE_CHECKING:
    from streams.wire.identity import MacSigner, MacVerifier

log = logging.getLogger(__name__)
Found = TypeVar("Found")

_RETRY = Backoff.constant(0.5)
_INVENTORY_POLL_S = 0.05
# A takeover's request to brokers that have just lost a node can hang for the request timeout (40 s).
_READ_S = 60.0
# A turn takes milliseconds, but waits for unavailable brokers.
_STALL_S = 5.0
_FIRST_PROGRESS_S = 10.0
"""An owner that has not read its waiting input yet sends no Progress for this time: it would report itself as idle, and
the unread input would be late."""


_NEVER = math.inf
_STAGES = tuple(BINDINGS)
_SNAPSHOT_SHARE = 0.05
"""The share of an owner's time for snapshots, so that slow snapshots are written less often. The shorter of the last
two times counts, because a wait for brokers does not predict the next time: twenty times an outage of 10 s would leave
the input of three minutes unacknowledged."""
_VERIFICATION_SHARE = 0.0003
"""The share of an owner's time for verifying snapshots. `measure` takes 0.1 s to read back an eighth of the largest
fabric, 4 % of the pipeline's time for every snapshot; so it verifies one in 330 s, which has separate keys."""

_VERIFIER = ThreadPoolExecutor(1, "verify")
"""One thread for all owners of a process, so that only one owner at a time has a second state in memory."""

_SNAPSHOT_RETRY_S = 30.0


def _next(every_s: float, now: float, after_s: float = 0.0) -> float:
    """Return the next of the times that all owners of this machine share, so that they send at the same time.

    The times are `after_s` after the multiples of the interval.
    """
    return ((now - after_s) // every_s + 1) * every_s + after_s


_ITERATIONS = 4
"""Each iteration of the event loop may wait 5 ms for another thread that has the interpreter. With up to 32, until
nothing else was due, the samples of a start of 131,072 GPUs stayed 30,000 messages behind; with few they caught up."""


async def _others_first() -> None:
    """Let other work run that is due, such as the steps of an event through all stages."""
    for _ in range(_ITERATIONS):
        await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class OwnerContext:
    """The dependencies that all owners of a stage in one process share."""

    partitions: Partitions
    runtime: RuntimeSettings
    clock: BrokerClock
    metrics: Metrics
    input: Callable[[], InputSource]
    producer: Callable[[], Any]
    """Returns aiokafka's producer, or None while there is none."""
    consumer: Callable[[], AbstractAsyncContextManager[Any]]
    """Opens a consumer without a group, for snapshots and topics that are read completely."""
    transactions: OpenProducer
    inventory_positions: Callable[[], Mapping[str, int]] = dict
    """Returns the next offset of the topics of the inventory and the jobs; empty if nothing reads them."""
    now_s: Callable[[], float] = time.monotonic
    verifier: "MacVerifier | None" = None
    """Verifies telemetry; None if its MACs are not verified."""
    signer: "MacSigner | None" = None
    """Signs the events of a stage."""
    bulk_turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lets one chunk of a busy input be processed at a time, and all that is due before the next one."""


class InputRewound(Exception):
    """Raised if an input was deleted and created again while it was read; a takeover reads its new beginning."""


class PartitionOwner:
    """One partition in one generation of the consumer group."""

    def __init__(self, processor: PartitionProcessor, context: OwnerContext, owned: Callable[[], bool]) -> None:
        self._processor = processor
        self._context = context
        binding = self._binding = processor.binding
        self._stage, self._partition = binding.stage, processor.partition
        self.input = OrderedInput(binding, processor.partition, context.input)
        self._sender = ReliableSender(
            context.producer,
            context.partitions,
            owned,
            stage=binding.stage,
            partition=processor.partition,
            metrics=context.metrics,
            appended=context.clock.observe,
        )
        self._commits: TransactionalSender | None = None
        if binding.is_transactional:
            transactional_id = f"{binding.group(processor.cluster)}.{processor.partition}"
            self._commits = TransactionalSender(context.transactions, transactional_id, owned)
        self._snapshots = SnapshotTopic(
            binding.stage, binding.snapshots, processor.partition, self._commits or self._sender
        )
        self._uncommitted: list[Record] = []
        """Outputs that wait for the next transaction."""
        runtime = context.runtime
        self._snapshot_s = runtime.measure_snapshot_s if binding.upstream is None else runtime.snapshot_s
        self._now_s = context.now_s
        self._stopping = False
        self.is_restored = False
        """True after the takeover of the partition with its state."""
        self._reading_attempts = 0
        self._covered_offset = 0
        self._must_cover = False
        """True after outputs that no Progress covers yet."""
        self._due = {"progress": _NEVER, "progress_topic": 0.0, "snapshot": 0.0, "tick": 0.0, "commit": 0.0}
        self._ticks = binding.upstream is None and runtime.wall_clock_ticks
        self._turned = self._began = 0.0
        self._writing: asyncio.Task[None] | None = None
        self._last_write_s = 0.0
        self._verify_at = 0.0
        """From this time on, the next snapshot is verified before it is written; the first one always is."""

    async def run(self) -> None:
        """Own the partition until it is lost or released, or raise TransactionFailed; any other end is a bug."""
        try:
            await self.take_over()
            while not self._stopping:
                await self.turn()
            await self._snapshot()
            await self.written()
        except PartitionLost:
            log.info("%s/%d: lost to another worker", self._stage, self._partition)
        finally:
            if self._writing is not None:
                self._writing.cancel()
            if self._commits is not None:
                await self._commits.close()

    async def turn(self) -> None:
        """Read, process, send, report the Progress, take a snapshot and acknowledge its input, in this order."""
        processor = self._processor
        chunk = await self.input.next(self._next_turn() - self._now_s())
        if chunk is not None:
            await self._send(await self._process(chunk))
        if processor.losses.must_reconcile:
            present, _ = await self._read_whole(self._binding.present)
            await self._send(processor.reconcile(present))
        if self.input.may_be_rewound:
            await self._check_rewound()
        now = self._now_s()
        if now - self._turned > _STALL_S:
            # The brokers were unavailable or this process was stopped, so the devices' messages are delayed.
            self._due["tick"] = now + self._context.runtime.settle_s
        self._turned = now
        if self._writing is not None and self._writing.done():
            await self.written()
        for topic in self._binding.inputs:
            processor.set_end_offset(topic.name, self._context.input().end_of(topic.name, self._partition) or 0)
        await self._send(processor.refresh())
        if self._ticks and now >= self._due["tick"]:
            self._due["tick"] = _next(self._context.runtime.tick_s, now)
            await self._send(processor.tick(self._context.clock.now_ns()))
        await self._send_progress(now)
        is_late = processor.moved and now >= self._due["snapshot"] + self._context.runtime.quiet_snapshot_s
        must_commit = self._uncommitted and self._writing is None and now >= self._due["commit"]
        if must_commit or is_late or (processor.changed and now >= self._due["snapshot"]):
            await self._snapshot()
        # Yields to other tasks, because in a backlog none of the steps above may have waited.
        await asyncio.sleep(0)

    async def _process(self, chunk: Chunk) -> list[Record]:
        """Process a chunk and those that are ready after it: of busy inputs together, of others until one has outputs.

        The merge cuts inputs into chunks of few records, each of which would take a turn.
        """
        if chunk.topic in self.input.busy:
            async with self._context.bulk_turn:
                records = self._processor.on_chunk(chunk, *self._following(chunk))
                await _others_first()
            return records
        records, count = self._processor.on_chunk(chunk), len(chunk.records)
        while (
            not (records or self._binding.bulk) and count < CHUNK_RECORDS and (more := self.input.ready()) is not None
        ):
            records, count = self._processor.on_chunk(more), count + len(more.records)
        return records

    def _following(self, chunk: Chunk) -> Iterator[Chunk]:
        """Yield the chunks that are ready after a chunk, and are processed with it."""
        room = MOST_RECORDS - len(chunk.records)
        while room > 0 and (more := self.input.ready(room)) is not None:
            room -= len(more.records)
            yield more

    async def preview(self, chunk: Chunk) -> None:
        """Send what follows from an urgent chunk alone, if earlier input delays it; `input.put` follows."""
        if self.is_restored and self.input.is_delayed:
            await self._sender.send_once(self._processor.preview(chunk))

    async def _snapshot(self) -> None:
        """Take a snapshot; another task writes it and acknowledges its input while the owner continues."""
        if not (self._processor.changed or self._processor.moved or self._uncommitted):
            return
        await self.written()
        self._due["snapshot"] = math.inf
        began, covered, outputs = self._now_s(), dict(self._processor.positions), self._uncommitted
        # Takes some 50 ms for an eighth of the largest fabric without yielding; a thread, which gets the interpreter
        # for a millisecond at a time, took up to half a second, and this partition's input waited.
        try:
            snapshot = self._processor.snapshot()
        except (TypeError, ValueError, OverflowError) as error:
            self._keep_last_snapshot(str(error), began)
            return

        self._uncommitted = []

        async def write_and_acknowledge() -> None:
            is_verified = began >= self._verify_at
            if is_verified and (reason := await self._verify(snapshot, began)):
                self._uncommitted = outputs + self._uncommitted
                self._keep_last_snapshot(reason, began)
                return
            at = [record.partition(self._context.partitions) for record in outputs]
            size = await self._snapshots.write(snapshot, is_verified=is_verified, outputs=outputs, at=at)
            for topic, offset in covered.items():
                self._context.input().acknowledge(topic, self._partition, offset)
            self._report_snapshot(began, size)

        self._writing = asyncio.create_task(write_and_acknowledge())
        self._writing.add_done_callback(lambda _: self.input.wake())

    async def written(self) -> None:
        """Wait until the last snapshot is written; raises the error of its task."""
        if self._writing is not None:
            await self._writing
            self._writing = None

    async def _verify(self, snapshot: Snapshot, began: float) -> str:
        """Return the reason why a snapshot cannot be restored; if it can, set the time of the next check."""

        def verify() -> tuple[str, float]:
            started = time.thread_time()
            return self._processor.verify(snapshot), time.thread_time() - started

        reason, lasted = await asyncio.get_running_loop().run_in_executor(_VERIFIER, verify)
        if not reason:
            self._verify_at = began + lasted / _VERIFICATION_SHARE
        return reason

    def _report_snapshot(self, began: float, size: int) -> None:
        """Count a written snapshot, and set the time of the next one."""
        lasted = self._now_s() - began
        cost_s, self._last_write_s = min(lasted, self._last_write_s), lasted
        self._due["snapshot"] = began + max(self._snapshot_s, cost_s / _SNAPSHOT_SHARE)
        self._count("railsight_snapshots_total")
        self._count("railsight_snapshot_bytes_total", size)
        self._count("railsight_snapshot_seconds_total", lasted)

    def _keep_last_snapshot(self, reason: str, began: float) -> None:
        """Keep the last good snapshot; a successor reads the input after it again."""
        log.error(
            "cannot write a snapshot, keeping the last one: stage=%s partition=%d: %s",
            self._stage, self._partition, reason,
        )  # fmt: skip
        self._count("railsight_snapshot_failures_total")
        self._processor.changed = True
        self._verify_at = 0.0
        self._due["snapshot"] = self._due["commit"] = began + _SNAPSHOT_RETRY_S

    async def _send(self, records: list[Record]) -> None:
        if self._commits is not None:
            # Rejected records and losses of input may be sent twice; the latter are input of another stage.
            self._uncommitted += [record for record in records if record.topic in self._binding.outputs]
            records = [record for record in records if record.topic not in self._binding.outputs]
        offsets = await self._sender.send(records)
        for record, offset in zip(records, offsets, strict=True):
            if record.topic is self._binding.covers:
                self._covered_offset = offset + 1
                self._must_cover = True
            elif record.topic in self._binding.progress_in_band:
                self._must_cover = True

    async def _send_progress(self, now: float) -> None:
        """Send the Progress after all records that it covers: soon after outputs, else at the longest interval.

        Without outputs no reader waits for it. The stages send in their order, so that each one receives the Progress
        of the stage before it in time for its own: time passes through all stages in one interval.
        """
        to_progress_topic = now >= self._due["progress_topic"]
        runtime = self._context.runtime
        if self._must_cover and self._due["progress"] == _NEVER:
            # Waits for the shared time, because brokers and readers have less work if all owners send together. One
            # that is behind sends less often, after a tenth of its delay.
            every_s = min(self._processor.behind_ns / 1e10, runtime.progress_at_least_s)
            self._due["progress"] = _next(max(runtime.progress_s, every_s), now)
        if not (to_progress_topic or now >= self._due["progress"]):
            return
        self._due["progress"] = _NEVER
        if self._processor.has_unread_input and now - self._began < _FIRST_PROGRESS_S:
            return
        progress = self._processor.progress(self._covered_offset)
        self._must_cover = False
        targets = list(self._binding.progress_in_band)
        if to_progress_topic or self._binding.covers is not None:
            targets.append(self._binding.progress_topic)
        if to_progress_topic:
            after_s = _STAGES.index(self._stage) * runtime.progress_s
            self._due["progress_topic"] = _next(runtime.progress_at_least_s, now, after_s)
            self._set_gauges(progress)
        records, at = [], []
        for topic in targets:
            record = topics.encode(topic, progress, key=f"{progress.stage}/{progress.partition}")
            for partition in range(self._context.partitions.count(topic)):
                records.append(record)
                at.append(partition)
        await self._sender.send(records, at)

    def _next_turn(self) -> float:
        """Return the time of the next turn without input."""
        due = [self._due["progress_topic"], self._due["progress"]]
        if self._processor.changed:
            due.append(self._due["snapshot"])
        if self._uncommitted and self._writing is None:
            due.append(self._due["commit"])
        if self._ticks:
            due.append(self._due["tick"])
        return min(due)

    def release(self) -> None:
        """End after this turn and a snapshot, so that a successor has nothing to repeat."""
        self._stopping = True
        self.input.wake()

    @property
    def positions(self) -> dict[tuple[str, int], int]:
        """The next offset of each input that is not compacted, after the state was restored."""
        if not self.is_restored:
            return {}
        timed = (topic.name for topic in self._binding.inputs if topic.retention_s is not None)
        return {(name, self._partition): self._processor.positions[name] for name in timed}

    @property
    def sending_s(self) -> float:
        """The waiting time of the oldest unacknowledged records, in seconds."""
        return max(self._sender.sending_s, self._commits.sending_s if self._commits else 0.0)

    @property
    def attempts(self) -> int:
        """The number of attempts to take over and to send; each ends in bounded time."""
        return self._reading_attempts + self._sender.attempts + (self._commits.attempts if self._commits else 0)

    async def take_over(self) -> None:
        """Take the next epoch, restore the last state, and begin to read after it; wait for unavailable brokers."""
        processor, binding, runtime = self._processor, self._binding, self._context.runtime
        inputs = [(topic.name, self._partition) for topic in binding.inputs]
        began = self._now_s()

        async def read(consumer: Any) -> tuple[int, list[Snapshot], dict[str, int], dict[str, int]]:
            if self._commits is not None:
                await self._commits.open()
                await self._await_inventory(consumer)
            epoch, states = await self._snapshots.take_over(
                consumer, lambda: highest_known_epoch(consumer, binding, self._partition)
            )
            earliest, end = await start_and_end_offsets(consumer, inputs)
            if binding.covers is not None:
                covers = binding.covers.name
                self._covered_offset = (await start_and_end_offsets(consumer, [(covers, 0)]))[1][covers]
            return epoch, states, earliest, end

        epoch, states, earliest, end = await self._read("take over", read)
        # Restoring thousands of devices takes a while; threads let the other owners continue. On a busy machine, a
        # second's work of the event loop lasts longer than half a session: the runner would take it for a pause, and
        # take over again without an end.
        digest = await asyncio.to_thread(processor.begin, epoch, states, earliest, end)
        wanted = (*binding.recovered, *(() if processor.is_restored else binding.history))
        recovered, ends = await self._read_whole(wanted)
        await self._send(await asyncio.to_thread(processor.resume, digest))
        await self._send(await asyncio.to_thread(processor.recover, recovered, ends))
        self.input.begin(processor.positions, end)
        now = self._turned = self._began = self._now_s()
        self._report_takeover(epoch, "a snapshot" if states else "nothing", now - began)
        # Owners take over at the same time; this spreads their snapshots.
        share = (self._partition + 1) / binding.partitions(self._context.partitions)
        self._due |= {
            "progress_topic": now,
            "snapshot": now + self._snapshot_s * share,
            "tick": now + runtime.settle_s,
        }
        self.is_restored = True

    async def _await_inventory(self, consumer: Any) -> None:
        """Wait until the inventory and the jobs are read to their present ends, and so as far as the former owner."""
        names = self._context.inventory_positions()
        _, ends = await start_and_end_offsets(consumer, [(name, 0) for name in names])
        while any(end > self._context.inventory_positions()[name] for name, end in ends.items()):  # noqa: ASYNC110
            await asyncio.sleep(_INVENTORY_POLL_S)  # the reader of all stages sends no event

    async def _check_rewound(self) -> None:
        """Raise InputRewound if an input ends before the offset that was read."""
        positions = dict(self._processor.positions)

        async def read(consumer: Any) -> dict[str, int]:
            return (await start_and_end_offsets(consumer, [(name, self._partition) for name in positions]))[1]

        end = await self._read("read the ends of its input", read)
        self.input.may_be_rewound = False
        if rewound := {name: at for name, at in positions.items() if end[name] < at}:
            raise InputRewound(", ".join(f"{name} ends at {end[name]}, {at} is read" for name, at in rewound.items()))

    async def _read_whole(self, wanted: Sequence[Topic]) -> tuple[dict[Topic, list[Any]], dict[str, int]]:
        """Return all records of topics with one partition, and the offsets after them."""

        async def read(consumer: Any) -> dict[Topic, list[Any]]:
            return {topic: [one async for one in records(consumer, topic.name, 0)] for topic in wanted}

        found = await self._read(f"read {', '.join(topic.name for topic in wanted)}", read) if wanted else {}
        return found, {topic.name: own[-1].offset + 1 for topic, own in found.items() if own}

    async def _read(self, what: str, read: Callable[[Any], Awaitable[Found]]) -> Found:
        """Return the result of `read` with a new consumer; retry while the brokers are unavailable."""

        async def attempt(_: int) -> Found:
            self._reading_attempts += 1
            async with asyncio.timeout(_READ_S), self._context.consumer() as consumer:
                return await read(consumer)

        def warn(failure: Failure) -> None:
            error = str(failure.error) or "no answer"
            log.warning("%s/%d: cannot %s, retrying: %s", self._stage, self._partition, what, error)

        return await retry(attempt, AWAY, _RETRY, before_wait=warn)

    def _report_takeover(self, epoch: int, source: str, lasted_s: float) -> None:
        self._count("railsight_takeovers_total")
        self._set("railsight_epoch", epoch)
        self._set("railsight_takeover_seconds", lasted_s)
        if self._snapshots.unreadable:
            self._count("railsight_snapshots_unreadable_total", self._snapshots.unreadable)
        log.info("%s/%d: epoch %d from %s, %.2f s", self._stage, self._partition, epoch, source, lasted_s)

    def _set_gauges(self, progress: Progress) -> None:
        self._set("railsight_lag_records", progress.lag)
        self._set("railsight_clock_offset_seconds", self._context.clock.wall_offset_ns / 1e9)
        if progress.watermark_ns != IDLE_NS:
            self._set("railsight_watermark_seconds", progress.watermark_ns / 1e9)

    def _count(self, name: Counter, by: float = 1) -> None:
        self._context.metrics.count(name, self._stage, self._partition, by=by)

    def _set(self, name: Gauge, value: float) -> None:
        self._context.metrics.set(name, self._stage, self._partition, value)

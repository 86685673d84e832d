"""Writes records to Kafka: acks=all, idempotent, in order, each delivery awaited; patient while Kafka is away.

What is offered waits in a buffer of bounded size until Kafka has it. Promised is what is counted as `acknowledged`,
or as `spooled`. A record is sent again when its delivery failed, or when the process was killed before it heard of it,
so a consumer may see it twice, with the same identity.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

from collectors.core.buffer import Buffer, BufferedRecord
from collectors.core.disk_buffer import buffer_of
from collectors.core.metrics import CollectorMetrics
from collectors.core.send_batching import SendBatching
from collectors.core.spec import Core
from streams.wire.errors import Misconfigured
from streams.wire.producer_backoff import throttle_metadata_refresh
from streams.wire.topics import Partitions, PartitionScheme, Record

if TYPE_CHECKING:
    from pathlib import Path

_log = structlog.get_logger("railsight.publisher")

_WINDOW = 2000
"""Records in flight at once: a round trip to a local broker is 2 to 5 ms, so no window limits the aim of DESIGN 8."""
_LINGER_MS = 5
_BATCH_BYTES = 256 * 1024
_RETRY_S = 0.5
_CLOSE_S = 5.0
_REPORT_S = 10.0
_SAY_S = 1.0
_NEVER = (MessageSizeTooLargeError, RecordListTooLargeError)


class Publisher(Protocol):
    """Where collectors hand their records to."""

    def offer(self, record: Record, rows: int = 0) -> bool:
        """Take a record, without blocking; False where it was refused: it is lost, and counted."""
        ...


class KafkaPublisher:
    """The Publisher that writes to Kafka.

    Use as an async context manager; leaving it sends what waits, in bounded time.
    """

    def __init__(self, core: Core, counts: CollectorMetrics) -> None:
        assert core.client_options is not None, "a publisher needs to know where Kafka is"
        self._options: dict[str, Any] = dict(core.client_options)
        self._partitions: Partitions = core.partitions
        self._file: Path | None = core.acknowledged_file
        self._counts = counts
        self._buffer: Buffer = buffer_of(core.publisher, core.collector, counts)
        self._more = asyncio.Event()
        self._gathering = SendBatching(_WINDOW)
        self._producer: AIOKafkaProducer | None = None
        self._checked: set[str] = set()
        self._failed: Misconfigured | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._said_s: dict[str, float] = {}

    async def __aenter__(self) -> "KafkaPublisher":
        await self._buffer.open()
        if len(self._buffer):
            _log.info("sending what an earlier run left", records=len(self._buffer))
            self._more.set()
        self._tasks = [asyncio.create_task(work) for work in (self._send_all(), self._buffer.run(), self._report())]
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(TimeoutError, asyncio.CancelledError, Misconfigured):
            await asyncio.wait_for(self.flushed(), _CLOSE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._drop_producer()
        await self._buffer.close()
        self._log_acknowledged()
        if waiting := len(self._buffer):
            _log.warning("ended before Kafka had all", waiting=waiting, kept_for_the_next_run=self._buffer.stored)

    def offer(self, record: Record, rows: int = 0) -> bool:
        self._counts.add("offered", record.topic.name)
        if not self._buffer.offer(BufferedRecord(record, rows)):
            self._counts.add("refused", record.topic.name)
            self._report_refusal()
            return False
        self._gathering.offered(record, len(self._buffer))
        self._more.set()
        return True

    async def flushed(self) -> None:
        """Return when nothing waits; raises Misconfigured where Kafka's topics are not as configured."""
        while len(self._buffer):
            if self._failed:
                raise self._failed
            self._gathering.hurry()
            await asyncio.sleep(_LINGER_MS / 1000)

    async def failed(self) -> None:
        """Wait for the publisher to give up: returns never, or raises Misconfigured."""
        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in self._tasks:
            task.result()

    async def _send_all(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            while window := await self._next_window():
                try:
                    done = await self._send(window)
                except Misconfigured as error:
                    self._failed = error
                    raise
                await self._buffer.release(done)
                if done < len(window):
                    self._counts.add("retried", count=len(window) - done)
                    await asyncio.sleep(_RETRY_S)

    async def _next_window(self) -> Sequence[BufferedRecord]:
        """What to send next, when it is time to; nothing where nothing waits."""
        if not len(self._buffer):
            return ()
        await self._gathering.turn(len(self._buffer))
        return await self._buffer.first(_WINDOW)

    async def _send(self, window: Sequence[BufferedRecord]) -> int:
        """Send in order; answer how many of the oldest Kafka has (or will never take). Never raises KafkaError."""
        try:
            producer = await self._started()
            await self._check_partitions(producer, window)
        except (KafkaError, OSError) as error:
            await self._on_failure(error)
            return 0
        deliveries: list[Awaitable[Any]] = []
        for held in window:
            try:
                deliveries.append(await self._deliver(producer, held.record))
            except _NEVER as error:
                deliveries.append(_failure(error))
            except (KafkaError, OSError) as error:
                await self._on_failure(error)
                break
        outcomes = await asyncio.gather(*deliveries, return_exceptions=True)
        done = 0
        for held, answer in zip(window, outcomes, strict=False):
            outcome = answer if isinstance(answer, BaseException) else None
            if outcome is not None and not isinstance(outcome, _NEVER):
                await self._on_failure(outcome)
                break
            done += 1
            self._count(held, outcome)
        return done

    async def _deliver(self, producer: AIOKafkaProducer, record: Record) -> "asyncio.Future[Any]":
        return await producer.send(  # type: ignore[no-any-return]
            record.topic.name,
            value=record.value,
            key=record.key,
            partition=record.partition(self._partitions),
            headers=list(record.headers),
        )

    def _count(self, held: BufferedRecord, outcome: BaseException | None) -> None:
        topic = held.record.topic.name
        if outcome is not None:
            self._counts.add("rejected", topic)
            _log.error("Kafka refuses a record", topic=topic, bytes=len(held.record.value or b""), why=str(outcome))
            return
        self._counts.add("acknowledged", topic)
        if held.rows:
            self._counts.add("acknowledged_rows", topic, held.rows)

    async def _started(self) -> AIOKafkaProducer:
        if self._producer is None:
            producer = AIOKafkaProducer(
                **self._options,
                acks="all",
                enable_idempotence=True,
                # 30 % of the bytes for no CPU over broker, producer and readers (tests/bench/broker_cost.py);
                # aiokafka's lz4 is its level 9, ten times as dear, and zstd saves another 9 % for twice the CPU.
                compression_type="snappy",
                linger_ms=_LINGER_MS,
                max_batch_size=_BATCH_BYTES,
            )
            throttle_metadata_refresh(producer, _RETRY_S)
            try:
                await producer.start()
            except IncompatibleBrokerVersion as error:
                raise Misconfigured(f"Kafka: {error}") from error
            except BaseException:
                await producer.stop()
                raise
            self._producer = producer
        return self._producer

    async def _check_partitions(self, producer: AIOKafkaProducer, window: Sequence[BufferedRecord]) -> None:
        """A device's partition is a promise to every consumer: refuse a topic of another number of partitions."""
        for topic in {held.record.topic for held in window}:
            if topic.name in self._checked or topic.scheme is PartitionScheme.SINGLE:
                continue
            found, wanted = len(await producer.partitions_for(topic.name)), self._partitions.count(topic)
            if found != wanted:
                raise Misconfigured(f"{topic.name} has {found} partitions where {wanted} are configured")
            self._checked.add(topic.name)

    async def _on_failure(self, error: BaseException) -> None:
        """Start afresh: an idempotent producer that lost a batch has a hole in its sequence and never recovers."""
        if self._is_log_due("away"):
            _log.warning("Kafka is away", why=f"{type(error).__name__}: {error}", waiting=len(self._buffer))
        await self._drop_producer()

    async def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(KafkaError, TimeoutError, OSError):
                await asyncio.wait_for(producer.stop(), _CLOSE_S)

    def _report_refusal(self) -> None:
        if self._is_log_due("refused"):
            _log.error("refusing what is new: the buffer is full", refused=self._counts.value("refused"))

    def _is_log_due(self, what: str) -> bool:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._said_s.get(what, -_REPORT_S) < _REPORT_S:
            return False
        self._said_s[what] = now_s
        return True

    async def _report(self) -> None:
        while True:
            self._counts.set("waiting", len(self._buffer))
            self._log_acknowledged()
            await asyncio.sleep(_SAY_S)

    def _log_acknowledged(self) -> None:
        if self._file is None:
            return
        said = {
            "acknowledged": self._counts.by_label("acknowledged"),
            "acknowledged_rows": self._counts.by_label("acknowledged_rows"),
            "spooled": self._counts.by_label("spooled"),
            "refused": self._counts.by_label("refused"),
        }
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(said))
        fresh.replace(self._file)


async def _failure(error: BaseException) -> None:
    raise error

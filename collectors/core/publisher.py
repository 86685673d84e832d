"""Writes records to Kafka: acks=all, idempotent, in order, each delivery awaited; retries while Kafka is unreachable.

Offered records wait in a bounded buffer until Kafka has acknowledged them. Only records counted as `acknowledged` or
`spooled` are guaranteed. A record is sent again if its delivery failed, or if the process was killed before the
acknowledgement arrived, so a consumer may receive it twice, with the same identity.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

from collectors.core.buffer import buffer_of
from collectors.core.metrics import CollectorMetrics
from collectors.core.params import Core
from collectors.core.spool import BufferedRecord
from streams.wire.errors import Misconfigured
from streams.wire.kafka_clients import stop_client, throttle_metadata_refresh
from streams.wire.models import CollectorStatus, Samples
from streams.wire.topics import TELEMETRY, PartitionScheme, Record

if TYPE_CHECKING:
    from collectors.core.signing_keys import SigningKeys

SEND_INTERVAL_S = 0.25
_CAN_WAIT = (Samples, CollectorStatus)


class SendBatching:
    """Decides when to send: samples and statuses a few times a second, all other records at once.

    `full` waiting records are sent at once, whatever their topic. A batch costs a broker and its consumers as much as
    some tens of messages do, however few it has. Measured with one producer for the largest fabric, in CPU s per
    million port-samples: the broker took 1.34 when it sent every 50 ms and 1.10 every 100 ms, the producer 0.99 and
    0.82. Measured again in pairs: the broker took 1.28 every 100 ms and 1.14 every 250 ms, the producer 0.83 and 0.72
    (DECISIONS.md). Consumers of samples gather for another half second.
    """

    def __init__(self, full: int, every_s: float = SEND_INTERVAL_S) -> None:
        self._full = full
        self._every_s = every_s
        self._send_now = asyncio.Event()
        self._due_s = 0.0

    def offered(self, record: Record, waiting: int) -> None:
        """Note an offered record and the number of records that now wait."""
        if record.topic.model not in _CAN_WAIT or waiting >= self._full:
            self._send_now.set()

    def send_now(self) -> None:
        """Send without delay: a caller waits until all is sent."""
        self._send_now.set()

    async def next_batch(self, waiting: int) -> None:
        """Return when the next batch is due: at once for urgent records or a full batch, else after the interval."""
        loop = asyncio.get_running_loop()
        if waiting < self._full and self._due_s > loop.time():
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._due_s):
                    await self._send_now.wait()
        self._send_now.clear()
        self._due_s = loop.time() + self._every_s


_log = structlog.get_logger("railsight.publisher")

_WINDOW = 2000
"""Limit of records in flight: a round trip to a local broker takes 2 to 5 ms, so no window limits DESIGN 8's aim."""
_LINGER_MS = 5
_BATCH_BYTES = 256 * 1024
_RETRY_S = 0.5
_CLOSE_S = 2.0
"""Time to send the remaining records at the end: a stop takes less than 5 s in all while brokers are unreachable."""
_DROP_S = 0.5
_LOG_INTERVAL_S = 10.0
_REPORT_S = 1.0
_PERMANENT = (MessageSizeTooLargeError, RecordListTooLargeError)


class Publisher(Protocol):
    """Accepts the records of collectors."""

    def offer(self, record: Record, rows: int = 0) -> bool:
        """Add a record without blocking; return False if it was refused: it is then lost, and counted."""
        ...

    async def settled(self) -> None:
        """Return when Kafka or the spool has all records accepted so far, or when Kafka can never accept them."""
        ...


class KafkaPublisher:
    """The Publisher that writes to Kafka.

    Use as an async context manager; leaving it sends the waiting records, in bounded time.
    """

    def __init__(self, core: Core, metrics: CollectorMetrics) -> None:
        assert core.client_options is not None, "a publisher needs the address of Kafka"
        self._options: dict[str, Any] = dict(core.client_options)
        self._partitions = core.partitions
        self._file = core.acknowledged_file
        self._metrics = metrics
        self._buffer = buffer_of(core.publisher, core.collector, metrics)
        self._has_records = asyncio.Event()
        self._batching = SendBatching(_WINDOW)
        self._producer: AIOKafkaProducer | None = None
        self._checked: set[str] = set()
        self._failed: Misconfigured | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._logged_s: dict[str, float] = {}
        self._is_proven = False
        self._waiting_s: float | None = None
        self._undelivered_s = core.health.undelivered_s
        self._keys: SigningKeys | None = None
        if core.key_file is not None:
            from collectors.core import signing_keys  # imports cryptography

            self._keys = signing_keys.SigningKeys(core.key_file)

    async def __aenter__(self) -> "KafkaPublisher":
        await self._buffer.open()
        if len(self._buffer):
            _log.info("sending records of an earlier run", records=len(self._buffer))
            self._has_records.set()
        self._tasks = [asyncio.create_task(work) for work in (self._send_all(), self._buffer.run(), self._report())]
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(TimeoutError, asyncio.CancelledError, Misconfigured):
            # Without brokers the records stay in the spool, if there is one.
            await asyncio.wait_for(self.flushed(), _DROP_S if self.problem() else _CLOSE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._drop_producer()
        await self._buffer.close()
        self._write_acknowledged()
        if waiting := len(self._buffer):
            _log.warning("ended with unsent records", waiting=waiting, spooled=self._buffer.stored)

    def offer(self, record: Record, rows: int = 0) -> bool:
        self._metrics.add("offered", record.topic.name)
        if not self._buffer.offer(BufferedRecord(record, rows)):
            self._metrics.add("refused", record.topic.name)
            if self._is_log_due("refused"):
                _log.error("buffer full, new records refused", refused=self._metrics.value("refused"))
            return False
        self._batching.offered(record, len(self._buffer))
        self._has_records.set()
        return True

    async def settled(self) -> None:
        """Send at once, and return when all records accepted so far are settled; raises Misconfigured.

        While older records are in the spool, these are written there at once: Kafka receives them only after those.
        """
        accepted = self._buffer.accepted
        if self._buffer.stored:
            await self._buffer.store()
        while self._buffer.settled < accepted:
            if self._failed:
                raise self._failed
            self._batching.send_now()
            await asyncio.sleep(_LINGER_MS / 1000)

    async def flushed(self) -> None:
        """Return when no record waits; raises Misconfigured if Kafka's topics are not as configured."""
        while len(self._buffer):
            if self._failed:
                raise self._failed
            self._batching.send_now()
            await asyncio.sleep(_LINGER_MS / 1000)

    def problem(self) -> str:
        """Return the problem with delivery, empty if the last records were acknowledged or none waits."""
        now_s = asyncio.get_running_loop().time()
        if self._waiting_s is not None and (since_s := now_s - self._waiting_s) > self._undelivered_s:
            return f"no record acknowledged for {since_s:.0f} s, {len(self._buffer)} wait"
        return "" if self._is_proven else "no record acknowledged yet"

    async def failed(self) -> None:
        """Wait until the publisher fails: never returns, or raises Misconfigured."""
        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in self._tasks:
            task.result()

    async def _send_all(self) -> None:
        while True:
            await self._has_records.wait()
            self._has_records.clear()
            self._waiting_s = asyncio.get_running_loop().time()
            while window := await self._next_window():
                try:
                    done = await self._send(window)
                except Misconfigured as error:
                    self._failed = error
                    raise
                await self._buffer.release(done)
                if done:
                    self._is_proven, self._waiting_s = True, asyncio.get_running_loop().time()
                if done < len(window):
                    self._metrics.add("retried", count=len(window) - done)
                    await asyncio.sleep(_RETRY_S)
            self._waiting_s = None

    async def _next_window(self) -> Sequence[BufferedRecord]:
        """Wait for the next batch and return its records; return none if none waits."""
        if not len(self._buffer):
            return ()
        await self._batching.next_batch(len(self._buffer))
        return await self._buffer.first(_WINDOW)

    async def _send(self, window: Sequence[BufferedRecord]) -> int:
        """Send in order; return how many of the oldest are settled. Never raises KafkaError."""
        try:
            producer = await self._started()
            await self._check_partitions(producer, window)
        except (KafkaError, OSError) as error:
            await self._on_failure(error)
            return 0
        deliveries: list[Awaitable[Any]] = []
        for buffered in window:
            try:
                record = buffered.record
                partition, headers = record.partition(self._partitions), self._headers(record)
                sent = producer.send(record.topic.name, record.value, record.key, partition, headers=headers)
                deliveries.append(await sent)
            except _PERMANENT as error:
                deliveries.append(_failure(error))
            except (KafkaError, OSError) as error:
                await self._on_failure(error)
                break
        outcomes = await asyncio.gather(*deliveries, return_exceptions=True)
        done = 0
        for buffered, answer in zip(window, outcomes, strict=False):
            outcome = answer if isinstance(answer, BaseException) else None
            if outcome is not None and not isinstance(outcome, _PERMANENT):
                await self._on_failure(outcome)
                break
            done += 1
            self._count(buffered, outcome)
        return done

    def _headers(self, record: Record) -> list[tuple[str, bytes]]:
        """Return the headers of a record, with its MAC; a record of telemetry that no key is for has none."""
        if self._keys is None:
            return list(record.headers)
        header = self._keys.signer.header(record)
        if header is None:
            if record.topic in TELEMETRY and self._is_log_due("unsigned"):
                _log.error("no key for this device, its records have no MAC", device=record.route)
            return list(record.headers)
        return [*record.headers, header]

    def _count(self, buffered: BufferedRecord, outcome: BaseException | None) -> None:
        topic = buffered.record.topic.name
        if outcome is not None:
            self._metrics.add("rejected", topic)
            _log.error(
                "record rejected by Kafka", topic=topic, bytes=len(buffered.record.value or b""), why=str(outcome)
            )
            return
        self._metrics.add("acknowledged", topic)
        if buffered.rows:
            self._metrics.add("acknowledged_rows", topic, buffered.rows)

    async def _started(self) -> AIOKafkaProducer:
        if self._producer is None:
            producer = AIOKafkaProducer(
                **self._options,
                acks="all",
                enable_idempotence=True,
                # snappy saves 30 % of bytes for no CPU over broker, producer, readers (DECISIONS.md). The
                # lz4 of aiokafka (level 9) is ten times as expensive; zstd saves 9 % more for twice the CPU.
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
                await stop_client(producer, _DROP_S)
                raise
            self._producer = producer
        return self._producer

    async def _check_partitions(self, producer: AIOKafkaProducer, window: Sequence[BufferedRecord]) -> None:
        """Raise Misconfigured if a topic has another number of partitions: consumers rely on a device's partition."""
        for topic in {buffered.record.topic for buffered in window}:
            if topic.name in self._checked or topic.scheme is PartitionScheme.SINGLE:
                continue
            found, wanted = len(await producer.partitions_for(topic.name)), self._partitions.count(topic)
            if found != wanted:
                raise Misconfigured(
                    f"{topic.name} has {found} partitions where {wanted} are configured;"
                    " recreate the topic or change [partitions]"
                )
            self._checked.add(topic.name)

    async def _on_failure(self, error: BaseException) -> None:
        """Drop the producer: an idempotent one that lost a batch has a gap in its sequence and never recovers."""
        if self._is_log_due("unreachable"):
            _log.warning("Kafka unreachable", why=f"{type(error).__name__}: {error}", waiting=len(self._buffer))
        await self._drop_producer()

    async def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop_client(producer, _DROP_S)

    def _is_log_due(self, event: str) -> bool:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._logged_s.get(event, -_LOG_INTERVAL_S) < _LOG_INTERVAL_S:
            return False
        self._logged_s[event] = now_s
        return True

    async def _report(self) -> None:
        while True:
            self._metrics.set("waiting", len(self._buffer))
            self._write_acknowledged()
            if self._keys is not None:
                self._keys.reload()
            await asyncio.sleep(_REPORT_S)

    def _write_acknowledged(self) -> None:
        if self._file is None:
            return
        acknowledged = {
            "acknowledged": self._metrics.by_label("acknowledged"),
            "acknowledged_rows": self._metrics.by_label("acknowledged_rows"),
            "spooled": self._metrics.by_label("spooled"),
            "refused": self._metrics.by_label("refused"),
        }
        new_file = self._file.with_suffix(".new")
        new_file.write_text(json.dumps(acknowledged))
        new_file.replace(self._file)


async def _failure(error: BaseException) -> None:
    raise error

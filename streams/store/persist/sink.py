"""Runs the sink: joins a consumer group and stores every partition that is assigned to it, until it is stopped.

Starts a writer (partition_writer.py) for each assigned partition, cancels them before the partitions are revoked, and
logs its progress.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from streams.instrument.metrics import Metrics, NullMetrics
from streams.store.clickhouse import ClickHouse
from streams.store.params import SinkParams
from streams.store.persist.block_builder import SinkStats
from streams.store.persist.block_writer import BlockWriter
from streams.store.persist.hour_rollups import HourRollups
from streams.store.persist.partition_offsets import CommitFence, PartitionLost, retry_forever
from streams.store.persist.partition_reader import PartitionReader
from streams.store.persist.partition_writer import PartitionWriter, SinkContext
from streams.store.persist.persisted_topics import PersistedTopic, persisted_topics
from streams.store.persist.rejected_records import STAGE, RejectedRecords
from streams.wire import topics
from streams.wire.errors import Retry
from streams.wire.kafka_clients import (
    rejoin_after_error,
    request_rejoin,
    require_tasks,
    stop_client,
    throttle_metadata_refresh,
)
from streams.wire.standalone_consumer import READ_COMMITTED

if TYPE_CHECKING:
    from streams.wire.identity import MacVerifier

_FETCH_BYTES = 2 << 20
"""Limit of a partition's compressed fetch: two seconds of the largest fabric; each active partition may queue two."""

_FETCH_MAX_WAIT_MS = 1000
_FETCH_MIN_BYTES = 4 << 20
"""The broker waits for this size or this time, because a response names all 45 partitions and costs broker and sink the
same with few records. The wait adds to a row's age."""

_CHECK_S = 1.0

_DAY_MS = 24 * 3600 * 1000
"""The longest time without a poll: while ClickHouse is unavailable, the sink does not read but stays in the group."""

_log = structlog.get_logger("railsight.persist")


class Sink(ConsumerRebalanceListener):  # type: ignore[misc]
    """Stores the records of the topics of `persisted`; `options` are the connection options of an aiokafka client."""

    def __init__(
        self,
        clickhouse: ClickHouse,
        options: Mapping[str, Any],
        params: SinkParams,
        persisted: tuple[PersistedTopic, ...] | None = None,
        metrics: Metrics | None = None,
        verifier: "MacVerifier | None" = None,
        instance: str | None = None,
    ) -> None:
        self._clickhouse = clickhouse
        self._options = dict(options)
        self._params = params
        topics_of_sink = persisted_topics(rollups=params.rollups) if persisted is None else persisted
        self._persisted = {one.topic.name: one for one in topics_of_sink}
        self._verifier = verifier
        self._instance = instance
        self.stats = SinkStats(metrics or NullMetrics())
        self._writers: dict[TopicPartition, asyncio.Task[None]] = {}
        self.writers: dict[TopicPartition, PartitionWriter] = {}
        """The writers of the presently assigned partitions."""
        self.is_joining = True
        """True from the begin of a rebalance until this sink has its assignment, which may be empty."""
        self._reading: asyncio.Task[None] | None = None
        self._failed: asyncio.Future[None]
        self._consumer: AIOKafkaConsumer
        self._producer: AIOKafkaProducer
        self._rejects: RejectedRecords

    async def run(self, stop: asyncio.Event) -> None:
        """Store until `stop`, waiting for Kafka and ClickHouse; raises errors that a retry cannot resolve."""
        self._failed = asyncio.get_running_loop().create_future()
        producer = await retry_forever(self._params, "Kafka", lambda _: self._start_producer())
        self._producer = producer
        self._rejects = RejectedRecords(producer, self._options, topics.REJECTED.name)
        try:
            self._consumer = await retry_forever(self._params, "Kafka", lambda _: self._start_consumer())
            try:
                await self._until(stop)
            finally:
                await self._cancel_writers()
                await stop_client(self._consumer)
        finally:
            await stop_client(producer)

    async def _until(self, stop: asyncio.Event) -> None:
        stopped = asyncio.create_task(stop.wait())
        reports = asyncio.create_task(self._report())
        hours = asyncio.create_task(self._roll_up_hours())
        checks = asyncio.create_task(self._guard(self._check_clients()))
        try:
            waited: set[asyncio.Future[Any]] = {stopped, self._failed, reports}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
        finally:
            for task in (stopped, reports, hours, checks):
                task.cancel()

    async def _check_clients(self) -> None:
        """Make the consumer rejoin its group after an error; raises Retry if only a new client helps."""
        while True:
            require_tasks(self._consumer, self._producer)
            if (error := rejoin_after_error(self._consumer)) is not None:
                _log.warning("joining the group again", group=self._params.group, error=str(error))
            await asyncio.sleep(_CHECK_S)

    async def _roll_up_hours(self) -> None:
        if self._params.rollups:
            first = TopicPartition(topics.SAMPLES.name, 0)
            hours = HourRollups(self._clickhouse, self._clickhouse.params, self._params, lambda: first in self.writers)
            await self._guard(hours.run())

    async def _start_producer(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(**self._options, acks="all", enable_idempotence=True)
        throttle_metadata_refresh(producer)
        return await _start(producer)

    async def _start_consumer(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            **self._options,
            group_id=self._params.group,
            group_instance_id=self._instance,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=READ_COMMITTED,
            max_partition_fetch_bytes=_FETCH_BYTES,
            fetch_min_bytes=_FETCH_MIN_BYTES,
            fetch_max_wait_ms=_FETCH_MAX_WAIT_MS,
            # The broker checks received records, and TCP checks the transfer; aiokafka's check takes 0.1 s/M rows.
            check_crcs=False,
            session_timeout_ms=int(self._params.session_timeout_s * 1000),
            heartbeat_interval_ms=int(self._params.session_timeout_s * 1000 / 5),
            rebalance_timeout_ms=int(self._params.session_timeout_s * 1000),
            max_poll_interval_ms=_DAY_MS,
            # The sink finds new topics within this time.
            metadata_max_age_ms=10_000,
        )
        consumer.subscribe(list(self._persisted), listener=self)
        self._consumer = consumer
        return await _start(consumer)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Cancel every writer; the next owner finishes its block with the same bounds."""
        self.is_joining = True
        await self._cancel_writers()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Start a writer for each partition, with this assignment's right to commit."""
        fence = CommitFence.from_assignment(self._consumer, self._params.group)
        reader = PartitionReader(self._consumer, assigned)
        context = SinkContext(
            self._consumer,
            reader,
            fence,
            self._clickhouse,
            BlockWriter(self._clickhouse, self._params),
            self._rejects,
            self._params,
            self.stats,
            time.time_ns,
            self._verifier,
        )
        self._reading = asyncio.create_task(self._guard(reader.run()))
        for at in assigned:
            writer = PartitionWriter(at, self._persisted[at.topic], context)
            self.writers[at] = writer
            self._writers[at] = asyncio.create_task(self._guard(writer.run()))
        self.is_joining = False

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task, and end the process with its error unless the partition was lost.

        A broker that reloads its groups may refuse the current generation: no rebalance follows, no other sink gets the
        partition, and heartbeats continue. So the consumer always rejoins, and its partitions are read again from the
        committed offsets.
        """
        try:
            await work
        except PartitionLost as error:
            _log.info("partition lost, joining the group again", at=str(error))
            request_rejoin(self._consumer)
        except Exception as error:  # noqa: BLE001 — a bug must end the process, not only one partition
            if not self._failed.done():
                self._failed.set_exception(error)

    async def _cancel_writers(self) -> None:
        tasks, self._writers, self.writers = list(self._writers.values()), {}, {}
        if self._reading is not None:
            tasks.append(self._reading)
            self._reading = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _report(self) -> None:
        """Log the rows and records stored in each `report_interval_s`, and the lag."""
        rows, records, since = 0, 0, time.monotonic()
        while True:
            await asyncio.sleep(self._params.report_interval_s)
            now = time.monotonic()
            total_rows, total_records = self.stats.rows.total(), self.stats.records.total()
            _log.info(
                "stored",
                rows_per_s=round((total_rows - rows) / (now - since), 1),
                records_per_s=round((total_records - records) / (now - since), 1),
                rows=total_rows,
                blocks=self.stats.blocks,
                rejected=self.stats.rejected,
                lost=self.stats.lost,
                lag=sum((await self._measure_lag()).values()),
                partitions=len(self._writers),
            )
            unstored_s = max((writer.sending_s for writer in self.writers.values()), default=0.0)
            self.stats.metrics.set("railsight_unstored_seconds", STAGE, 0, unstored_s)
            rows, records, since = total_rows, total_records, now

    async def _measure_lag(self) -> Counter[int]:
        """Return the unread records by partition number, over all topics, from the brokers' last responses."""
        lag: Counter[int] = Counter()
        for at in list(self._writers):
            try:
                end = self._consumer.highwater(at)
                if end is not None:
                    lag[at.partition] += max(0, end - await asyncio.wait_for(self._consumer.position(at), 1))
            except (KafkaError, TimeoutError):
                continue
        for partition, records in lag.items():
            self.stats.metrics.set("railsight_lag_records", STAGE, partition, records)
        return lag


async def _start(client: Any) -> Any:
    """Start a Kafka client; raises Retry, with nothing left running, while the broker is unavailable."""
    try:
        await client.start()
    except (KafkaError, OSError) as error:
        await client.stop()
        raise Retry(f"Kafka: {error}") from error
    return client

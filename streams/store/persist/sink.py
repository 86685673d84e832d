"""The sink: a member of a consumer group that follows every partition it is given, until it is told to stop.

It decides nothing about blocks (partition.py); it joins the group, starts a follower for each partition, ends them
before the partitions go elsewhere, and says now and then how far it is.
"""

import asyncio
import time
from collections.abc import Coroutine, Mapping
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from streams.store.clickhouse import ClickHouse
from streams.store.params import SinkParams
from streams.store.persist.block_writer import BlockWriter
from streams.store.persist.commit_fence import CommitFence, PartitionLost
from streams.store.persist.partition_reader import PartitionReader
from streams.store.persist.partition_writer import PartitionWriter, SinkContext
from streams.store.persist.persisted_topics import PERSISTED_TOPICS, PersistedTopic
from streams.store.persist.rejected_records import RejectedRecords
from streams.store.persist.retry import retry_forever
from streams.store.persist.sink_stats import SinkStats
from streams.wire import topics
from streams.wire.errors import Retry
from streams.wire.patient import patient

_FETCH_BYTES = 2 << 20
"""A partition's fetch, compressed: two seconds of the largest fabric; every partition in work may hold two."""

_FETCH_WAIT_MS = 500
_FETCH_LEAST_BYTES = 4 << 20
"""The broker gathers this much, or for so long: an answer names all of 45 partitions, and costs the broker and us the
same however few records it has. A row's age grows by the wait."""

_DAY_MS = 24 * 3600 * 1000
"""While ClickHouse is away nothing is read; the group must not take that for death."""

_log = structlog.get_logger("railsight.persist")


class Sink(ConsumerRebalanceListener):  # type: ignore[misc]
    """Stores what is in the topics of `persisted`; `options` are those with which an aiokafka client finds Kafka."""

    def __init__(
        self,
        clickhouse: ClickHouse,
        options: Mapping[str, Any],
        params: SinkParams,
        persisted: tuple[PersistedTopic, ...] = PERSISTED_TOPICS,
    ) -> None:
        self._clickhouse = clickhouse
        self._options = dict(options)
        self._params = params
        self._persisted = {one.topic.name: one for one in persisted}
        self.stats = SinkStats()
        self._followers: dict[TopicPartition, asyncio.Task[None]] = {}
        self._feeding: asyncio.Task[None] | None = None
        self._failed: asyncio.Future[None]
        self._consumer: AIOKafkaConsumer
        self._rejects: RejectedRecords

    async def run(self, stop: asyncio.Event) -> None:
        """Store until `stop`; whoever is away is waited for. Raises what no waiting can mend."""
        self._failed = asyncio.get_running_loop().create_future()
        producer = await retry_forever(self._params, "Kafka", lambda _: self._produce())
        self._rejects = RejectedRecords(producer, lambda: AIOKafkaConsumer(**self._options), topics.REJECTED.name)
        try:
            self._consumer = await retry_forever(self._params, "Kafka", lambda _: self._consume())
            try:
                await self._until(stop)
            finally:
                await self._end_followers()
                await self._consumer.stop()
        finally:
            await producer.stop()

    async def _until(self, stop: asyncio.Event) -> None:
        stopped = asyncio.create_task(stop.wait())
        reports = asyncio.create_task(self._report())
        try:
            waited: set[asyncio.Future[Any]] = {stopped, self._failed, reports}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
        finally:
            for task in (stopped, reports):
                task.cancel()

    async def _produce(self) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(**self._options, acks="all", enable_idempotence=True)
        patient(producer)
        return await _started(producer)

    async def _consume(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            **self._options,
            group_id=self._params.group,
            group_instance_id=self._params.instance,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=_FETCH_BYTES,
            fetch_min_bytes=_FETCH_LEAST_BYTES,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            # The broker has checked what it took in, and TCP what it gave out; aiokafka's check is 0.1 s/M rows.
            check_crcs=False,
            session_timeout_ms=int(self._params.session_timeout_s * 1000),
            heartbeat_interval_ms=int(self._params.session_timeout_s * 1000 / 5),
            rebalance_timeout_ms=int(self._params.session_timeout_s * 1000),
            max_poll_interval_ms=_DAY_MS,
            # Topics that are made after the sink began are found this soon.
            metadata_max_age_ms=10_000,
        )
        consumer.subscribe(list(self._persisted), listener=self)
        self._consumer = consumer
        return await _started(consumer)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """End every follower: what each has in hand is finished by the next owner, with the same bounds."""
        await self._end_followers()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Start a follower for each partition, with the right to commit that this assignment gives."""
        fence = CommitFence.from_assignment(self._consumer, self._params.group)
        feed = PartitionReader(self._consumer, assigned)
        means = SinkContext(
            self._consumer,
            feed,
            fence,
            self._clickhouse,
            BlockWriter(self._clickhouse, self._params),
            self._rejects,
            self._params,
            self.stats,
            time.time_ns,
        )
        self._feeding = asyncio.create_task(self._own(feed.run()))
        for at in assigned:
            self._followers[at] = asyncio.create_task(
                self._own(PartitionWriter(at, self._persisted[at.topic], means).run())
            )

    async def _own(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except PartitionLost as error:
            _log.info("a partition went to another sink", at=str(error))
        except Exception as error:  # noqa: BLE001 — a bug ends the process, not silently one partition
            if not self._failed.done():
                self._failed.set_exception(error)

    async def _end_followers(self) -> None:
        followers, self._followers = list(self._followers.values()), {}
        if self._feeding is not None:
            followers.append(self._feeding)
            self._feeding = None
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)

    async def _report(self) -> None:
        """Say every `report_interval_s` what was stored since, and how many records are waiting."""
        rows, records, began = 0, 0, time.monotonic()
        while True:
            await asyncio.sleep(self._params.report_interval_s)
            now = time.monotonic()
            total, taken = self.stats.rows.total(), self.stats.records.total()
            _log.info(
                "stored",
                rows_per_s=round((total - rows) / (now - began), 1),
                records_per_s=round((taken - records) / (now - began), 1),
                rows=total,
                blocks=self.stats.blocks,
                rejected=self.stats.rejected,
                lag=await self._lag(),
                partitions=len(self._followers),
            )
            rows, records, began = total, taken, now

    async def _lag(self) -> int:
        """Records that are in the topics and not taken yet, as far as the broker said by its last answers."""
        lag = 0
        for at in list(self._followers):
            try:
                end = self._consumer.highwater(at)
                if end is not None:
                    lag += max(0, end - await asyncio.wait_for(self._consumer.position(at), 1))
            except (KafkaError, TimeoutError):
                continue
        return lag


async def _started(client: Any) -> Any:
    """Start a client of Kafka; raises Retry, with nothing left running, where the broker is away."""
    try:
        await client.start()
    except (KafkaError, OSError) as error:
        await client.stop()
        raise Retry(f"Kafka: {error}") from error
    return client

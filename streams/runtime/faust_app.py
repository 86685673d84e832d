"""Defines the Faust app of a stage, whose consumer delivers one event per chunk of a partition, not one per record.

Faust's own delivery makes several tasks per record and takes 60 to 90 µs for each; here a chunk of a thousand costs as
much as one record there. This uses private names of faust-streaming 0.15.3 and aiokafka 0.14.0, which
tests/contract/runtime/test_private_names.py checks.

One task alternates between seeking and fetching, so that the records of a fetch always follow the last seek. The agent
passes every chunk to the runner.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import faust
from aiokafka import TopicPartition
from faust.auth import OAuthCredentials
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.runtime.ordered_input import Chunk, Chunker
from streams.wire.event_loop import new_loop
from streams.wire.kafka_clients import ended_task, has_group_error, rejoin_after_error
from streams.wire.standalone_consumer import READ_COMMITTED

log = logging.getLogger(__name__)

FETCH_WAIT_S = 0.4
"""The longest wait for a fetch, and therefore of a seek behind it."""
LONG_POLL_MS = 1000
"""The longest wait of brokers for data. Faust sets 1500, but the first fetch after a seek waits behind the last one.
Between stages, Progress ends the wait once a second."""


class ChunkConsumer(driver.Consumer):
    """Delivers chunks, seeks to the offsets that owners request, and commits offsets that a snapshot covers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._chunker = Chunker()
        self._seeks: dict[TP, int] = {}
        self._covered: dict[TP, int] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._fetches = 0
        super().__init__(*args, **kwargs)

    def read_from(self, topic: str, partition: int, offset: int) -> None:
        """Deliver from this offset on; chunks that were fetched before are still delivered."""
        self._seeks[TP(topic, partition)] = offset

    def acknowledge(self, topic: str, partition: int, offset: int) -> None:
        """Commit this offset with the next commit; a snapshot covers all records before it."""
        self._covered[TP(topic, partition)] = offset

    def end_of(self, topic: str, partition: int) -> int | None:
        """Return the offset after the last record at the last fetch; None before the first fetch."""
        return self._ends.get((topic, partition))

    def fetches_of(self, topic: str) -> int:
        """Return the number of finished fetches."""
        return self._fetches

    # Faust calls these methods for the offsets to commit; here it is one number per partition, not one per message.
    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        return iter([tp for tp in self._covered if topics is None or tp in topics or tp.topic in topics])

    def _new_offset(self, tp: TP) -> int | None:
        return self._covered.get(tp)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Clear the state, because the next owner of a partition starts from its snapshot."""
        for state in (self._chunker.positions, self._seeks, self._covered, self._ends):
            state.clear()
        await super().on_partitions_revoked(revoked)

    async def perform_seek(self) -> None:
        """Seek to the committed offsets; the next fetch sets the positions."""
        self._chunker.positions.clear()
        await super().perform_seek()

    async def _drain_messages(self, fetcher: Any) -> None:
        """Deliver messages as Faust's loop does, without its filter by offset, because owners track their offsets."""
        try:
            while not (self.should_stop or fetcher.should_stop):
                await asyncio.sleep(0)
                async for _, message in self.getmany(timeout=FETCH_WAIT_S):
                    await self.wait_first(self.callback(message), self.suspend_flow.wait())
                self._fetches += 1
        except self.consumer_stopped_errors:
            if not self.transport.app.should_stop:
                raise
        except asyncio.CancelledError:
            if not self.transport.app.should_stop:
                raise

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        """Fetch once and yield the records in chunks."""
        generation = self.app.consumer_generation_id
        if not self.flow_active:
            await self.wait(self.can_resume_flow.wait())
        # Seeks only now, because Faust seeks to the committed offsets at the end of a rebalance.
        await self._seek_to_requested()
        fetched, active = await self._wait_next_records(timeout)
        if fetched is None or self.should_stop:
            return
        if not self.flow_active:
            # During a rebalance the records are dropped; every new owner requests its own position afterwards.
            self._chunker.positions.clear()
            return
        # Sets all ends before the first chunk is delivered, because an owner merges its inputs by them.
        self._ends |= {(tp.topic, tp.partition): self.highwater(TP(*tp)) for tp in fetched}
        for key, records in fetched.items():
            tp = TP(*key)
            if not records or not (active is None or tp in active or tp in self._buffered_partitions):
                continue
            for chunk in self._chunker.chunks(tp.topic, tp.partition, records, self.highwater(tp)):
                if not self.flow_active or self.app.consumer_generation_id != generation:
                    self._chunker.positions.clear()
                    return
                yield tp, _message(tp, chunk, generation)

    async def _seek_to_requested(self) -> None:
        seeks, self._seeks = self._seeks, {}
        assigned = self.assignment()
        wanted = {tp: offset for tp, offset in seeks.items() if tp in assigned}
        if wanted:
            await self.seek_wait(wanted)
            for tp, offset in wanted.items():
                self._chunker.positions[tp] = offset

    def rejoin_after_error(self) -> None:
        """Make the consumer join its group again if an error has stopped it; Faust ignores the error."""
        cast(_Thread, self._thread).rejoin_after_error()

    def ended_task(self) -> str:
        """Return the background task of the consumer that ended by an error, with the error; empty if all run."""
        return ended_task(cast(_Thread, self._thread).aiokafka_consumer)

    async def verify_all_partitions_active(self) -> None:
        """Do nothing; Faust would check each partition repeatedly and warn of partitions that it does not fetch."""

    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        return _Thread(self, loop=self.loop, beacon=self.beacon, thread_loop=new_loop())


class _Thread(driver.AIOKafkaConsumerThread):
    """The thread of aiokafka's consumer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._close_thread_loop_on_stop = True  # Faust does not close a loop that its caller made

    def _create_worker_consumer(self, transport: Any) -> Any:
        made = super()._create_worker_consumer(transport)
        made._fetch_max_wait_ms = LONG_POLL_MS  # noqa: SLF001 — Faust has no setting for it
        made._isolation_level = READ_COMMITTED  # noqa: SLF001 — Faust sets it only for its own transactions
        return made

    @property
    def aiokafka_consumer(self) -> Any:
        """The consumer of aiokafka behind Faust's; None until it exists."""
        return self._consumer

    def rejoin_after_error(self) -> None:
        """See ChunkConsumer; may be called from any thread."""
        consumer = self._consumer
        if consumer is not None and has_group_error(consumer):
            self.thread_loop.call_soon_threadsafe(self._rejoin, consumer)

    def _rejoin(self, consumer: Any) -> None:
        if (error := rejoin_after_error(consumer)) is not None:
            log.warning("joining the group %s again after: %s", self.app.conf.id, error)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Exclude the busy topics, which the bulk reader reads; the group still decides their owner."""
        bulk = cast(ChunkApp, self.app).bulk
        self._ensure_consumer().pause(*(TopicPartition(*tp) for tp in assigned if tp.topic in bulk))
        await super().on_partitions_assigned(assigned, generation_id)


def _message(tp: TP, chunk: Chunk, generation: int) -> ConsumerMessage:
    value = cast(Any, chunk)  # Faust declares bytes; only ChunkSchema reads it
    return ConsumerMessage(
        tp.topic, tp.partition, chunk.end - 1, 0.0, 0, None, None, value, None, 0, 0, tp, generation_id=generation
    )


class ChunkSchema(faust.Schema[Any, Any]):
    """Passes the chunk of an event on as its value, without decoding."""

    def loads_key(self, app: Any, message: Any, *, loads: Any = None, serializer: Any = None) -> None:
        """Return None, because a chunk has no key."""

    def loads_value(self, app: Any, message: Any, *, loads: Any = None, serializer: Any = None) -> Chunk:
        """Return the consumer's chunk."""
        return cast(Chunk, message.value)


class _Transport(driver.Transport):
    Consumer = ChunkConsumer


class ChunkApp(faust.App):
    """An app whose agents process chunks."""

    bulk: frozenset[str] = frozenset()
    """Topics of the group that another consumer fetches."""

    def _new_transport(self) -> Any:
        return _Transport(self.conf.broker_consumer, self)


Take = Callable[[Chunk, int], Awaitable[None]]
"""Processes a chunk; the number is the generation of the consumer group in which it was fetched."""


def make_app(
    group: str,
    inputs: Sequence[str],
    take: Take,
    kafka: KafkaSettings,
    runtime: RuntimeSettings,
    data: Path,
    bulk: frozenset[str] = frozenset(),
) -> Any:
    """Return an app with one agent for all inputs; `take` must not raise, because Faust would skip the event.

    The `bulk` inputs are assigned to the app but read by BulkReader.
    """
    app = ChunkApp(
        group,
        broker=[f"kafka://{address}" for address in kafka.bootstrap.split(",")],
        broker_credentials=_credentials(kafka),
        # The timeout of the consumer group.
        broker_session_timeout=runtime.session_s,
        broker_heartbeat_interval=1.0,
        broker_rebalance_timeout=10.0,
        # A new owner begins at the end of its snapshot; the group's offsets only serve tools that monitor its lag.
        broker_commit_interval=2.0,
        consumer_group_instance_id=runtime.instance and f"{group}.{runtime.instance}",
        consumer_auto_offset_reset="earliest",
        # Without tables this only selects Faust's assignor, which is co-partitioned and sticky, unlike the default.
        table_standby_replicas=1,
        # producer_request_timeout stays at its default, because with a short one an outage loses outputs silently.
        producer_acks=-1,
        # Nearly all bytes are compressed snapshots; most batches have one Progress.
        producer_compression_type=None,
        producer_max_request_size=4 << 20,
        # With True, a worker that delays acknowledgements never stops.
        stream_wait_empty=False,
        stream_buffer_maxsize=64,
        topic_disable_leader=True,
        topic_allow_declare=False,
        autodiscover=False,
        web_enabled=False,
        datadir=data,
        key_serializer="raw",
        value_serializer="raw",
    )
    app.bulk = bulk
    topic = app.topic(*inputs, schema=ChunkSchema())

    async def agent(stream: Any) -> None:
        async for event in stream.noack().events():
            await take(event.value, event.message.generation_id)

    app.agent(topic, name=f"{group}.agent", concurrency=1)(agent)
    return app


def _credentials(kafka: KafkaSettings) -> Any:
    """Return the arguments of a client in Faust's form; `SSLCredentials` accepts only a context (others raise)."""
    options = kafka.client_options()
    context = options.get("ssl_context")
    match options.get("sasl_mechanism"):
        case None:
            return None if context is None else faust.SSLCredentials(context=context)
        case "OAUTHBEARER":
            return OAuthCredentials(oauth_cb=options["sasl_oauth_token_provider"], ssl_context=context)
        case mechanism:
            return faust.SASLCredentials(
                username=options["sasl_plain_username"],
                password=options["sasl_plain_password"],
                mechanism=mechanism,
                ssl_context=context,
            )

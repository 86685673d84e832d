"""The Faust app of a stage, whose consumer delivers one event a chunk of one partition, instead of one a record.

Faust's own delivery makes several tasks a record and takes 60 to 90 µs for each; a chunk of a thousand costs as much
as one record does there. This relies on names of faust-streaming 0.15.3 and aiokafka 0.14.0 that are not public;
tests/contract/runtime/test_private_names.py holds them.

Seeking and fetching are done by one task in turn, so that what a fetch brought always follows the seek before it.
Nothing here decides what a stage does; the agent hands every chunk to the runner.
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

log = logging.getLogger(__name__)

FETCH_WAIT_S = 0.4
"""The longest wait for a fetch, and so of a seek for the fetch."""
LONG_POLL_MS = 500
"""The longest that brokers hold an empty fetch. Faust sets 1500, but a seek's first fetch waits behind the last one."""


class ChunkConsumer(driver.Consumer):
    """Delivers chunks, seeks where a stage's owner asks, commits what owners report as covered by a snapshot."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._chunker = Chunker()
        self._seeks: dict[TP, int] = {}
        self._covered: dict[TP, int] = {}
        self._ends: dict[tuple[str, int], int] = {}
        super().__init__(*args, **kwargs)

    def read_from(self, topic: str, partition: int, offset: int) -> None:
        """Deliver from this offset on; chunks that are already under way still come."""
        self._seeks[TP(topic, partition)] = offset

    def acknowledge(self, topic: str, partition: int, offset: int) -> None:
        """All before this offset is covered: commit it with the next commit."""
        self._covered[TP(topic, partition)] = offset

    def end_of(self, topic: str, partition: int) -> int | None:
        """Return the offset behind the last record, as of the last fetch; None before the first."""
        return self._ends.get((topic, partition))

    # What Faust calls to learn what to commit: it would gather an offset a message; here one number a partition is it.
    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterator[TP]:
        return iter([tp for tp in self._covered if topics is None or tp in topics or tp.topic in topics])

    def _new_offset(self, tp: TP) -> int | None:
        return self._covered.get(tp)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Forget all: the next owner of a partition starts from its snapshot."""
        for state in (self._chunker.positions, self._seeks, self._covered, self._ends):
            state.clear()
        await super().on_partitions_revoked(revoked)

    async def perform_seek(self) -> None:
        """Go to what was committed; where that is, the next fetch shows."""
        self._chunker.positions.clear()
        await super().perform_seek()

    async def _drain_messages(self, fetcher: Any) -> None:
        """Faust's delivery loop without its filter by offset: owners know what they have read."""
        try:
            while not (self.should_stop or fetcher.should_stop):
                await asyncio.sleep(0)
                async for _, message in self.getmany(timeout=FETCH_WAIT_S):
                    await self.wait_first(self.callback(message), self.suspend_flow.wait())
        except self.consumer_stopped_errors:
            if not self.transport.app.should_stop:
                raise
        except asyncio.CancelledError:
            if not self.transport.app.should_stop:
                raise

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        """Fetch once and hand on what came, in chunks."""
        generation = self.app.consumer_generation_id
        if not self.flow_active:
            await self.wait(self.can_resume_flow.wait())
        # Not before: as a rebalance ends, Faust seeks to what was committed.
        await self._seek_to_requested()
        fetched, active = await self._wait_next_records(timeout)
        if fetched is None or self.should_stop:
            return
        if not self.flow_active:
            # A rebalance is under way; every owner that begins after it asks to read from its own position.
            self._chunker.positions.clear()
            return
        # Of all, before any is handed on: what came together is put in order by whom it is handed to.
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
        """Let the consumer join its group again if an error has stopped that; Faust would never take the error."""
        cast(_Thread, self._thread).rejoin_after_error()

    def ended_task(self) -> str:
        """Return which background task of the consumer an error has ended, with the error; empty if all of them run."""
        return ended_task(cast(_Thread, self._thread).aiokafka_consumer)

    async def verify_all_partitions_active(self) -> None:
        """Faust would complain of partitions that it does not fetch, and look at each again and again for it."""

    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        return _Thread(self, loop=self.loop, beacon=self.beacon, thread_loop=new_loop())


class _Thread(driver.AIOKafkaConsumerThread):
    """The thread of aiokafka's consumer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._close_thread_loop_on_stop = True  # Faust would leave a loop that it is given to who made it

    def _create_worker_consumer(self, transport: Any) -> Any:
        made = super()._create_worker_consumer(transport)
        made._fetch_max_wait_ms = LONG_POLL_MS  # noqa: SLF001 — Faust has no setting for it
        return made

    @property
    def aiokafka_consumer(self) -> Any:
        """The consumer behind Faust's; None until it is made."""
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
        """Leave the busy topics to the bulk reader; the group still decides their owner."""
        bulk = cast(ChunkApp, self.app).bulk
        self._ensure_consumer().pause(*(TopicPartition(*tp) for tp in assigned if tp.topic in bulk))
        await super().on_partitions_assigned(assigned, generation_id)


def _message(tp: TP, chunk: Chunk, generation: int) -> ConsumerMessage:
    value = cast(Any, chunk)  # Faust declares bytes; ChunkSchema is all that looks at it
    return ConsumerMessage(
        tp.topic, tp.partition, chunk.end - 1, 0.0, 0, None, None, value, None, 0, 0, tp, generation_id=generation
    )


class ChunkSchema(faust.Schema[Any, Any]):
    """Reads nothing: the value of an event is its chunk."""

    def loads_key(self, app: Any, message: Any, *, loads: Any = None, serializer: Any = None) -> None:
        """There is no key of a chunk."""

    def loads_value(self, app: Any, message: Any, *, loads: Any = None, serializer: Any = None) -> Chunk:
        """Return the chunk, as the consumer made it."""
        return cast(Chunk, message.value)


class _Transport(driver.Transport):
    Consumer = ChunkConsumer


class ChunkApp(faust.App):
    """An app whose agents are handed chunks."""

    bulk: frozenset[str] = frozenset()
    """Topics that belong to the group but are fetched beside it."""

    def _new_transport(self) -> Any:
        return _Transport(self.conf.broker_consumer, self)


Take = Callable[[Chunk, int], Awaitable[None]]
"""Takes a chunk, and the generation of the consumer group in which it was fetched."""


def make_app(
    group: str,
    inputs: Sequence[str],
    take: Take,
    kafka: KafkaSettings,
    runtime: RuntimeSettings,
    data: Path,
    bulk: frozenset[str] = frozenset(),
) -> Any:
    """Return an app of one agent over all inputs; `take` must raise nothing, as Faust would go on to the next event.

    Inputs that are `bulk` are assigned to the app, and read by a reader of their own.
    """
    app = ChunkApp(
        group,
        broker=[f"kafka://{address}" for address in kafka.bootstrap.split(",")],
        broker_credentials=_credentials(kafka),
        # The consumer group's.
        broker_session_timeout=runtime.session_s,
        broker_heartbeat_interval=1.0,
        broker_rebalance_timeout=10.0,
        # A new owner begins where its snapshot ends; the group's offsets are for those who watch its lag.
        broker_commit_interval=2.0,
        consumer_group_instance_id=runtime.instance and f"{group}.{runtime.instance}",
        consumer_auto_offset_reset="earliest",
        # Without tables this only chooses Faust's assignor: co-partitioned and sticky, which the default is not.
        table_standby_replicas=1,
        # producer_request_timeout stays at its default: with a short one, an outage loses outputs silently.
        producer_acks=-1,
        # Nearly all bytes are snapshots, compressed already; the many batches are of one Progress each.
        producer_compression_type=None,
        producer_max_request_size=4 << 20,
        # With True, a worker that holds acknowledgements back never stops.
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
    """Return the arguments of a client as Faust has them; `SSLCredentials` takes a context only (others raise)."""
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

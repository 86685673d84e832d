"""Reads Kafka topics of raw lines as a member of a consumer group, and commits what is published. I/O only."""

import asyncio
from collections import deque
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, OffsetAndMetadata, TopicPartition
from aiokafka.errors import KafkaError

from collectors.core.context import CollectorContext
from collectors.host.event_listener import Tally
from collectors.syslog.device import Arrival
from collectors.syslog.params import Params
from collectors.syslog.receiver import Receiver
from streams.wire.bounded_batches import bound_batches
from streams.wire.errors import Misconfigured, Retry
from streams.wire.kafka_clients import stop_client
from streams.wire.retry import Backoff, Failure, retry
from streams.wire.topics import EVENTS

_log = structlog.get_logger("railsight.syslog")

_SESSION_MS = 10_000
_MAX_RECORDS = 1000
_POLL_MS = 500
_COMMIT_S = 1.0
_RETRY = Backoff.constant(1.0)

Offsets = dict[TopicPartition, int]


class Topics:
    """The topics of one process. A line may be read again after a failure; its event is then equal."""

    def __init__(self, params: Params, receiver: Receiver, context: CollectorContext, tally: Tally) -> None:
        self._names, self._group = params.topics(), params.group
        self._receiver, self._context, self._tally = receiver, context, tally
        self._problem = "the topics are not read yet"
        if self._names:
            if context.core.client_options is None:
                raise Misconfigured("collect syslog: Kafka's address is not set; set kafka.bootstrap")
            context.health.ready_while("topics", lambda: self._problem)

    async def run(self) -> None:
        """Read until cancelled; return at once without topics."""

        def warn(failure: Failure) -> None:
            self._problem = "cannot read the topics"
            _log.warning("cannot read the topics, retrying", error=str(failure.error))

        if self._names:
            await retry(lambda _: self._read(), Retry, _RETRY, before_wait=warn)

    async def _read(self) -> None:
        bound_batches()
        consumer = AIOKafkaConsumer(
            *self._names,
            **dict(self._context.core.client_options or {}),
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=_SESSION_MS // 5,
        )
        waiting: deque[tuple[int, Offsets]] = deque()
        loop = asyncio.get_running_loop()
        committed_s = loop.time()
        try:
            await consumer.start()
            self._problem = ""
            while True:
                found = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_MAX_RECORDS)
                for place, records in found.items():
                    self._receive(place.topic, records)
                if found and not self._receiver.waits:
                    offsets = {place: records[-1].offset + 1 for place, records in found.items()}
                    waiting.append((self._tally.events, (waiting[-1][1] if waiting else {}) | offsets))
                if loop.time() - committed_s >= _COMMIT_S:
                    committed_s = loop.time()
                    await self._commit(consumer, waiting)
                await asyncio.sleep(0)
        except (KafkaError, OSError) as error:
            raise Retry(f"{type(error).__name__}: {error}") from error
        finally:
            await stop_client(consumer)

    def _receive(self, topic: str, records: list[Any]) -> None:
        now_s = asyncio.get_running_loop().time()
        for record in records:
            arrival = Arrival(f"topic {topic}", record.timestamp * 1_000_000, now_s)
            for line in (record.value or b"").splitlines():
                self._receiver.receive(line, None, arrival)

    async def _commit(self, consumer: Any, waiting: deque[tuple[int, Offsets]]) -> None:
        """Commit the offsets whose events are all in Kafka or the spool."""
        settled = self._context.metrics.value("settled", EVENTS.name)
        offsets: Offsets = {}
        while waiting and waiting[0][0] <= settled:
            offsets = waiting.popleft()[1]
        assigned = consumer.assignment()
        if own := {place: OffsetAndMetadata(at, "") for place, at in offsets.items() if place in assigned}:
            await consumer.commit(own)

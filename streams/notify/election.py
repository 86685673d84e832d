"""Runs services of which a consumer group elects one instance, such as the notifier: clients, run, health."""

import asyncio
import logging
import signal
from collections.abc import Collection, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Literal, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaConnectionError

from streams.health.health import Check, Health
from streams.health.input_checks import ReadingLoop, add_consumer_checks
from streams.health.status_server import stop_of, supervised
from streams.instrument.clock import Attendance
from streams.wire.errors import Retry
from streams.wire.kafka_clients import stop_client, throttle_metadata_refresh
from streams.wire.models import Rejected
from streams.wire.retry import Backoff, Failure, retry
from streams.wire.standalone_consumer import READ_COMMITTED
from streams.wire.topics import REJECTED, encode

log = logging.getLogger(__name__)

SESSION_S = 10
"""After this time without a heartbeat, another process takes over."""
_START_RETRY_S = 2.0


class ElectedService(ReadingLoop, Protocol):
    """A service in several processes, of which the elected one is active."""

    async def run(self) -> None:
        """Run until cancelled; raises Retry if Kafka or a topic is missing at the start."""
        ...

    @property
    def is_active(self) -> bool:
        """True if it is elected and has restored its state."""
        ...

    @property
    def is_retrying(self) -> bool:
        """True while a delivery fails and is repeated."""
        ...


class Ownership(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka is untyped
    """The result of the last election; a delivery ends before a partition is revoked."""

    def __init__(self, *partitions: TopicPartition) -> None:
        self._partitions = partitions
        self.owned: frozenset[TopicPartition] = frozenset()
        self.is_owner = False
        self.takeover_pending = False
        self.election = 0
        """Counts assignments; data that was read under another number is invalid."""
        self.delivering = asyncio.Lock()
        """Locked during a delivery and its commit; the request timeout limits both."""

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.owned, self.is_owner = frozenset(), False
        async with self.delivering:
            pass

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.election += 1
        self.owned = frozenset(self._partitions) & set(assigned)
        self.is_owner = self.takeover_pending = bool(self.owned)

    def check_attendance(self, attendance: Attendance) -> None:
        """Take over again after a pause in which another process may have been elected; the state may be outdated."""
        if attendance.was_away():
            log.warning("stopped for longer than half the session, taking over again")
            self.takeover_pending = self.is_owner
            attendance.resume()


async def open_clients(
    stack: AsyncExitStack,
    kafka: Mapping[str, Any],
    group: str,
    topics: Collection[str],
    reset: Literal["earliest", "latest"],
) -> tuple[AIOKafkaConsumer, AIOKafkaProducer]:
    """Start the consumer of the group and a producer and return both; raises Retry if Kafka or a topic is missing."""
    producer = AIOKafkaProducer(**kafka, acks="all", enable_idempotence=True)
    throttle_metadata_refresh(producer)
    consumer = AIOKafkaConsumer(
        **kafka, group_id=group, enable_auto_commit=False, auto_offset_reset=reset,
        session_timeout_ms=SESSION_S * 1000, isolation_level=READ_COMMITTED,
    )  # fmt: skip
    for client in (producer, consumer):
        stack.push_async_callback(stop_client, client)
    try:
        await producer.start()
        await consumer.start()
    except KafkaConnectionError as error:
        raise Retry(f"cannot connect to Kafka: {error}") from error
    # The consumer would wait forever for a topic that does not exist.
    if missing := set(topics) - await consumer.topics():
        several = "s" if len(topics) > 1 else ""
        create = "create them" if several else "create it"
        raise Retry(f"Kafka lacks the topic{several} {', '.join(sorted(missing))}: {create} with `railsight topics`")
    return consumer, producer


def rejected_record(record: ConsumerRecord, stage: str, reason: str, now_ns: int) -> Rejected:
    """Return the message for the rejected topic about a record that cannot be read."""
    return Rejected(
        topic=record.topic, partition=record.partition, offset=record.offset, stage=stage, reason=reason, at_ns=now_ns,
        value=record.value,
    )  # fmt: skip


async def publish_rejected(producer: AIOKafkaProducer, rejected: Rejected) -> None:
    """Publish an unreadable record on the rejected topic."""
    sent = encode(REJECTED, rejected)
    await producer.send_and_wait(sent.topic.name, sent.value, key=sent.key, headers=list(sent.headers))


async def run_until_stopped(services: Mapping[str, ElectedService], kafka: Mapping[str, Any], health: Health) -> None:
    """Run services until SIGINT or SIGTERM, each by the prefix of its checks; the next instance continues their work.

    At the start, waits for Kafka and the topics, and logs a line for each reason.
    """
    brokers = []
    for prefix, service in services.items():
        end_offsets = add_consumer_checks(service, kafka, health, prefix)
        health.ready_while(f"{prefix}brokers", end_offsets.problem)
        health.ready_while(f"{prefix}election", _election_check(service))
        health.ready_while(f"{prefix}delivery", _delivery_check(service))
        brokers.append(asyncio.ensure_future(end_offsets.run()))
    health.started()
    running = asyncio.ensure_future(_run_together(services.values()))

    def stop() -> None:
        stop_of(health)
        running.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        async with supervised(health):
            await running
    except asyncio.CancelledError:
        if not running.cancelled():
            raise
    finally:
        for asking in brokers:
            asking.cancel()


def _election_check(service: ElectedService) -> Check:
    return lambda: "" if service.is_active else "not elected, or taking over"


def _delivery_check(service: ElectedService) -> Check:
    return lambda: "fails and is retried" if service.is_retrying else ""


async def _run_together(services: Iterable[ElectedService]) -> None:
    """Run services; the first that ends with an error cancels the others, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for service in services:
                tasks.create_task(_run_when_possible(service))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


async def _run_when_possible(service: ElectedService) -> None:
    logged = ""

    def warn(failure: Failure) -> None:
        nonlocal logged
        if (reason := str(failure.error)) != logged:
            log.warning("waiting: %s", reason)
        logged = reason

    await retry(lambda _: service.run(), Retry, Backoff.constant(_START_RETRY_S), before_wait=warn)

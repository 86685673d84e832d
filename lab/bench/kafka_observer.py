"""Observes the running pipeline through Kafka: findings with their arrival time, Progress, and the lag of a group.

It is a plain consumer of the topics, as a user's automation would be.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from streams.config.kafka import KafkaSettings
from streams.runtime.stage_progress import StageProgress
from streams.runtime.topic_io import follow, kafka_errors_as_retry
from streams.wire.errors import Reject, Retry
from streams.wire.models import Finding, Progress
from streams.wire.topics import BY_NAME, COLLECTOR_STATUS, EVENTS, FINDINGS, PROGRESS, SAMPLES, STAGES, Topic, decode

_RETRY_S = 0.2
_PROGRESS_PAUSE_S = 0.25
"""Stages emit Progress about twenty times a second; each fetch costs broker CPU, which is counted as the broker's."""
_SAME_FETCH_S = 0.02
"""Records of one fetch are consumed faster than this."""


@dataclass(slots=True)
class KafkaObservations:
    """Every finding revision with its arrival time, and the progress of each stage."""

    revisions: list[tuple[int, Finding]] = field(default_factory=list)
    stages: dict[str, StageProgress] = field(default_factory=lambda: {stage: StageProgress() for stage in STAGES})

    @property
    def lag(self) -> dict[str, int]:
        """The number of records that each stage has not read."""
        return {stage: progress.lag for stage, progress in self.stages.items()}

    @property
    def epochs(self) -> dict[int, int]:
        """The owner epoch of each partition of measure."""
        return dict(self.stages["measure"].epochs)


async def observe(kafka: KafkaSettings, observed: KafkaObservations) -> None:
    """Record findings as they arrive and Progress a few times a second, until cancelled."""
    await asyncio.gather(
        _observe_topic(kafka, observed, FINDINGS, 0.0), _observe_topic(kafka, observed, PROGRESS, _PROGRESS_PAUSE_S)
    )


async def _observe_topic(kafka: KafkaSettings, observed: KafkaObservations, topic: Topic, pause_s: float) -> None:
    positions: dict[tuple[str, int], int] = {}
    paused_s = 0.0
    while True:
        with suppress(Retry):
            async for record in follow(kafka, topic, positions=positions):
                _record(observed, record)
                if pause_s and time.monotonic() - paused_s > _SAME_FETCH_S:
                    await asyncio.sleep(pause_s)
                    paused_s = time.monotonic()
        await asyncio.sleep(_RETRY_S)


def _record(observed: KafkaObservations, record: Any) -> None:
    arrived_ns = time.time_ns()
    with suppress(Reject):
        message = decode(BY_NAME[record.topic], record.value, record.headers)
        if isinstance(message, Finding):
            observed.revisions.append((arrived_ns, message))
        elif isinstance(message, Progress) and message.stage in observed.stages:
            observed.stages[message.stage].update(message, time.monotonic())


_TELEMETRY = (SAMPLES, EVENTS, COLLECTOR_STATUS)


class GroupLag:
    """Reads end offsets and committed offsets from Kafka."""

    def __init__(self, consumer: AIOKafkaConsumer, admin: AIOKafkaAdminClient, kafka: KafkaSettings) -> None:
        self._consumer = consumer
        self._admin = admin
        self._partitions = [
            TopicPartition(topic.name, partition)
            for topic in _TELEMETRY
            for partition in range(kafka.partitions.count(topic))
        ]

    async def lag_of(self, group: str) -> int | None:
        """Return the telemetry records that the group has not committed; None while Kafka does not answer."""
        with suppress(KafkaError, OSError):
            ends = await self._consumer.end_offsets(self._partitions)
            committed = await self._admin.list_consumer_group_offsets(group, partitions=self._partitions)
            return sum(int(end) - max(0, int(committed[tp].offset)) for tp, end in ends.items())
        return None


@asynccontextmanager
async def open_group_lag(kafka: KafkaSettings) -> AsyncIterator[GroupLag]:
    """Open the clients; raise Retry when Kafka does not answer."""
    consumer = AIOKafkaConsumer(**kafka.client_options(), enable_auto_commit=False)
    admin = AIOKafkaAdminClient(**kafka.client_options())
    with kafka_errors_as_retry(kafka):
        await consumer.start()
        await admin.start()
    try:
        yield GroupLag(consumer, admin, kafka)
    finally:
        with suppress(KafkaError, OSError):
            await admin.close()
            await consumer.stop()

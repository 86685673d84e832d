"""Reads the source topics as one member of a consumer group, and commits. I/O only.

A partition's state is in the metadata of its committed offset.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from collectors.bridge.delivery import CommittedState, Place, committed_state
from collectors.bridge.params import Params
from collectors.bridge.points import Source
from streams.wire.bounded_batches import bound_batches
from streams.wire.errors import Retry
from streams.wire.kafka_clients import stop_client

_SESSION_MS = 10_000
_MAX_RECORDS = 2_000
"""Limit of records per poll; other work is done between polls."""
_FETCH_BYTES = 4 << 20
_ATTEMPTS = 3
_ATTEMPT_S = 10.0

Batch = list[tuple[Place, list[Source]]]


class Lost(Exception):
    """Raised after partitions were revoked: drop their state, and start the assigned partitions again."""


# aiokafka has no types.
class GroupReader(ConsumerRebalanceListener):  # type: ignore[misc]
    """One member of the group. Use as an async context manager; `revoked` receives the partitions that were revoked."""

    def __init__(self, params: Params, options: Mapping[str, Any], revoked: Callable[[Iterable[Place]], None]) -> None:
        self._params = params
        self._options = dict(options)
        self._revoked = revoked
        self._consumer: Any = None
        self._admin: Any = None

    async def __aenter__(self) -> "GroupReader":
        bound_batches()
        self._admin = AIOKafkaAdminClient(**self._options)
        self._consumer = AIOKafkaConsumer(
            **self._options,
            group_id=self._params.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # for committed positions; `begin` sets a position if there is none
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=_SESSION_MS // 5,
            max_partition_fetch_bytes=_FETCH_BYTES,
        )
        try:
            await self._admin.start()
            await self._consumer.start()
        except (KafkaError, OSError) as error:
            await self.__aexit__()
            raise Retry(f"collect bridge: Kafka: {error}") from error
        self._consumer.subscribe([topic.name for topic in self._params.topics], listener=self)
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop_client(self._consumer)
        await stop_client(self._admin)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Pass the revoked partitions on."""
        self._revoked((place.topic, place.partition) for place in revoked)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Do nothing: a partition is started when it is polled."""

    def assigned(self) -> set[Place]:
        """Return the assigned partitions."""
        return {(place.topic, place.partition) for place in self._consumer.assignment()}

    async def begin(self, place: Place) -> tuple[int, CommittedState | None]:
        """Seek to the committed position; return the offset and its metadata. Raises Retry and Lost."""
        at = TopicPartition(*place)
        try:
            found = (await self._admin.list_consumer_group_offsets(self._params.group, partitions=[at])).get(at)
            offset, state = (found.offset, committed_state(found.metadata)) if found is not None else (-1, None)
            if offset < 0:
                ends = (
                    self._consumer.end_offsets if self._params.start == "latest" else self._consumer.beginning_offsets
                )
                offset = (await ends([at]))[at]
            self._consumer.seek(at, offset)
        except (IllegalStateError, ValueError) as error:
            raise Lost(str(error)) from error
        except (KafkaError, OSError, TimeoutError) as error:
            raise Retry(str(error)) from error
        return offset, state

    async def poll(self, wait_s: float) -> Batch:
        """Return the new records by partition, in order of offset; none after `wait_s`. Raises Retry."""
        try:
            found = await self._consumer.getmany(timeout_ms=int(wait_s * 1000), max_records=_MAX_RECORDS)
        except (KafkaError, OSError) as error:
            raise Retry(f"{type(error).__name__}: {error}") from error
        return [((at.topic, at.partition), sources(records)) for at, records in found.items()]

    async def commit(self, positions: Mapping[Place, tuple[int, str]]) -> None:
        """Commit offsets with their metadata; raises Retry, and Lost if the group has been rebalanced."""
        offsets = {TopicPartition(*place): OffsetAndMetadata(*state) for place, state in positions.items()}
        try:
            await self._consumer.commit(offsets)
        except (CommitFailedError, IllegalStateError) as error:
            raise Lost(str(error)) from error
        except (KafkaError, OSError) as error:
            raise Retry(f"{type(error).__name__}: {error}") from error


def sources(records: Iterable[Any]) -> list[Source]:
    """Return Kafka's records; a tombstone becomes an empty record, without points."""
    return [Source(record.offset, record.timestamp * 1_000_000, record.value or b"") for record in records]


async def newest(params: Params, options: Mapping[str, Any]) -> Batch:
    """Return the newest records of each partition, read without a group; raises Retry.

    A client that sees a topic before its partitions have leaders may wait for ever; a new client is tried then.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ATTEMPT_S):
                return await _newest(params, options)
    raise Retry(f"collect bridge: no answer from Kafka in {_ATTEMPTS} attempts of {_ATTEMPT_S:g} s")


async def _newest(params: Params, options: Mapping[str, Any]) -> Batch:
    bound_batches()
    admin = AIOKafkaAdminClient(**options)
    consumer = AIOKafkaConsumer(**options, enable_auto_commit=False, auto_offset_reset="earliest")
    found: Batch = []
    try:
        await admin.start()
        await consumer.start()
        for described in await admin.describe_topics([topic.name for topic in params.topics]):
            places = [TopicPartition(described["topic"], one["partition"]) for one in described["partitions"]]
            if not places:
                raise Retry(f"collect bridge: topic {described['topic']} does not exist")
            consumer.assign(places)
            first, end = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
            for place in sorted(places):
                at = max(first[place], end[place] - params.once_records)
                consumer.assign([place])
                consumer.seek(place, at)
                found.append(((place.topic, place.partition), await _until(consumer, place, at, end[place])))
    except (KafkaError, OSError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise Retry(f"collect bridge: Kafka: {error}") from error
    finally:
        await consumer.stop()
        await admin.close()
    return found


async def _until(consumer: Any, place: TopicPartition, at: int, end: int) -> list[Source]:
    records: list[Source] = []
    while at < end:
        received = sources((await consumer.getmany(timeout_ms=2000)).get(place, ()))
        if not received:
            break
        records += received
        at = received[-1].offset + 1
    return [record for record in records if record.offset < end]

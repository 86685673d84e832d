"""The peers' topics, read as one member of a consumer group: records in, commits out. I/O only.

Where a partition is begun, and under which number, stands beside the committed offset, in the commit's metadata.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from collectors.bridge.acknowledged import Place
from collectors.bridge.message_identity import CommittedState, committed_state
from collectors.bridge.params import Params
from collectors.bridge.records import Source
from streams.wire.errors import Retry

_SESSION_MS = 10_000
_MOST_RECORDS = 2_000
"""A turn: what comes between two looks at what else is due."""
_FETCH_BYTES = 4 << 20
_ATTEMPTS = 3
_ATTEMPT_S = 10.0

Batch = list[tuple[Place, list[Source]]]


class Lost(Exception):
    """The partitions are not ours any more: forget what was made of them, and begin again with those that are."""


# aiokafka has no types.
class GroupReader(ConsumerRebalanceListener):  # type: ignore[misc]
    """One member of the group. Use as an async context manager; `revoked` is told which partitions went."""

    def __init__(self, params: Params, options: Mapping[str, Any], revoked: Callable[[Iterable[Place]], None]) -> None:
        self._params = params
        self._options = dict(options)
        self._revoked = revoked
        self._consumer: Any = None
        self._admin: Any = None

    async def __aenter__(self) -> "GroupReader":
        self._admin = AIOKafkaAdminClient(**self._options)
        self._consumer = AIOKafkaConsumer(
            **self._options,
            group_id=self._params.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # of what the group knows; where nothing is known, `begin` decides
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
        with contextlib.suppress(KafkaError, OSError):
            await self._consumer.stop()
        with contextlib.suppress(KafkaError, OSError):
            await self._admin.close()

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Tell who folds them."""
        self._revoked((place.topic, place.partition) for place in revoked)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """They are begun when they are met."""

    def assigned(self) -> set[Place]:
        """The partitions that are ours."""
        return {(place.topic, place.partition) for place in self._consumer.assignment()}

    async def begin(self, place: Place) -> tuple[int, CommittedState | None]:
        """Go to where the group has come; answers the offset, and what stood beside it. Raises Retry and Lost."""
        at = TopicPartition(*place)
        try:
            found = (await self._admin.list_consumer_group_offsets(self._params.group, partitions=[at])).get(at)
            offset, said = (found.offset, committed_state(found.metadata)) if found is not None else (-1, None)
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
        return offset, said

    async def poll(self, wait_s: float) -> Batch:
        """What came, in order of offset for each partition; nothing after `wait_s`. Raises Retry."""
        try:
            found = await self._consumer.getmany(timeout_ms=int(wait_s * 1000), max_records=_MOST_RECORDS)
        except (KafkaError, OSError) as error:
            raise Retry(f"{type(error).__name__}: {error}") from error
        return [((at.topic, at.partition), sources(records)) for at, records in found.items()]

    async def commit(self, positions: Mapping[Place, tuple[int, str]]) -> None:
        """Commit offsets with what stands beside them; raises Retry, and Lost where the group has moved on."""
        offsets = {TopicPartition(*place): OffsetAndMetadata(*said) for place, said in positions.items()}
        try:
            await self._consumer.commit(offsets)
        except (CommitFailedError, IllegalStateError) as error:
            raise Lost(str(error)) from error
        except (KafkaError, OSError) as error:
            raise Retry(f"{type(error).__name__}: {error}") from error


def sources(records: Iterable[Any]) -> list[Source]:
    """Kafka's records; a tombstone is an empty one, which says nothing."""
    return [Source(record.offset, record.timestamp * 1_000_000, record.value or b"") for record in records]


async def newest(params: Params, options: Mapping[str, Any]) -> Batch:
    """The newest records of each partition, read without a group; raises Retry.

    A client that met a topic before its partitions had leaders may wait for ever: then another one is tried.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ATTEMPT_S):
                return await _newest(params, options)
    raise Retry("collect bridge: Kafka does not answer")


async def _newest(params: Params, options: Mapping[str, Any]) -> Batch:
    admin = AIOKafkaAdminClient(**options)
    consumer = AIOKafkaConsumer(**options, enable_auto_commit=False, auto_offset_reset="earliest")
    found: Batch = []
    try:
        await admin.start()
        await consumer.start()
        for described in await admin.describe_topics([topic.name for topic in params.topics]):
            places = [TopicPartition(described["topic"], one["partition"]) for one in described["partitions"]]
            if not places:
                raise Retry(f"collect bridge: no topic {described['topic']}")
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
        came = sources((await consumer.getmany(timeout_ms=2000)).get(place, ()))
        if not came:
            break
        records += came
        at = came[-1].offset + 1
    return [record for record in records if record.offset < end]

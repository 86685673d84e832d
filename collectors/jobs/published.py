"""Reads back the jobs that an earlier process of this collector published: the topic is the collector's only state."""

import contextlib
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from streams.wire.errors import Reject, Retry
from streams.wire.models import Job
from streams.wire.topics import JOBS, decode


async def published_jobs(options: Mapping[str, Any]) -> list[Job]:
    """Return the newest message of each key; raises Retry while Kafka does not answer."""
    newest: dict[bytes, Job] = {}
    at = TopicPartition(JOBS.name, 0)
    consumer = AIOKafkaConsumer(**options, enable_auto_commit=False, auto_offset_reset="earliest")
    try:
        await consumer.start()
        consumer.assign([at])
        end = (await consumer.end_offsets([at]))[at]
        await consumer.seek_to_beginning(at)
        while await consumer.position(at) < end:
            for record in (await consumer.getmany(at, timeout_ms=500)).get(at, ()):
                newest.pop(record.key, None)
                # An unreadable message is one of another version: it is replaced by the next one of its key.
                with contextlib.suppress(Reject):
                    if record.value is not None and isinstance(job := decode(JOBS, record.value, record.headers), Job):
                        newest[record.key] = job
    except (KafkaError, OSError, TimeoutError) as error:
        raise Retry(f"{JOBS.name}: {error or type(error).__name__}") from error
    finally:
        with contextlib.suppress(KafkaError, OSError):
            await consumer.stop()
    return list(newest.values())

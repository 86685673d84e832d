"""Reads back the jobs that an earlier process of this collector published: the topic is the collector's only state."""

from collections.abc import Mapping
from typing import Any

from streams.wire.errors import Retry
from streams.wire.models import Job
from streams.wire.standalone_consumer import AWAY, open_consumer, read_compacted
from streams.wire.topics import JOBS


async def published_jobs(options: Mapping[str, Any]) -> list[Job]:
    """Return the newest message of each key; raises Retry while Kafka does not answer.

    A key whose newest message is unreadable is left out: it is of another version, and the next one replaces it.
    """
    try:
        async with open_consumer(options) as consumer:
            content = await read_compacted(consumer, JOBS)
    except AWAY as error:
        raise Retry(f"{JOBS.name}: {error or type(error).__name__}") from error
    return [job for job in content.readable().values() if isinstance(job, Job)]

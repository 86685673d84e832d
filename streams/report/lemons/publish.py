"""Publishes lemon scores on their compacted topic."""

from collections.abc import Sequence

from streams.config.kafka import KafkaSettings
from streams.runtime.topic_io import publish, read_newest
from streams.wire.models import Lemon
from streams.wire.topics import LEMONS, encode, tombstone


async def publish_lemons(kafka: KafkaSettings, lemons: Sequence[Lemon]) -> int:
    """Publish the scores, and remove those of subjects that have none any more; return the number of records."""
    records = [encode(LEMONS, lemon) for lemon in lemons]
    current = {record.key for record in records}
    obsolete = sorted((await read_newest(kafka, LEMONS)).keys - current)
    return await publish(kafka, [*records, *(tombstone(LEMONS, key.decode(errors="replace")) for key in obsolete)])

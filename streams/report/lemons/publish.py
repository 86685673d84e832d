"""Publishes lemon scores on their compacted topic."""

from collections.abc import Sequence

from streams.config.kafka import KafkaSettings
from streams.runtime.topic_reader import read_to_end
from streams.runtime.topic_writer import publish
from streams.wire.models import Lemon
from streams.wire.topics import LEMONS, encode, tombstone


async def publish_lemons(kafka: KafkaSettings, lemons: Sequence[Lemon]) -> int:
    """Publish the scores, and remove those of subjects that have none any more; return the number of records."""
    records = [encode(LEMONS, lemon) for lemon in lemons]
    valid: dict[bytes, bool] = {}
    async for record in read_to_end(kafka, LEMONS):
        valid[record.key or b""] = record.value is not None
    current = {record.key for record in records}
    obsolete = [key for key, is_valid in valid.items() if is_valid and key not in current]
    return await publish(kafka, [*records, *(tombstone(LEMONS, key.decode(errors="replace")) for key in obsolete)])

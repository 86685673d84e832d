"""Reads the Facts that devices reported: from their compacted topic, or from JSON lines of a recording."""

from pathlib import Path

from streams.config.kafka import KafkaSettings
from streams.replay.recording import RejectedRows, read_lines
from streams.runtime.topic_reader import read_to_end
from streams.wire.errors import Reject
from streams.wire.models import Facts
from streams.wire.topics import FACTS, decode


def facts_of_file(path: Path) -> tuple[list[Facts], list[str]]:
    """Return the facts of a file, and a line for each reason to skip some; raises Misconfigured for no such file."""
    rejected = RejectedRows()
    return read_lines(Facts, path, rejected), rejected.lines()


async def facts_on_kafka(kafka: KafkaSettings) -> list[Facts]:
    """Return the facts of every device and source; raises Retry where Kafka does not answer."""
    latest: dict[bytes, Facts] = {}
    async for record in read_to_end(kafka, FACTS):
        try:
            message = None if record.value is None else decode(FACTS, record.value, record.headers)
        except Reject:
            continue
        if isinstance(message, Facts):
            latest[record.key or b""] = message
        else:
            latest.pop(record.key or b"", None)
    return list(latest.values())

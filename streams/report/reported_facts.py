"""Reads the Facts that devices reported: from their compacted topic, or from JSON lines of a recording."""

from pathlib import Path

from streams.config.kafka import KafkaSettings
from streams.replay.recording import RejectedRows, read_lines
from streams.runtime.topic_io import read_newest
from streams.wire.models import Facts
from streams.wire.topics import FACTS


def facts_of_file(path: Path) -> tuple[list[Facts], list[str]]:
    """Return the facts of a file, and a line for each reason to skip some; raises Misconfigured for no such file."""
    rejected = RejectedRows()
    return read_lines(Facts, path, rejected), rejected.lines()


async def facts_on_kafka(kafka: KafkaSettings) -> list[Facts]:
    """Return the facts of every device and source; raises Retry where Kafka does not answer."""
    content = await read_newest(kafka, FACTS)
    return [facts for facts in content.newest.values() if isinstance(facts, Facts)]

"""Checks the answers of a baseline: every crossing in the data once, and no other."""

import json
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.bench.baselines.load import Crossing
from streams.config.kafka import KafkaSettings
from streams.fabric.catalogue import Metric
from streams.wire import topics
from streams.wire.models import (
    Symptom,
)
from streams.wire.symptoms import SymptomKind
from streams.wire.topics import Topic


async def read_crossings(kafka: KafkaSettings, topic: Topic) -> list[Crossing]:
    """Return the crossings in a topic of answers, up to its current end."""
    found: list[Crossing] = []
    async with AIOKafkaConsumer(**kafka.client_options(), auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(topic.name, partition) for partition in range(kafka.partitions.count(topic))]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        unread = {one for one in partitions if ends[one]}
        while unread:
            for one, records in (await consumer.getmany(*unread, timeout_ms=500)).items():
                found += [crossing for record in records for crossing in _crossings(topic, record)]
                if await consumer.position(one) >= ends[one]:
                    unread.discard(one)
    return found


def _crossings(topic: Topic, record: Any) -> Iterable[Crossing]:
    if topic != topics.SYMPTOMS:
        answer = json.loads(record.value)
        if answer["metric"] == Metric.LINK_DOWN_EVENTS.name:
            yield answer["device"], answer["port"], answer["at_ns"]
        return
    message = topics.decode(topic, record.value, record.headers)
    if isinstance(message, Symptom) and message.kind is SymptomKind.DOWNS_COUNTED:
        yield message.device, message.port, message.at_ns


def difference(found: list[Crossing], wanted: frozenset[Crossing]) -> str:
    """Return in one line how the answers differ from the data; empty if they do not."""
    once = set(found)
    missed, invented, twice = len(wanted - once), len(once - wanted), len(found) - len(once)
    if missed or invented or twice:
        return f"of {len(wanted)} crossings {missed} missed, {invented} invented, {twice} duplicated"
    return ""

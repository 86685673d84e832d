"""Follows a running pipeline for the terminal: folds Kafka's topics into its state.

Retries while the brokers do not answer.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from streams.config.kafka import KafkaSettings
from streams.report.top.state import TopState
from streams.runtime.topic_io import follow
from streams.wire.errors import Reject, Retry
from streams.wire.inventory_topic import Assembler
from streams.wire.models import InventoryChunk
from streams.wire.topics import (
    BY_NAME,
    COLLECTOR_STATUS,
    CONTROLS,
    FINDINGS,
    FINDINGS_OPEN,
    INVENTORY,
    PROGRESS,
    REMEDIATIONS_OPEN,
    Topic,
    decode,
)

COMPACTED = (INVENTORY, FINDINGS_OPEN, REMEDIATIONS_OPEN, CONTROLS, COLLECTOR_STATUS)
"""Read from their beginning: they have what is open and in force now."""
STREAMS = (PROGRESS, FINDINGS)
"""Read from their end: what changes from now on."""
RETRY_S = 0.5


async def follow_state(kafka: KafkaSettings, state: TopState) -> None:
    """Fold the topics into the state until cancelled."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_follow(kafka, state, COMPACTED, from_end=False))
        tasks.create_task(_follow(kafka, state, STREAMS, from_end=True))


async def _follow(kafka: KafkaSettings, state: TopState, topics: Sequence[Topic], *, from_end: bool) -> None:
    assembler = Assembler()
    positions: dict[tuple[str, int], int] = {}
    while True:
        with suppress(Retry):
            async for record in follow(kafka, *topics, from_end=from_end, positions=positions):
                fold(state, record, assembler, time.monotonic())
        await asyncio.sleep(RETRY_S)


def fold(state: TopState, record: Any, assembler: Assembler, now_s: float) -> None:
    """Fold one record into the state; one that cannot be read changes nothing."""
    if record.value is None:
        state.remove(record.topic, record.key.decode(errors="replace"))
        return
    try:
        message = decode(BY_NAME[record.topic], record.value, record.headers)
        if not isinstance(message, InventoryChunk):
            state.update(message, now_s)
        elif (version := assembler.add(message)) is not None:
            state.update(version[1], now_s)
    except Reject:
        return

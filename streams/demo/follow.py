"""Follows the running pipeline for the demo: Kafka's topics into the board, ClickHouse's counts beside them.

A broker that is away for a while is waited for; nothing here decides what was seen.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

from streams.config.kafka import KafkaSettings
from streams.demo.state import DemoState
from streams.fabric.topology import Topology
from streams.runtime.topic_reader import follow
from streams.wire.errors import Reject, Retry
from streams.wire.inventory_topic import Assembler
from streams.wire.models import InventoryChunk, Message
from streams.wire.topics import BY_NAME, FINDINGS, INVENTORY, PROGRESS, REMEDIATIONS, decode

WATCHED = (FINDINGS, PROGRESS, REMEDIATIONS, INVENTORY)
RETRY_S = 0.5


async def follow_pipeline(kafka: KafkaSettings, board: DemoState) -> None:
    """Fold what the topics say into the board, for ever."""
    assembler = Assembler()
    positions: dict[tuple[str, int], int] = {}
    while True:
        with suppress(Retry):
            async for message in _messages(kafka, assembler, positions):
                board.update(message, time.monotonic())
        await asyncio.sleep(RETRY_S)


async def _messages(
    kafka: KafkaSettings, assembler: Assembler, positions: dict[tuple[str, int], int]
) -> AsyncIterator[Message | Topology]:
    async for record in follow(kafka, *WATCHED, positions=positions):
        try:
            message = decode(BY_NAME[record.topic], record.value, record.headers)
            if isinstance(message, InventoryChunk):
                if (version := assembler.add(message)) is not None:
                    yield version[1]
            else:
                yield message
        except Reject:
            continue

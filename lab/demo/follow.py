"""Follows the running pipeline for the demo: folds Kafka's topics into its state.

Retries while the broker does not answer.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

from lab.demo.state import DemoState
from streams.config.kafka import KafkaSettings
from streams.fabric.topology import Topology
from streams.runtime.topic_reader import follow
from streams.wire.errors import Reject, Retry
from streams.wire.inventory_topic import Assembler
from streams.wire.models import InventoryChunk, Message
from streams.wire.topics import BY_NAME, COLLECTOR_STATUS, CONTROLS, FINDINGS, INVENTORY, PROGRESS, REMEDIATIONS, decode

FOLLOWED = (FINDINGS, PROGRESS, REMEDIATIONS, INVENTORY, CONTROLS, COLLECTOR_STATUS)
RETRY_S = 0.5


async def follow_pipeline(kafka: KafkaSettings, state: DemoState) -> None:
    """Fold the topics into the state until cancelled."""
    assembler = Assembler()
    positions: dict[tuple[str, int], int] = {}
    while True:
        with suppress(Retry):
            async for message in _messages(kafka, assembler, positions):
                state.update(message, time.monotonic())
        await asyncio.sleep(RETRY_S)


async def _messages(
    kafka: KafkaSettings, assembler: Assembler, positions: dict[tuple[str, int], int]
) -> AsyncIterator[Message | Topology]:
    async for record in follow(kafka, *FOLLOWED, positions=positions):
        try:
            message = decode(BY_NAME[record.topic], record.value, record.headers)
            if isinstance(message, InventoryChunk):
                if (version := assembler.add(message)) is not None:
                    yield version[1]
            else:
                yield message
        except Reject:
            continue

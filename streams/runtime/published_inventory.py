"""Reads the version of the inventory that is in effect on Kafka."""

from streams.config.kafka import KafkaSettings
from streams.fabric.inventory import Inventory
from streams.runtime.topic_reader import read_to_end
from streams.wire.errors import Reject
from streams.wire.inventory_topic import Assembler, inventory_of
from streams.wire.models import InventoryChunk
from streams.wire.topics import INVENTORY, decode


async def inventory_in_effect(kafka: KafkaSettings, now_ns: int) -> Inventory | None:
    """Return the newest version that took effect until `now_ns`, None if there is none; raise Retry.

    A version that cannot be read is passed over, as the stages do.
    """
    assembler, newest = Assembler(), (-1, "", b"")
    async for record in read_to_end(kafka, INVENTORY):
        try:
            chunk = decode(INVENTORY, record.value, record.headers)
        except Reject:
            continue
        if isinstance(chunk, InventoryChunk) and newest[0] <= chunk.effective_ns <= now_ns:
            data = assembler.add_chunk(chunk)
            if data is not None:
                newest = chunk.effective_ns, chunk.digest, data
    _, digest, data = newest
    try:
        return inventory_of(digest, data) if data else None
    except Reject:
        return None

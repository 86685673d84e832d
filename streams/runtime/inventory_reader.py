"""Follows the inventory and the jobs for all stages of a process: both topics whole, from their beginning.

Outside of any consumer group, because every worker needs every version; what is in effect when is versions.py.
"""

import asyncio
import logging
from typing import Any

from streams.config.kafka import KafkaSettings
from streams.runtime.reading import AWAY, following
from streams.runtime.versions import Versions
from streams.wire import topics
from streams.wire.errors import Reject
from streams.wire.inventory_topic import Assembler
from streams.wire.models import InventoryChunk, Job
from streams.wire.topics import Topic

log = logging.getLogger(__name__)
_AGAIN_S = 0.5


class InventoryReader:
    """Fills `versions` as long as it runs."""

    def __init__(self, kafka: KafkaSettings, inventory: Topic = topics.INVENTORY, jobs: Topic = topics.JOBS) -> None:
        self.versions = Versions()
        self.first = asyncio.Event()
        """Set once there is a version."""
        self._kafka = kafka
        self._inventory = inventory
        self._jobs = jobs
        self._assembler = Assembler()

    async def run(self) -> None:
        """Read until cancelled; begins again where the brokers were away, which changes nothing that is known."""
        while True:
            try:
                async with following(self._kafka, (self._inventory.name, self._jobs.name)) as consumer:
                    while True:
                        for records in (await consumer.getmany(timeout_ms=500)).values():
                            for record in records:
                                self.take(record)
            except AWAY as error:
                log.warning("inventory: %s", error)
                await asyncio.sleep(_AGAIN_S)

    def take(self, record: Any) -> None:
        """One record of either topic; one that cannot be read is said once and passed over."""
        topic = self._inventory if record.topic == self._inventory.name else self._jobs
        key = (record.key or b"").decode(errors="replace")
        try:
            message = None if record.value is None else topics.decode(topic, record.value, record.headers)
            if isinstance(message, InventoryChunk):
                self._add(message)
            elif topic is self._jobs and (message is None or isinstance(message, Job)):
                self.versions.set_job(key, message)
        except Reject as error:
            log.warning("%s offset %d: %s", record.topic, record.offset, error)

    def _add(self, chunk: InventoryChunk) -> None:
        whole = self._assembler.add(chunk)
        if whole is None:
            return
        effective_ns, topology = whole
        known = self.versions.named(topology.digest)
        if known is None or known[0] != effective_ns:
            self.versions.add(effective_ns, topology)
        self.first.set()

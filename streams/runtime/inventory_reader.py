"""Reads the topics of the inventory and the jobs from their beginning, for all stages of a process.

It uses no consumer group, because every worker needs every version; inventory_versions.py selects the one in effect.
Building a version of the largest fabric takes seconds: a thread does it while the worker continues, after the topic was
read to its end, and only for the present and future versions.
"""

import asyncio
import functools
import gc
import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from streams.config.kafka import KafkaSettings
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.instrument.text import format_time
from streams.runtime.inventory_versions import Version, Versions
from streams.runtime.topic_io import open_at_beginning, read_to_end
from streams.wire import topics
from streams.wire.errors import Reject
from streams.wire.inventory_topic import Assembler, inventory_of, topology_of
from streams.wire.models import InventoryChunk, Job
from streams.wire.retry import Backoff, retry
from streams.wire.standalone_consumer import AWAY
from streams.wire.topics import INVENTORY, Topic, decode

log = logging.getLogger(__name__)
_RETRY = Backoff.constant(0.5)
_QUIET_MS = 200
"""After this time without a record, the topic is read to its end, and only the newest version needs to be built."""

DIGEST_CHARACTERS = 12
_WAIT_MS = 5000
"""The longest wait of a fetch; it ends with the first record, and this consumer never seeks."""


class InventoryReader:
    """Reads the topics and fills `versions`."""

    def __init__(self, kafka: KafkaSettings, inventory: Topic = topics.INVENTORY, jobs: Topic = topics.JOBS) -> None:
        self.versions = Versions()
        self.versions.positions = {inventory.name: 0, jobs.name: 0}
        self.first = asyncio.Event()
        """Set when the first version is available."""
        self._kafka = kafka
        self._inventory = inventory
        self._jobs = jobs
        self._assembler = Assembler()
        self._waiting: list[Version] = []

    async def run(self) -> None:
        """Read until cancelled; after an outage of the brokers, read from the beginning, which keeps known versions."""
        await retry(self._follow, AWAY, _RETRY, before_wait=lambda failure: log.warning("inventory: %s", failure.error))

    async def _follow(self, _: int) -> None:
        async with open_at_beginning(self._kafka, (self._inventory, self._jobs), _WAIT_MS) as consumer:
            while True:
                fetched = await consumer.getmany(timeout_ms=_QUIET_MS if self._waiting else 500)
                for records in fetched.values():
                    for record in records:
                        self.take(record)
                if all(partition.topic != self._inventory.name for partition in fetched):
                    await self.settle()
                    self.versions.positions = {at.topic: await consumer.position(at) for at in consumer.assignment()}

    def take(self, record: Any) -> None:
        """Process a record of either topic; log an unreadable one once and skip it."""
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
        if self.versions.holds(chunk.digest, chunk.effective_ns):
            return  # known already: the topic is being read from its beginning again
        data = self._assembler.add_chunk(chunk)
        if data is not None:
            make = functools.partial(topology_of, chunk.digest, data)
            self._waiting.append(Version(chunk.effective_ns, chunk.digest, make))

    async def settle(self, *, is_logged: bool = True) -> None:
        """Publish all versions that were read to the stages, after building the needed ones, which are logged."""
        fresh, self._waiting = self._waiting, []
        if not fresh:
            return
        needed = self.versions.needed(fresh, time.time_ns())
        broken = await asyncio.to_thread(_put_together, needed)
        for version in fresh:
            if version in broken:
                continue
            self.versions.put(version)
            if is_logged and version in needed:
                effective = format_time(version.effective_ns)
                log.info("inventory version=%s effective=%s", version.digest[:DIGEST_CHARACTERS], effective)
        self.versions.release_except(needed)
        if self.versions:
            self.first.set()


def _put_together(versions: Iterable[Version]) -> list[Version]:
    """Build the versions; return the unreadable ones, each logged once."""
    broken = []
    for version in versions:
        try:
            with _many_objects_made():
                version.acquire()
        except Reject as error:
            log.warning("%s", error)
            broken.append(version)
    return broken


@contextmanager
def _many_objects_made() -> Iterator[None]:
    """Exclude the objects that the block makes from garbage collection, during the block and afterwards.

    131,072 GPUs have 1.3 million objects: garbage collection took half of the time to build them, and each later full
    collection stopped the worker for 0.2 s (tests/bench/inventory_cost.py). Frozen objects are still freed when nothing
    refers to them; only cycles would stay, and an inventory has none.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was:
            gc.enable()


async def topology_in_effect(kafka: KafkaSettings, now_ns: int) -> Topology | None:
    """Return the inventory with the jobs at `now_ns`, or None without an inventory; raises Retry."""
    reader = InventoryReader(kafka)
    for topic in (INVENTORY, topics.JOBS):
        async for record in read_to_end(kafka, topic):
            reader.take(record)
    await reader.settle(is_logged=False)
    found = reader.versions.at(now_ns)
    return None if found is None else found[1]


async def inventory_in_effect(kafka: KafkaSettings, now_ns: int) -> Inventory | None:
    """Return the newest version that took effect until `now_ns`, or None without one; raises Retry.

    Skips an unreadable version, as the stages do.
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

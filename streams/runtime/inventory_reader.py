"""Follows the inventory and the jobs for all stages of a process: both topics whole, from their beginning.

Outside of any consumer group, because every worker needs every version; inventory_versions.py has the one in effect.
A version of the largest fabric takes seconds to put together: that is done in a thread while the worker goes on, once
the topic is read to its end, and only for the version in effect and those to come.
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
"""So long without more of the inventory is the end of the topic: what is older than the newest need not be made."""

DIGEST_CHARACTERS = 12


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
        self._waiting: list[Version] = []

    async def run(self) -> None:
        """Read until cancelled; begins again where the brokers were away, which changes nothing that is known."""
        await retry(self._follow, AWAY, _RETRY, before_wait=lambda failure: log.warning("inventory: %s", failure.error))

    async def _follow(self, _: int) -> None:
        async with open_at_beginning(self._kafka, (self._inventory, self._jobs)) as consumer:
            while True:
                fetched = await consumer.getmany(timeout_ms=_QUIET_MS if self._waiting else 500)
                for records in fetched.values():
                    for record in records:
                        self.take(record)
                if all(partition.topic != self._inventory.name for partition in fetched):
                    await self.settle()

    def take(self, record: Any) -> None:
        """One record of either topic; one that cannot be read is logged once and skipped."""
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
            return  # read again: the topic was read from its beginning once more
        data = self._assembler.add_chunk(chunk)
        if data is not None:
            make = functools.partial(topology_of, chunk.digest, data)
            self._waiting.append(Version(chunk.effective_ns, chunk.digest, make))

    async def settle(self) -> None:
        """All versions that were read become known, those that are needed put together before."""
        fresh, self._waiting = self._waiting, []
        if not fresh:
            return
        needed = self.versions.needed(fresh, time.time_ns())
        broken = await asyncio.to_thread(_put_together, needed)
        for version in fresh:
            if version in broken:
                continue
            self.versions.put(version)
            if version in needed:
                effective = format_time(version.effective_ns)
                log.info("inventory version=%s effective=%s", version.digest[:DIGEST_CHARACTERS], effective)
        self.versions.release_except(needed)
        if self.versions:
            self.first.set()


def _put_together(versions: Iterable[Version]) -> list[Version]:
    """Make them; return those that cannot be read, each logged once."""
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
    """Objects that stay are made without being looked through for garbage, then or later.

    Of 131,072 GPUs there are 1.3 million: half of the time that they take to make was the collector's, and each of its
    full rounds afterwards stopped the worker for 0.2 s (tests/bench/inventory_cost.py). What is frozen is freed as
    always where nothing refers to it any more; only cycles would stay, and an inventory has none.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was:
            gc.enable()


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

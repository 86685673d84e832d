"""Reads the input of the locality from Kafka: the inventory in effect, jobs, open findings, remediations, controls."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from streams.config.kafka import KafkaSettings
from streams.fabric.topology import Topology
from streams.locality.groups import Groups
from streams.locality.model import Knowledge, Locality
from streams.locality.params import READS
from streams.runtime.inventory_reader import InventoryReader
from streams.runtime.topic_io import read_to_end
from streams.wire.errors import Retry
from streams.wire.models import Control, Finding, Remediation
from streams.wire.standalone_consumer import CompactedTopic
from streams.wire.topics import CONTROLS, FINDINGS_OPEN, INVENTORY, JOBS, REMEDIATIONS_OPEN

_BY_NAME = {topic.name: topic for topic in READS}
_Model = TypeVar("_Model", Finding, Remediation, Control)


class LocalityFeed:
    """Collects the records of the topics; skips an unreadable record, as the stages do."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._inventory = InventoryReader(kafka)
        self._content = {topic: CompactedTopic(topic) for topic in (FINDINGS_OPEN, REMEDIATIONS_OPEN, CONTROLS)}
        self._groups: Groups | None = None
        self._fabric = ""

    def take(self, record: Any) -> None:
        """Add one record of any of the topics."""
        topic = _BY_NAME[record.topic]
        if topic in (INVENTORY, JOBS):
            self._inventory.take(record)
        else:
            self._content[topic].add(record)

    async def locality(self, now_ns: int) -> Locality | None:
        """Return the locality of the version in effect at `now_ns`, or None without an inventory."""
        await self._inventory.settle()
        found = self._inventory.versions.at(now_ns)
        if found is None:
            return None
        return await asyncio.to_thread(self._put_together, found[1], now_ns)

    def _put_together(self, topology: Topology, now_ns: int) -> Locality:
        """Return the locality, which takes up to a second for the largest fabric."""
        return Locality(self._groups_of(topology), self._knowledge(), now_ns)

    def _groups_of(self, topology: Topology) -> Groups:
        """Return the groups of a topology, computed once for topologies that differ only in their jobs."""
        if self._groups is None or self._fabric != topology.digest:
            self._groups, self._fabric = Groups(topology), topology.digest
        elif self._groups.topology is not topology:
            self._groups = self._groups.with_jobs_of(topology)
        return self._groups

    def _knowledge(self) -> Knowledge:
        return Knowledge(
            _messages(self._content[FINDINGS_OPEN], Finding),
            _messages(self._content[REMEDIATIONS_OPEN], Remediation),
            _messages(self._content[CONTROLS], Control),
        )


def _messages(content: CompactedTopic, model: type[_Model]) -> list[_Model]:
    return [message for message in content.newest.values() if isinstance(message, model)]


async def read_locality(kafka: KafkaSettings, now_ns: Callable[[], int]) -> Locality:
    """Return the present locality; raises Retry if Kafka does not answer or has no inventory."""
    feed = LocalityFeed(kafka)
    for topic in READS:
        async for record in read_to_end(kafka, topic):
            feed.take(record)
    found = await feed.locality(now_ns())
    if found is None:
        raise Retry(f"Kafka at {kafka.bootstrap} has no inventory; publish one with `railsight inventory apply DIR`")
    return found

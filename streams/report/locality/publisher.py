"""Publishes the place and the state of each host on the compacted topic, only where it changed.

Reads the topic at the start, so that a restart writes nothing that is there. Several instances write the same records,
because each record is a function of the topics that all of them read.
"""

import asyncio

from streams.config.kafka import KafkaSettings
from streams.locality.model import Locality
from streams.locality.published import host_localities
from streams.runtime.topic_io import publish, read_newest
from streams.wire.models import HostLocality
from streams.wire.topics import TOPOLOGY, encode, tombstone


class TopologyPublisher:
    """The content of the topic by host, and the writing of what changed."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._present: dict[str, HostLocality | None] = {}
        """None: the topic has a record that cannot be read."""

    async def read(self) -> None:
        """Read what the topic has; raises Retry where Kafka does not answer."""
        content = await read_newest(self._kafka, TOPOLOGY)
        readable = content.readable()
        for key in sorted(content.keys):
            message = readable.get(key)
            self._present[key.decode(errors="replace")] = message if isinstance(message, HostLocality) else None

    async def publish(self, locality: Locality) -> int:
        """Publish what changed; return the number of records. Raises Retry where Kafka does not answer."""
        wanted = await asyncio.to_thread(host_localities, locality)
        changed = [host for host, found in wanted.items() if self._present.get(host) != found]
        gone = [host for host in self._present if host not in wanted]
        records = [encode(TOPOLOGY, wanted[host]) for host in changed] + [tombstone(TOPOLOGY, host) for host in gone]
        if records:
            await publish(self._kafka, records)
        self._present = dict(wanted)
        return len(records)

"""Follows the topics, keeps the locality current, publishes changes, and wakes the waiting clients.

A thread builds a new state when the topics have no new records for a moment, at least once a second under a stream of
changes, and every `refresh_s` for ends of maintenance and jobs. No state is served before the topics were read to their
end at the start, because a fabric without its findings would appear healthy.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiokafka import TopicPartition

from streams.config.kafka import KafkaSettings
from streams.locality.answers import VersionAnswer
from streams.locality.fabric_state import Usability
from streams.locality.model import Locality, host_localities
from streams.locality.params import ACCESS, READS, LocalityParams
from streams.report.locality.reader import LocalityFeed
from streams.runtime.topic_io import open_at_beginning, publish, read_newest
from streams.wire.errors import Retry
from streams.wire.models import HostLocality
from streams.wire.retry import Backoff, Failure, retry
from streams.wire.standalone_consumer import AWAY, open_consumer
from streams.wire.topics import TOPOLOGY, encode, tombstone


class TopologyPublisher:
    """Publishes changes to the topic, and retains the topic's content by host."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._present: dict[str, HostLocality | None] = {}
        """Host -> its published record; None for an unreadable record."""

    async def read(self) -> None:
        """Read the content of the topic; raises Retry if Kafka does not answer."""
        content = await read_newest(self._kafka, TOPOLOGY)
        readable = content.readable()
        for key in sorted(content.keys):
            message = readable.get(key)
            self._present[key.decode(errors="replace")] = message if isinstance(message, HostLocality) else None

    async def publish(self, locality: Locality) -> int:
        """Publish the changes and return the number of records; raises Retry if Kafka does not answer."""
        wanted = await asyncio.to_thread(host_localities, locality)
        changed = [host for host, found in wanted.items() if self._present.get(host) != found]
        gone = [host for host in self._present if host not in wanted]
        records = [encode(TOPOLOGY, wanted[host]) for host in changed] + [tombstone(TOPOLOGY, host) for host in gone]
        if records:
            await publish(self._kafka, records)
        self._present = dict(wanted)
        return len(records)


log = logging.getLogger(__name__)

_QUIET_MS = 200
_AT_LEAST_S = 1.0
_RETRY = Backoff.constant(2.0)


@dataclass(frozen=True)
class Current:
    """One state of the locality; `exports` caches the texts that were made from it."""

    locality: Locality
    version: VersionAnswer
    exports: dict[tuple[str, str], str] = field(default_factory=dict)


class LocalityService:
    """The current locality of one cluster; `run` ends only by cancellation."""

    def __init__(
        self, kafka: KafkaSettings, params: LocalityParams, now_ns: Callable[[], int], now_s: Callable[[], float]
    ) -> None:
        self._kafka, self._params = kafka, params
        self._now_ns, self._now_s = now_ns, now_s
        self._changed = asyncio.Event()
        self._problem = "the topics are not read yet"
        self.current: Current | None = None
        self.waiting = 0
        """The number of clients that wait for a change."""

    def problem(self) -> str:
        """Return why there is no answer or no current one; empty without a problem."""
        return self._problem

    async def run(self) -> None:
        """Follow the topics; after an outage of the brokers, begin again, and serve the last state meanwhile."""
        await retry(self._follow, (*AWAY, Retry), _RETRY, before_wait=self._is_away)

    def _is_away(self, failure: Failure) -> None:
        problem = f"Kafka: {failure.error}"
        if problem != self._problem:
            log.warning("locality: %s", problem)
        self._problem = problem

    async def _follow(self, _: int) -> None:
        await self._require_topics()
        feed = LocalityFeed(self._kafka)
        publisher = TopologyPublisher(self._kafka) if self._params.publish else None
        if publisher is not None:
            await publisher.read()
        async with open_at_beginning(self._kafka, READS) as consumer:
            ends: dict[TopicPartition, int] = await consumer.end_offsets([TopicPartition(t.name, 0) for t in READS])
            is_new, made_s = True, self._now_s() - self._params.refresh_s
            while True:
                fetched = await consumer.getmany(timeout_ms=_QUIET_MS)
                for records in fetched.values():
                    for record in records:
                        feed.take(record)
                is_new |= bool(fetched)
                since_s = self._now_s() - made_s
                is_due = since_s >= self._params.refresh_s or (is_new and (not fetched or since_s >= _AT_LEAST_S))
                if is_due and await _has_reached(consumer, ends):
                    is_new, made_s, ends = False, self._now_s(), {}
                    await self._update(feed, publisher)

    async def _require_topics(self) -> None:
        """Raise Retry for a missing topic, because a consumer would wait for it forever."""
        async with open_consumer(self._kafka.client_options()) as consumer:
            missing = {topic.name for topic in ACCESS.reads} - await consumer.topics()
        if missing:
            raise Retry(f"Kafka lacks the topics {', '.join(sorted(missing))}: create them with `railsight topics`")

    async def _update(self, feed: LocalityFeed, publisher: TopologyPublisher | None) -> None:
        locality = await feed.locality(self._now_ns())
        if locality is None:
            self._problem = "Kafka has no inventory; publish one with `railsight inventory apply DIR`"
            return
        self._problem = ""
        version = await asyncio.to_thread(version_of, locality)
        if self.current is None or self.current.version.version != version.version:
            self.current = Current(locality, version)
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            if publisher is not None:
                await publisher.publish(locality)

    async def wait_for_change(self, version: str, wait_s: float) -> Current | None:
        """Wait until the version differs from `version`, at most `wait_s`, and return the present state."""
        changed = self._changed
        if wait_s > 0 and (self.current is None or self.current.version.version == version):
            self.waiting += 1
            try:
                await asyncio.wait_for(changed.wait(), wait_s)
            except TimeoutError:
                return self.current
            finally:
                self.waiting -= 1
        return self.current


async def _has_reached(consumer: Any, ends: dict[TopicPartition, int]) -> bool:
    return all([await consumer.position(partition) >= end for partition, end in ends.items()])


def version_of(locality: Locality) -> VersionAnswer:
    """Return the version: a digest of the inventory, the impairments, and the hosts with jobs."""
    state, groups = locality.state, locality.groups
    digest = hashlib.sha256(groups.topology.digest.encode())
    for impairment in state.impairments:
        digest.update(repr(tuple(impairment)).encode())
    for host, reason in sorted(locality.busy_hosts().items()):
        digest.update(f"{host}\0{reason}\0".encode())
    usability = state.usability[groups.hosts]
    return VersionAnswer(
        version=digest.hexdigest()[:24],
        inventory=groups.topology.digest,
        at_ns=locality.now_ns,
        hosts=len(usability),
        good_hosts=int((usability == Usability.GOOD).sum()),
    )

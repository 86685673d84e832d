"""Records whether this process owns the remediations, and lets a delivery end before it gives them up."""

import asyncio
from collections.abc import Iterable

from aiokafka import ConsumerRebalanceListener, TopicPartition

from streams.wire.topics import REMEDIATIONS

PARTITION = TopicPartition(REMEDIATIONS.name, 0)


class Ownership(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka is untyped
    """The result of the last election of the consumer group."""

    def __init__(self) -> None:
        self.is_owner = False
        self.takeover_pending = False
        self.election = 0
        """Counts assignments: what was read under another number is void."""
        self.delivering = asyncio.Lock()
        """Locked during a delivery and its commit, which are bounded by the timeout of requests."""

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.is_owner = False
        async with self.delivering:
            pass

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.election += 1
        self.is_owner = self.takeover_pending = PARTITION in set(assigned)

"""Which shards of the targets are this process's, by Kafka's own group protocol; nothing of ours coordinates.

A shard is a partition of `railsight.targets.v1`, and a target's is that of its name. The members of a group have the
partitions among them; the shards of one that dies are another's within the session time-out. Across a rebalance they
are read on, until it is known who has them.

A member that was paused may have lost its shards without knowing it. So membership is renewed by commits, which the
coordinator takes from members of the current generation only; what follows from their answers is membership.py's.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import CommitFailedError, KafkaError

from collectors.core.membership import Membership
from collectors.core.spec import Core
from streams.wire.errors import Misconfigured
from streams.wire.topics import TARGETS

_log = structlog.get_logger("railsight.shares")

_AGAIN_S = 1.0
_STOP_S = 5.0
"""To leave the group takes a Kafka that answers; one that does not will notice by itself."""
_RENEWALS = 6
"""In a session time-out: some may go astray."""

Assign = Callable[[frozenset[int]], None]


class ShardAssignment(ConsumerRebalanceListener):  # type: ignore[misc]
    """One member of one group. `assign` is told the shards, at each change."""

    def __init__(self, core: Core, group: str, session_s: float, assign: Assign) -> None:
        assert core.client_options is not None, "shares are Kafka's"
        self._options = dict(core.client_options)
        self._wanted = core.partitions.count(TARGETS)
        self._group = group
        self._session_s = session_s
        self._assign = assign
        self._member = Membership(session_s)
        self._told: frozenset[int] = frozenset()

    async def run(self) -> None:
        """Take part until cancelled; raises Misconfigured where the topic has another number of partitions."""
        while True:
            try:
                await self._participate()
            except (KafkaError, OSError) as error:
                _log.warning("no part in the group", group=self._group, why=f"{type(error).__name__}: {error}")
                await asyncio.sleep(_AGAIN_S)

    async def _participate(self) -> None:
        session_ms = int(self._session_s * 1000)
        consumer = AIOKafkaConsumer(
            **self._options,
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // _RENEWALS,
            max_poll_interval_ms=session_ms,  # who does not rejoin in time is left out: a rebalance waits no longer
            partition_assignment_strategy=(StickyPartitionAssignor,),  # what moves has to connect anew
        )
        try:
            await consumer.start()
            consumer.subscribe([TARGETS.name], listener=self)
            while True:
                await self._renew(consumer)
        finally:
            with contextlib.suppress(KafkaError, OSError, TimeoutError):
                await asyncio.wait_for(consumer.stop(), _STOP_S)

    def _check(self, consumer: AIOKafkaConsumer) -> None:
        """A target's shard is a promise to the other members."""
        found = len(consumer.partitions_for_topic(TARGETS.name) or ())
        if found not in (0, self._wanted):  # it may be made later
            raise Misconfigured(f"{TARGETS.name} has {found} partitions where {self._wanted} are configured")

    async def _renew(self, consumer: AIOKafkaConsumer) -> None:
        loop = asyncio.get_running_loop()
        renew_s = self._session_s / _RENEWALS
        await consumer.getmany(timeout_ms=int(renew_s * 1000))  # nothing is written there: it is the wait
        self._check(consumer)
        at_s = loop.time()
        self._member.on_wakeup(at_s)
        self._publish()
        try:
            async with asyncio.timeout(2 * renew_s):
                if held := consumer.assignment():
                    await consumer.commit(dict.fromkeys(held, 0))
            self._member.confirmed(at_s)
        except CommitFailedError:
            pass  # another generation: what this member has in it is told as it joins
        except (KafkaError, TimeoutError) as error:
            _log.debug("Kafka does not answer", group=self._group, why=str(error))
            self._member.unanswered(at_s)
        self._publish()

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Nothing yet: who has them next is not known."""

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Read these, and no others."""
        shards = frozenset(place.partition for place in assigned)
        _log.info("shards", group=self._group, owned=sorted(shards), of=self._wanted)
        self._member.assigned(shards, asyncio.get_running_loop().time())
        self._publish()

    def _publish(self) -> None:
        shards = self._member.shards
        if shards == self._told:
            return
        if self._member.may_have_lost_them:
            _log.warning("paused for longer than the session: reading stops until Kafka was asked", group=self._group)
        self._told = shards
        self._assign(shards)

"""Assigns the shards of the targets to processes by Kafka's group protocol, without a coordinator of railsight's own.

A shard is a partition of `railsight.targets.v1`; a target is in the partition of its name. The members of a group
divide the partitions; the shards of a member that dies pass to another within the session timeout. During a rebalance
a member continues to read its shards until the new assignment is known.

A paused member may lose its shards without notice. So each member renews its membership by commits, which the
coordinator accepts only from members of the current generation. Membership evaluates the answers.
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import CommitFailedError, KafkaError

from collectors.core.params import Core
from streams.wire.errors import Misconfigured
from streams.wire.kafka_clients import stop_client
from streams.wire.retry import Backoff, Failure, retry
from streams.wire.topics import TARGETS


class Membership:
    """Tracks the shards that a process may read: its assigned shards, unless it may have lost them. Pure.

    Times are from a clock that continues while the process is paused. A member that made no request for a session
    timeout was paused, and may have lost its shards: it reads none until Kafka has answered. A request without an
    answer removes no shard: a Kafka that does not answer cannot assign it to another member either.
    """

    def __init__(self, session_s: float) -> None:
        self._session_s = session_s
        self._owned: frozenset[int] = frozenset()
        self._requested_s = 0.0
        self.may_have_lost_them = False

    @property
    def shards(self) -> frozenset[int]:
        """The shards to read now."""
        return frozenset() if self.may_have_lost_them else self._owned

    def assigned(self, shards: frozenset[int], at_s: float) -> None:
        """Record a new assignment by the group."""
        self._owned = shards
        self.confirmed(at_s)

    def on_wakeup(self, at_s: float) -> None:
        """Check for a pause: the process may have been stopped for a long time."""
        if at_s - self._requested_s > self._session_s:
            self.may_have_lost_them = True

    def confirmed(self, at_s: float) -> None:
        """Record that Kafka confirmed the membership in answer to a request at that time."""
        self._requested_s, self.may_have_lost_them = at_s, False

    def unanswered(self, at_s: float) -> None:
        """Record a request at that time that Kafka has not answered."""
        if not self.may_have_lost_them:
            self._requested_s = at_s


_log = structlog.get_logger("railsight.shards")

_RETRY = Backoff.constant(1.0)
_RENEWALS = 6
"""Renewals per session timeout: more than one, because some may be lost."""

Assign = Callable[[frozenset[int]], None]


class ShardAssignment(ConsumerRebalanceListener):  # type: ignore[misc]
    """One member of one group. `assign` receives the shards at each change."""

    def __init__(self, core: Core, group: str, session_s: float, assign: Assign) -> None:
        assert core.client_options is not None, "a group needs the address of Kafka"
        self._options = dict(core.client_options)
        self._wanted = core.partitions.count(TARGETS)
        self._group = group
        self._session_s = session_s
        self._assign = assign
        self._member = Membership(session_s)
        self._published: frozenset[int] = frozenset()

    async def run(self) -> None:
        """Participate until cancelled; raises Misconfigured if the topic has another number of partitions."""

        def warn(failure: Failure) -> None:
            why = f"{type(failure.error).__name__}: {failure.error}"
            _log.warning("not in the group", group=self._group, why=why)

        await retry(self._participate, (KafkaError, OSError), _RETRY, before_wait=warn)

    async def _participate(self, _: int) -> None:
        session_ms = int(self._session_s * 1000)
        consumer = AIOKafkaConsumer(
            **self._options,
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // _RENEWALS,
            max_poll_interval_ms=session_ms,  # limits how long a rebalance waits for a member that does not rejoin
            partition_assignment_strategy=(StickyPartitionAssignor,),  # a target that moves must connect again
        )
        try:
            await consumer.start()
            consumer.subscribe([TARGETS.name], listener=self)
            while True:
                await self._renew(consumer)
        finally:
            # Leaving the group needs an answer from Kafka; without one, the session times out by itself.
            await stop_client(consumer)

    def _check(self, consumer: AIOKafkaConsumer) -> None:
        """Raise Misconfigured if the topic's partitions differ from the configured number, which all members share."""
        found = len(consumer.partitions_for_topic(TARGETS.name) or ())
        if found not in (0, self._wanted):  # 0: the topic may be created later
            raise Misconfigured(
                f"{TARGETS.name} has {found} partitions where {self._wanted} are configured;"
                " recreate the topic or change [partitions]"
            )

    async def _renew(self, consumer: AIOKafkaConsumer) -> None:
        loop = asyncio.get_running_loop()
        renew_s = self._session_s / _RENEWALS
        await consumer.getmany(timeout_ms=int(renew_s * 1000))  # waits for the interval: the topic has no records
        self._check(consumer)
        at_s = loop.time()
        self._member.on_wakeup(at_s)
        self._publish()
        try:
            async with asyncio.timeout(2 * renew_s):
                if assigned := consumer.assignment():
                    await consumer.commit(dict.fromkeys(assigned, 0))
            self._member.confirmed(at_s)
        except CommitFailedError:
            pass  # another generation: the member gets its assignment when it joins
        except (KafkaError, TimeoutError) as error:
            _log.debug("no answer from Kafka", group=self._group, why=str(error))
            self._member.unanswered(at_s)
        self._publish()

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Continue to read: the next owner is not known yet."""

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Read these shards, and no others."""
        shards = frozenset(partition.partition for partition in assigned)
        _log.info("shards assigned", group=self._group, shards=sorted(shards), of=self._wanted)
        self._member.assigned(shards, asyncio.get_running_loop().time())
        self._publish()

    def _publish(self) -> None:
        shards = self._member.shards
        if shards == self._published:
            return
        if self._member.may_have_lost_them:
            _log.warning("paused for longer than the session, reading stops until Kafka answers", group=self._group)
        self._published = shards
        self._assign(shards)

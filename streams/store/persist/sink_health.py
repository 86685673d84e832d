"""The health checks of a sink: what it owns, what it reads, and what ClickHouse acknowledges."""

from collections.abc import Mapping
from typing import Any, Protocol

from aiokafka import TopicPartition

from streams.health.health import Health
from streams.health.input_checks import Backlog, EndOffsets, Place
from streams.store.params import SinkParams
from streams.store.persist.partition_writer import PartitionWriter

_JOIN = "join"


class Storing(Protocol):
    """The state of a sink, as its checks need it."""

    @property
    def writers(self) -> Mapping[TopicPartition, PartitionWriter]:
        """Return the writers of the assigned partitions."""
        ...

    @property
    def is_joining(self) -> bool:
        """Return whether a rebalance of the group is under way."""
        ...


class SinkHealth:
    """Adds the checks of a sink to the health of its process; `run` asks the brokers for them."""

    def __init__(
        self, sink: Storing, options: Mapping[str, Any], params: SinkParams, health: Health, request_s: float
    ) -> None:
        """Take `request_s` as the longest time of a request to ClickHouse; an attempt to store makes three at most."""
        self._sink = sink
        self._undelivered_s = health.params.undelivered_s
        self._ends = EndOffsets(options, health, self._places)
        # The position moves when a block is full, or its first record has waited for the linger time.
        linger_s = max(params.linger_s, params.linger_max_s, params.linger_background_s)
        self._backlog = Backlog(health.params.stuck_s + linger_s, health.now_s)
        self._joining = Backlog(health.params.stuck_s, health.now_s)
        self._attempts = Backlog(health.params.stuck_s + 3 * request_s, health.now_s)
        health.live_while("input", self._stuck_input)
        health.live_while("group", self._stuck_rebalance)
        health.live_while("attempt", self._stuck_attempt)
        health.ready_while("brokers", self._ends.problem)
        health.ready_while("partitions", lambda: "" if self._sink.writers else "none is assigned")
        health.ready_while("state", self._unrestored_state)
        health.ready_while("clickhouse", self._unstored_block)

    async def run(self) -> None:
        """Ask the brokers for the ends of the inputs until cancelled."""
        await self._ends.run()

    def _places(self) -> list[Place]:
        return [(at.topic, at.partition) for at in self._sink.writers]

    def _stuck_input(self) -> str:
        problems, names = [], set()
        for at, writer in self._sink.writers.items():
            name = f"{at.topic}/{at.partition}"
            is_behind = (self._ends.end_of((at.topic, at.partition)) or 0) > writer.position
            is_waiting = is_behind and writer.is_restored and not writer.storing_s and not writer.is_compacted
            problems.append(self._backlog.problem(name, writer.position, is_waiting=is_waiting))
            names.add(name)
        self._backlog.retain(names)
        return next(filter(None, problems), "")

    def _stuck_rebalance(self) -> str:
        """Return the problem of a rebalance that does not end."""
        is_waiting = self._sink.is_joining and not self._ends.problem()
        stuck_s = self._joining.stuck_s(_JOIN, 0, is_waiting=is_waiting)
        return f"in a rebalance for {stuck_s:.0f} s" if stuck_s else ""

    def _stuck_attempt(self) -> str:
        """Return the partition whose start, or whose storing of a block, does not even fail."""
        problems, names = [], set()
        for at, writer in self._sink.writers.items():
            name = f"{at.topic}/{at.partition}"
            is_waiting = (not writer.is_restored or bool(writer.storing_s)) and not self._ends.problem()
            stuck_s = self._attempts.stuck_s(name, writer.attempts, is_waiting=is_waiting)
            what = "a block is not stored" if writer.is_restored else "is not restored"
            problems.append(f"{name}: {what} for {stuck_s:.0f} s, without an error" if stuck_s else "")
            names.add(name)
        self._attempts.retain(names)
        return next(filter(None, problems), "")

    def _unrestored_state(self) -> str:
        names = [f"{at.topic}/{at.partition}" for at, writer in self._sink.writers.items() if not writer.is_restored]
        return f"{names[0]} is not restored, and {len(names) - 1} others" if names else ""

    def _unstored_block(self) -> str:
        for at, writer in self._sink.writers.items():
            if (storing_s := writer.storing_s) > self._undelivered_s:
                return f"a block of {at.topic}/{at.partition} is not acknowledged for {storing_s:.0f} s"
        return ""

"""Checks that a process reads its inputs. Backlog detects an input without progress. EndOffsets asks the brokers for
the end offsets, separately from the consumers, because a consumer that does not fetch does not learn that records wait.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, Protocol

from aiokafka import TopicPartition

from streams.health.health import Health
from streams.wire.standalone_consumer import AWAY, open_consumer


class Backlog:
    """Measures for how long each input made no progress while records waited."""

    def __init__(self, stuck_s: float, now_s: Callable[[], float]) -> None:
        self._stuck_s = stuck_s
        self._now_s = now_s
        self._last: dict[str, tuple[int, float]] = {}

    def problem(self, name: str, position: int, *, is_waiting: bool) -> str:
        """Return the problem of an input; empty if it made progress within the limit or no record waits.

        `position` is any number that changes with each processed record. `is_waiting` is True if records wait and
        nothing outside the process prevents their processing.
        """
        stuck_s = self.stuck_s(name, position, is_waiting=is_waiting)
        return f"{name} processed no record for {stuck_s:.0f} s though records wait" if stuck_s else ""

    def stuck_s(self, name: str, position: int, *, is_waiting: bool) -> float:
        """Return for how long an input or a step of work made no progress; 0 within the limit."""
        now_s = self._now_s()
        known, since_s = self._last.get(name, (position, now_s))
        if not is_waiting or position != known:
            since_s = now_s
        self._last[name] = position, since_s
        stuck_s = now_s - since_s
        return stuck_s if stuck_s > self._stuck_s else 0.0

    def retain(self, names: Set[str]) -> None:
        """Discard all inputs but these; the others are now assigned to another process."""
        self._last = {name: last for name, last in self._last.items() if name in names}


Place = tuple[str, int]
"""A topic and the number of a partition."""


class EndOffsets:
    """The last known end offsets of these partitions, and whether the brokers answer."""

    def __init__(self, options: Mapping[str, Any], health: Health, wanted: Callable[[], Iterable[Place]]) -> None:
        """Take the arguments of an aiokafka client; `wanted` returns the partitions to ask for."""
        self._options = dict(options)
        self._params = health.params
        self._now_s = health.now_s
        self._wanted = wanted
        self._ends: dict[Place, int] = {}
        self._answered_s: float | None = None
        self._error = ""

    async def run(self) -> None:
        """Ask the brokers until cancelled."""
        while True:
            try:
                async with open_consumer(self._options) as consumer:
                    while True:
                        await self._ask(consumer)
                        await asyncio.sleep(self._params.probe_s)
            except AWAY as error:
                self._error = str(error) or type(error).__name__
            await asyncio.sleep(self._params.probe_s)

    async def _ask(self, consumer: Any) -> None:
        async with asyncio.timeout(self._params.undelivered_s):
            # Without a partition, any request shows that the brokers answer.
            places = [TopicPartition(*place) for place in self._wanted()]
            if places:
                ends = await consumer.end_offsets(places)
                self.answered({(place.topic, place.partition): end for place, end in ends.items()})
            else:
                await consumer.topics()
                self.answered(self._ends)

    def answered(self, ends: Mapping[Place, int]) -> None:
        """Store the end offsets that the brokers returned."""
        self._ends, self._answered_s, self._error = dict(ends), self._now_s(), ""

    def end_of(self, place: Place) -> int | None:
        """Return the offset after the last record; None without a recent answer of the brokers."""
        return None if self.problem() else self._ends.get(place)

    def problem(self) -> str:
        """Return the problem with the brokers; empty while they answer."""
        if self._answered_s is None:
            return f"no answer yet{self._error and ': '}{self._error}"
        since_s = self._now_s() - self._answered_s
        if since_s > self._params.probe_s + self._params.undelivered_s:
            return f"no answer for {since_s:.0f} s{self._error and ': '}{self._error}"
        return ""


class ReadingLoop(Protocol):
    """The interface of a reading loop for its health checks."""

    steps: int
    """Counts the steps of the loop; 0 until the first."""

    @property
    def positions(self) -> Mapping[Place, int]:
        """Return the next offset of each partition that it reads now; empty while it waits for something else."""
        ...


def add_consumer_checks(loop: ReadingLoop, kafka: Mapping[str, Any], health: Health, prefix: str = "") -> EndOffsets:
    """Add the checks, whose names begin with `prefix`, and return the EndOffsets, whose `run` must run beside the loop.

    Clients of Kafka wait for brokers without a limit, and a consumer that fetches nothing looks like one without
    records.
    """
    ends = EndOffsets(kafka, health, lambda: loop.positions)
    turns = Backlog(health.params.stuck_s, health.now_s)
    inputs = Backlog(health.params.stuck_s, health.now_s)

    def stuck_loop() -> str:
        return turns.problem("the loop", loop.steps, is_waiting=bool(loop.steps) and not ends.problem())

    def stuck_input() -> str:
        positions = {
            f"{topic}/{partition}": (at, topic, partition) for (topic, partition), at in loop.positions.items()
        }
        inputs.retain(positions.keys())
        problems = [
            inputs.problem(name, at, is_waiting=(ends.end_of((topic, partition)) or 0) > at)
            for name, (at, topic, partition) in positions.items()
        ]
        return next(filter(None, problems), "")

    health.live_while(f"{prefix}loop", stuck_loop)
    health.live_while(f"{prefix}input", stuck_input)
    return ends

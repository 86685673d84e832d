"""Asks the brokers for the ends of a process's inputs, beside the consumers that read them.

A consumer that does not fetch does not learn that records wait. This one has a connection of its own.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from streams.health.health import Health
from streams.wire.client_stop import stop_client

_AWAY = (KafkaError, OSError, TimeoutError)

Place = tuple[str, int]
"""A topic and a partition of it."""


class EndOffsets:
    """The last known ends of these partitions, and whether the brokers answer."""

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
        """Ask until cancelled."""
        while True:
            consumer = AIOKafkaConsumer(**self._options, enable_auto_commit=False)
            try:
                await consumer.start()
                while True:
                    await self._ask(consumer)
                    await asyncio.sleep(self._params.probe_s)
            except _AWAY as error:
                self._error = str(error) or type(error).__name__
            finally:
                await stop_client(consumer)
            await asyncio.sleep(self._params.probe_s)

    async def _ask(self, consumer: Any) -> None:
        async with asyncio.timeout(self._params.undelivered_s):
            # Without a partition, any request shows that the brokers answer.
            places = [TopicPartition(*place) for place in self._wanted()]
            if places:
                ends = await consumer.end_offsets(places)
                self._ends = {(place.topic, place.partition): end for place, end in ends.items()}
            else:
                await consumer.topics()
        self._answered_s, self._error = self._now_s(), ""

    def end_of(self, place: Place) -> int | None:
        """Return the offset behind the last record; None if the brokers did not answer lately."""
        return None if self.problem() else self._ends.get(place)

    def problem(self) -> str:
        """Return the problem with the brokers, empty while they answer."""
        if self._answered_s is None:
            return f"no answer yet{self._error and ': '}{self._error}"
        since_s = self._now_s() - self._answered_s
        if since_s > self._params.probe_s + self._params.undelivered_s:
            return f"no answer for {since_s:.0f} s{self._error and ': '}{self._error}"
        return ""

"""When the publisher sends next: samples and statuses a few times a second, everything else at once.

A batch costs a broker as much as some tens of messages do, however few it holds, and its readers as well. With one
producer for the largest fabric, the broker took 1.34 CPU s a million port-samples where it sent every 50 ms and 1.10
every 100 ms, the producer 0.99 and 0.82; side by side again, 1.28 every 100 ms and 1.14 every 250 ms, the producer
0.83 and 0.72 (tests/bench/broker_cost.py). Whoever reads samples gathers for half a second besides.
"""

import asyncio
from contextlib import suppress

from streams.wire.models import CollectorStatus, Samples
from streams.wire.topics import Record

EVERY_S = 0.25
_CAN_WAIT = (Samples, CollectorStatus)


class SendBatching:
    """Follows what is offered; `full` records are sent at once, whatever they are."""

    def __init__(self, full: int, every_s: float = EVERY_S) -> None:
        self._full = full
        self._every_s = every_s
        self._hurry = asyncio.Event()
        self._due_s = 0.0

    def offered(self, record: Record, waiting: int) -> None:
        """A record was offered, with which so many wait."""
        if record.topic.model not in _CAN_WAIT or waiting >= self._full:
            self._hurry.set()

    def hurry(self) -> None:
        """Somebody waits until all is sent."""
        self._hurry.set()

    async def turn(self, waiting: int) -> None:
        """Return when it is time to send: at once what is urgent, much, or the first after a while."""
        loop = asyncio.get_running_loop()
        if waiting < self._full and self._due_s > loop.time():
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._due_s):
                    await self._hurry.wait()
        self._hurry.clear()
        self._due_s = loop.time() + self._every_s

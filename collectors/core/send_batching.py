"""Decides when the publisher sends: samples and statuses a few times a second, all other records at once.

A batch costs a broker and its consumers as much as some tens of messages do, however few it holds. With one producer
for the largest fabric, the broker took 1.34 CPU s per million port-samples when it sent every 50 ms and 1.10 every
100 ms, the producer 0.99 and 0.82; measured again in pairs, 1.28 every 100 ms and 1.14 every 250 ms, the producer
0.83 and 0.72 (tests/bench/broker_cost.py). Consumers of samples gather for another half second.
"""

import asyncio
from contextlib import suppress

from streams.wire.models import CollectorStatus, Samples
from streams.wire.topics import Record

EVERY_S = 0.25
_CAN_WAIT = (Samples, CollectorStatus)


class SendBatching:
    """Tracks the offered records; `full` waiting records are sent at once, whatever they are."""

    def __init__(self, full: int, every_s: float = EVERY_S) -> None:
        self._full = full
        self._every_s = every_s
        self._send_now = asyncio.Event()
        self._due_s = 0.0

    def offered(self, record: Record, waiting: int) -> None:
        """Note an offered record and the number of records that now wait."""
        if record.topic.model not in _CAN_WAIT or waiting >= self._full:
            self._send_now.set()

    def send_now(self) -> None:
        """Send without delay: a caller waits until all is sent."""
        self._send_now.set()

    async def next_batch(self, waiting: int) -> None:
        """Return when the next batch is due: at once for urgent records or a full batch, else after the interval."""
        loop = asyncio.get_running_loop()
        if waiting < self._full and self._due_s > loop.time():
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._due_s):
                    await self._send_now.wait()
        self._send_now.clear()
        self._due_s = loop.time() + self._every_s

"""Lets senders wait until Kafka, or the spool, has what their requests became. Requests that wait share one flush."""

import asyncio
from collections.abc import Callable

from collectors.core.publisher import Publisher
from streams.wire.topics import Record

_FULL_S = 1.0
_INTERVAL_S = 0.02
"""The shortest interval of flushes. A batch costs a broker as much as some tens of messages (SendBatching)."""
_ANSWER_S = 3.0
"""The longest wait of a request: below the 5 s after which a Collector gives up, above the 2 s of the spool."""
_AFTER_S = 5.0


class Overload(Exception):
    """The sender must repeat its request after `after_s`."""

    http_status = 429

    def __init__(self, why: str, after_s: float) -> None:
        super().__init__(why)
        self.after_s = after_s


class Undelivered(Overload):
    """Kafka does not acknowledge what requests become."""

    http_status = 503


class Delivery:
    """The Publisher of all devices, and the flushes that requests wait for."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._refused = 0
        self._refused_s = self._began_s = float("-inf")
        self._is_flushing = False
        self._next = asyncio.Event()
        self._is_needed = asyncio.Event()

    def offer(self, record: Record, rows: int = 0) -> bool:
        """Pass a record on."""
        if accepted := self._publisher.offer(record, rows):
            return accepted
        self._refused += 1
        self._refused_s = asyncio.get_running_loop().time()
        return False

    async def settled(self) -> None:
        await self._publisher.settled()

    @property
    def refused(self) -> int:
        """The records that the publisher has refused."""
        return self._refused

    def check(self) -> None:
        """Raise Undelivered if a new request would get no answer in time: it is not read then."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._refused_s < _FULL_S:
            raise Undelivered("the collector cannot write to Kafka and its buffer is full", _AFTER_S)
        if self._is_flushing and now_s - self._began_s > _ANSWER_S:
            raise Undelivered(f"Kafka has acknowledged nothing for {now_s - self._began_s:.0f} s", _AFTER_S)

    async def wait(self, refused: int) -> None:
        """Return when all values that were added are delivered; raises Undelivered after a bound.

        `refused` is the value of that property before the first of them was added.
        """
        flush = self._next
        self._is_needed.set()
        try:
            async with asyncio.timeout(_ANSWER_S):
                await flush.wait()
        except TimeoutError:
            raise Undelivered(f"Kafka has not acknowledged the points in {_ANSWER_S:.0f} s", _AFTER_S) from None
        if self._refused != refused:
            raise Undelivered("the collector cannot write to Kafka and its buffer is full", _AFTER_S)

    async def run(self, publish: Callable[[], None]) -> None:
        """Flush while requests wait, until cancelled; `publish` offers the values of all devices."""
        loop = asyncio.get_running_loop()
        while True:
            await self._is_needed.wait()
            await asyncio.sleep(self._began_s + _INTERVAL_S - loop.time())
            self._is_needed.clear()
            flush, self._next = self._next, asyncio.Event()
            self._began_s, self._is_flushing = loop.time(), True
            publish()
            await self._publisher.settled()
            self._is_flushing = False
            flush.set()

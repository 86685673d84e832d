"""Prints the first reading of each target as lines of JSON, for `collect KIND --once --print`, without Kafka."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from collectors.core.context import CollectorContext
from collectors.core.tasks import cancel_and_wait
from streams.wire.errors import Retry
from streams.wire.models import CollectorStatus, Samples
from streams.wire.topics import COLLECTOR_STATUS, SAMPLES, Record, decode

GIVE_UP_S = 10.0
"""A device whose first attempt failed is retried for this long."""
_POLL_S = 0.2


class NullPublisher:
    """A Publisher that accepts and discards every record."""

    def offer(self, record: Record, rows: int = 0) -> bool:
        return True

    async def flushed(self) -> None:
        return

    async def failed(self) -> None:
        await asyncio.Event().wait()


class _FirstReadings:
    """A Publisher that queues the first samples of each device, records the errors of others, and discards the rest."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self.ready: asyncio.Queue[Samples] = asyncio.Queue()
        self.errors: dict[str, str] = {}
        """The last error of each unreachable device."""
        self.failed_s: dict[str, float] = {}
        """The time of each device's first error, by the loop's clock."""

    def offer(self, record: Record, rows: int = 0) -> bool:
        if record.topic is SAMPLES:
            samples = decode(SAMPLES, record.value, record.headers)
            assert isinstance(samples, Samples)
            if samples.device not in self._seen:
                self._seen.add(samples.device)
                self.ready.put_nowait(samples)
        elif record.topic is COLLECTOR_STATUS:
            status = decode(COLLECTOR_STATUS, record.value, record.headers)
            assert isinstance(status, CollectorStatus)
            if not status.reachable and status.error:
                self.errors[status.device] = status.error
                self.failed_s.setdefault(status.device, asyncio.get_running_loop().time())
        return True


async def first_readings(
    devices: Iterable[str],
    context: CollectorContext,
    collect: Callable[[CollectorContext], Awaitable[None]],
    bound_s: float,
    give_up_s: float = GIVE_UP_S,
) -> AsyncIterator[Samples]:
    """Yield one reading of every device as it arrives.

    Raises Retry with a line for each device without a reading in time, or within `give_up_s` of its first error.
    """
    wanted = set(devices)
    first = _FirstReadings()
    work = asyncio.ensure_future(collect(CollectorContext(first, context.collector)))
    now_s = asyncio.get_running_loop().time
    end_s = now_s() + bound_s
    try:
        while wanted:
            samples = await _next(first, work, _POLL_S)
            if samples is not None:
                wanted.discard(samples.device)
                yield samples
            elif now_s() >= min(end_s, max(first.failed_s.get(one, end_s) + give_up_s for one in wanted)):
                raise Retry("\n".join(
                    f"no reading of {one}: {first.errors.get(one, f'nothing received within {bound_s:g} s')}; "
                    "check its address and login" for one in sorted(wanted)
                ))  # fmt: skip
    finally:
        await cancel_and_wait(work)


async def _next(first: _FirstReadings, work: "asyncio.Future[None]", timeout_s: float) -> Samples | None:
    """Return the next first reading, None if none arrives in time; raises the error that ended the collector."""
    reading = asyncio.ensure_future(first.ready.get())
    waited_for: set[asyncio.Future[Any]] = {reading, work}
    try:
        await asyncio.wait(waited_for, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            return reading.result()
    finally:
        reading.cancel()
    if not work.done():
        return None
    work.result()
    raise RuntimeError("the collector ended before it was cancelled")

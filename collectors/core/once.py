"""Prints the first reading of each target as lines of JSON, for `collect KIND --once --print`, without Kafka."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from collectors.core.columns import json_lines
from collectors.core.context import CollectorContext
from collectors.core.process import Collect
from collectors.core.spec import Core
from collectors.core.tasks import cancel_and_wait
from streams.wire.errors import Retry
from streams.wire.models import Samples
from streams.wire.topics import SAMPLES, Record, decode


class NullPublisher:
    """A Publisher that accepts and discards every record."""

    def offer(self, record: Record, rows: int = 0) -> bool:
        return True


class _FirstReadings:
    """A Publisher that queues the first samples of each device and discards all else."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self.ready: asyncio.Queue[Samples] = asyncio.Queue()

    def offer(self, record: Record, rows: int = 0) -> bool:
        if record.topic is SAMPLES:
            samples = decode(SAMPLES, record.value, record.headers)
            assert isinstance(samples, Samples)
            if samples.device not in self._seen:
                self._seen.add(samples.device)
                self.ready.put_nowait(samples)
        return True


async def first_readings(devices: Iterable[str], core: Core, collect: Collect, bound_s: float) -> AsyncIterator[str]:
    """Yield one reading of every device as it arrives; raises Retry with the devices that gave none in time."""
    wanted = set(devices)
    first = _FirstReadings()
    work = asyncio.ensure_future(collect(CollectorContext(first, core.collector or "once")))
    try:
        async with asyncio.timeout(bound_s):
            while wanted:
                samples = await _next(first, work)
                wanted.discard(samples.device)
                for line in json_lines(samples):
                    yield line
    except TimeoutError as error:
        raise Retry(
            f"no reading within {bound_s:g} s of {', '.join(sorted(wanted))}; check their address and login"
        ) from error
    finally:
        await cancel_and_wait(work)


async def _next(first: _FirstReadings, work: "asyncio.Future[None]") -> Samples:
    """Return the next first reading; raises what ended the collector."""
    reading = asyncio.ensure_future(first.ready.get())
    waited_for: set[asyncio.Future[Any]] = {reading, work}
    try:
        await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            return reading.result()
    finally:
        reading.cancel()
    work.result()
    raise RuntimeError("the collector ended before it was cancelled")

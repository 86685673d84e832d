"""Prints the first reading of each target as lines of JSON, for `collect KIND --once --print`, without Kafka."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from collectors.core.context import CollectorContext
from collectors.core.tasks import cancel_and_wait
from streams.wire.errors import Retry
from streams.wire.models import CollectorStatus, Facts, Samples, Source
from streams.wire.topics import COLLECTOR_STATUS, FACTS, SAMPLES, Record, decode

GIVE_UP_S = 10.0
"""A device whose first attempt failed is retried for this long."""
_POLL_S = 0.2
_SETTLED_S = 2.0
"""The time without further facts after which those of all devices are complete (choice)."""


class NullPublisher:
    """A Publisher that accepts and discards every record."""

    def offer(self, record: Record, rows: int = 0) -> bool:
        return True

    async def settled(self) -> None:
        return

    async def flushed(self) -> None:
        return

    async def failed(self) -> None:
        await asyncio.Event().wait()


class _Attempts:
    """The errors of unreachable devices; the base of Publishers that wait for a device's first records."""

    def __init__(self) -> None:
        self.errors: dict[str, str] = {}
        """The last error of each unreachable device."""
        self.failed_s: dict[str, float] = {}
        """The time of each device's first error, by the loop's clock."""

    async def settled(self) -> None:
        return

    def note(self, record: Record) -> None:
        """Record the error of a status; ignore other records."""
        if record.topic is COLLECTOR_STATUS:
            status = decode(COLLECTOR_STATUS, record.value, record.headers)
            assert isinstance(status, CollectorStatus)
            if not status.reachable and status.error:
                self.errors[status.device] = status.error
                self.failed_s.setdefault(status.device, asyncio.get_running_loop().time())


class _FirstReadings(_Attempts):
    """A Publisher that queues the first samples of each device, records the errors of others, and discards the rest."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()
        self.ready: asyncio.Queue[Samples] = asyncio.Queue()

    def offer(self, record: Record, rows: int = 0) -> bool:
        if record.topic is SAMPLES:
            samples = decode(SAMPLES, record.value, record.headers)
            assert isinstance(samples, Samples)
            if samples.device not in self._seen:
                self._seen.add(samples.device)
                self.ready.put_nowait(samples)
        self.note(record)
        return True


class _FirstFacts(_Attempts):
    """A Publisher that records the newest facts of each device and the errors of others, and discards the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: dict[tuple[str, Source], Facts] = {}
        self.changed_s = 0.0
        """The time of the last facts, by the loop's clock."""

    def offer(self, record: Record, rows: int = 0) -> bool:
        if record.topic is FACTS:
            facts = decode(FACTS, record.value, record.headers)
            assert isinstance(facts, Facts)
            self.facts[facts.device, facts.source] = facts
            self.changed_s = asyncio.get_running_loop().time()
        self.note(record)
        return True

    def missing(self, devices: Iterable[str], after_s: float = 0.0) -> set[str]:
        """Return the devices without facts, except those whose first error is older than `after_s`."""
        given_up = {device for device, first_s in self.failed_s.items() if first_s < after_s}
        return set(devices) - {device for device, _ in self.facts} - given_up


async def first_facts(
    devices: Iterable[str],
    context: CollectorContext,
    collect: Callable[[CollectorContext], Awaitable[None]],
    bound_s: float,
) -> tuple[list[Facts], dict[str, str]]:
    """Return the facts that every device reports within `bound_s`, and the reason for each device without any.

    Facts of one device may come in several parts: the wait ends when all have reported and none came for a while.
    """
    wanted, found = set(devices), _FirstFacts()
    work = asyncio.ensure_future(collect(CollectorContext(found, context.collector)))
    now_s = asyncio.get_running_loop().time
    end_s = now_s() + bound_s
    try:
        while not work.done() and now_s() < end_s:
            if not found.missing(wanted, now_s() - GIVE_UP_S) and now_s() > found.changed_s + _SETTLED_S:
                break
            await asyncio.wait({work}, timeout=_POLL_S)
        if work.done():
            work.result()
    finally:
        await cancel_and_wait(work)
    silent = {one: found.errors.get(one, f"no answer within {bound_s:g} s") for one in sorted(found.missing(wanted))}
    return list(found.facts.values()), silent


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

"""The times at which a publisher sends: samples are batched; urgent records, full batches and the first are not."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from collectors.core.publisher import SendBatching
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, SAMPLES, Record, Topic
from tests.fakes import loop

FULL, SEND_INTERVAL_S = 100, 0.25


def of(topic: Topic) -> Record:
    return Record(topic, b"leaf1", b"value")


async def at_s(turn: Coroutine[Any, Any, None]) -> float:
    """Return the time of the next batch, in virtual seconds."""
    await turn
    return asyncio.get_running_loop().time()


async def after_the_first() -> SendBatching:
    """Return a SendBatching whose first batch was just sent."""
    batching = SendBatching(FULL, SEND_INTERVAL_S)
    batching.offered(of(SAMPLES), 1)
    assert await at_s(batching.next_batch(1)) == 0.0
    return batching


def test_samples_and_statuses_gather_after_the_first() -> None:
    """The first record is sent at once, the following ones together after the interval."""

    async def work() -> None:
        batching = await after_the_first()
        batching.offered(of(SAMPLES), 1)
        batching.offered(of(COLLECTOR_STATUS), 2)
        assert await at_s(batching.next_batch(2)) == SEND_INTERVAL_S
        batching.offered(of(SAMPLES), 1)
        assert await at_s(batching.next_batch(1)) == 2 * SEND_INTERVAL_S

    loop.run(work())


def test_the_first_record_after_a_pause_is_sent_at_once() -> None:
    """A collector that reads one device per second does not wait for others."""

    async def work() -> None:
        batching = await after_the_first()
        await asyncio.sleep(1.0)
        batching.offered(of(SAMPLES), 1)
        assert await at_s(batching.next_batch(1)) == 1.0

    loop.run(work())


def test_an_event_is_sent_at_once_with_the_records_before_it() -> None:
    """A waiting batch is sent with the event, and the next one waits again."""

    async def work() -> None:
        batching = await after_the_first()
        batching.offered(of(SAMPLES), 1)
        asyncio.get_running_loop().call_later(0.1, batching.offered, of(EVENTS), 2)
        assert await at_s(batching.next_batch(1)) == 0.1
        batching.offered(of(SAMPLES), 1)
        assert await at_s(batching.next_batch(1)) == 0.1 + SEND_INTERVAL_S

    loop.run(work())


def test_a_full_window_is_sent_at_once() -> None:
    """A backlog is sent at full speed, and so is a window that fills while it waits."""

    async def work() -> None:
        batching = await after_the_first()
        assert await at_s(batching.next_batch(FULL)) == 0.0
        asyncio.get_running_loop().call_later(0.1, batching.offered, of(SAMPLES), FULL)
        assert await at_s(batching.next_batch(1)) == 0.1

    loop.run(work())


def test_a_flush_does_not_wait_for_the_next_batch() -> None:
    """A publisher that is closed or flushed does not batch any more."""

    async def work() -> None:
        batching = await after_the_first()
        batching.send_now()
        assert await at_s(batching.next_batch(1)) == 0.0

    loop.run(work())

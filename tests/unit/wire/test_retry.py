"""Tests the shared retry policy: waits, errors, deadline and cancellation, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from streams.wire.errors import Reject, Retry
from streams.wire.retry import JITTER, Backoff, Failure, retry
from tests.fakes import loop

Act = Callable[[int], Awaitable[Any]]


def _failing(times: int, error: type[Exception] = Retry) -> tuple[list[int], Act]:
    attempts: list[int] = []

    async def act(attempt: int) -> str:
        attempts.append(attempt)
        if attempt < times:
            raise error("unavailable")
        return "done"

    return attempts, act


def test_waits_double_up_to_the_longest() -> None:
    """Each wait has a jitter of at most a tenth of the first wait, and `act` gets the number of the attempt."""
    attempts, act = _failing(6)
    failures: list[Failure] = []
    assert loop.run(retry(act, Retry, Backoff(1.0, 8.0), before_wait=failures.append)) == "done"
    assert attempts == list(range(7))
    assert [failure.attempts for failure in failures] == [1, 2, 3, 4, 5, 6]
    for failure, wait_s in zip(failures, (1, 2, 4, 8, 8, 8), strict=True):
        assert wait_s <= failure.wait_s <= min(wait_s + JITTER, 8.0)


def test_a_constant_wait_does_not_grow() -> None:
    """Every wait is the first one plus its jitter."""
    _, act = _failing(5)
    failures: list[Failure] = []
    loop.run(retry(act, Retry, Backoff.constant(2.0), before_wait=failures.append))
    assert all(2.0 <= failure.wait_s <= 2.0 * (1 + JITTER) for failure in failures)


def test_other_errors_are_raised_at_once() -> None:
    """Only the named errors are retried."""
    attempts, act = _failing(3, Reject)
    with pytest.raises(Reject):
        loop.run(retry(act, Retry, Backoff(1.0, 1.0)))
    assert attempts == [0]


def test_the_first_error_after_the_deadline_is_raised() -> None:
    """With a deadline of zero there is one attempt."""
    attempts, act = _failing(3)
    with pytest.raises(Retry, match="unavailable"):
        loop.run(retry(act, Retry, Backoff(0.1, 0.1), within_s=0.0))
    assert attempts == [0]


def test_cancellation_ends_the_retries() -> None:
    """A cancelled task is not retried, neither while it acts nor while it waits."""

    async def cancelled(act: Act) -> bool:
        task = asyncio.ensure_future(retry(act, Retry, Backoff(60.0, 60.0)))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    async def endless(_: int) -> None:
        await asyncio.Event().wait()

    assert loop.run(cancelled(endless))
    assert loop.run(cancelled(_failing(9)[1]))

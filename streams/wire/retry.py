"""Retries a coroutine on named errors, with exponential backoff and jitter; collectors and stages share this policy.

Tenacity counts attempts and waits. Each room chooses the errors, the waits and the log line. A loop whose waits depend
on more than the number of failures (an order of sends, a deadline, a quota) has its own code.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_delay, stop_never
from tenacity.wait import wait_exponential_jitter

Answer = TypeVar("Answer")

JITTER = 0.1
"""The random addition to each wait, as a share of the first wait, so that clients that failed together retry apart."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The waits between attempts: they double from the first to the longest, and are constant if both are equal."""

    initial_s: float
    max_s: float

    @classmethod
    def constant(cls, wait_s: float) -> "Backoff":
        """Return a policy that waits the same time, plus jitter, after each failure."""
        return cls(wait_s, wait_s * (1 + JITTER))


class Failure(NamedTuple):
    """A failed attempt that will be retried; `attempts` counts from 1."""

    attempts: int
    error: BaseException
    wait_s: float


async def retry(
    act: Callable[[int], Awaitable[Answer]],
    on: type[BaseException] | tuple[type[BaseException], ...],
    backoff: Backoff,
    *,
    within_s: float | None = None,
    before_wait: Callable[[Failure], None] | None = None,
) -> Answer:
    """Await `act(attempt)`, counted from 0, until it raises none of the errors `on`; return its result.

    Every other error is raised at once, and so is the first error after `within_s`; without it, retries forever.
    """

    def report(state: RetryCallState) -> None:
        if before_wait is not None and state.outcome is not None and state.next_action is not None:
            error = state.outcome.exception()
            assert error is not None
            before_wait(Failure(state.attempt_number, error, state.next_action.sleep))

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(on),
        wait=wait_exponential_jitter(
            multiplier=backoff.initial_s, max=backoff.max_s, jitter=backoff.initial_s * JITTER
        ),
        stop=stop_never if within_s is None else stop_after_delay(within_s),
        before_sleep=report,
        reraise=True,
    )
    async for attempt in retrying:
        with attempt:
            return await act(attempt.retry_state.attempt_number - 1)
    raise AssertionError("retrying ends by a result or an error")

"""Retries calls to Kafka and ClickHouse until they succeed, with backoff and an occasional warning."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from streams.store.params import SinkParams
from streams.wire.errors import Retry
from streams.wire.retry import Backoff, Failure, retry

Answer = TypeVar("Answer")
_LOG_EVERY = 6
"""Attempts per warning: about one a minute at the longest wait."""

_log = structlog.get_logger("railsight.persist")


async def retry_forever(params: SinkParams, operation: str, act: Callable[[int], Awaitable[Answer]]) -> Answer:
    """Await `act(attempt)` until it raises no Retry; attempts count from 0."""

    def warn(failure: Failure) -> None:
        if failure.attempts % _LOG_EVERY == 1:
            _log.warning("retrying", operation=operation, attempts=failure.attempts, error=str(failure.error))

    return await retry(act, Retry, Backoff(params.retry_backoff_s, params.retry_backoff_max_s), before_wait=warn)

"""Trying again while the far side is away: longer and longer, up to a bound, saying so now and then."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from streams.store.params import SinkParams
from streams.wire.errors import Retry

Answer = TypeVar("Answer")
_SAY_EVERY = 6
"""Of the tries, after the first: about once a minute at the longest wait."""

_log = structlog.get_logger("railsight.persist")


async def retry_forever(params: SinkParams, what: str, act: Callable[[int], Awaitable[Answer]]) -> Answer:
    """Call `act(try)` until it raises no Retry; the tries count from 0."""
    wait, attempt = params.retry_backoff_s, 0
    while True:
        try:
            answer = act(attempt)
            return await answer if inspect.isawaitable(answer) else answer
        except Retry as error:
            if attempt % _SAY_EVERY == 0:
                _log.warning("the far side is away; nothing is lost", what=what, tries=attempt + 1, error=str(error))
            await asyncio.sleep(wait)
            wait, attempt = min(wait * 2, params.retry_backoff_max_s), attempt + 1

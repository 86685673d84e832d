"""Runs something in the foreground until a person or a supervisor ends it; ending it is never left half-done."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

Result = TypeVar("Result")

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def foreground(stop: Callable[[], None]) -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP end the block quietly; `stop`, which is bounded, runs however it ends."""
    for number in _STOPS:
        signal.signal(number, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        # A second Ctrl-C must not leave something half-stopped.
        for number in _STOPS:
            signal.signal(number, signal.SIG_IGN)
        stop()


async def until_signalled(work: Coroutine[Any, Any, Result], beside: Coroutine[Any, Any, None]) -> Result | None:
    """What the work answers, None where a signal ended it; `beside` goes on as long as it does.

    Of errors that came in a group, raises the one that ended the others.
    """
    loop = asyncio.get_running_loop()
    doing = asyncio.ensure_future(work)
    for number in _STOPS:
        loop.add_signal_handler(number, doing.cancel)
    telling = asyncio.ensure_future(beside)
    try:
        return await doing
    except asyncio.CancelledError:
        return None
    except ExceptionGroup as group:
        raise _first(group) from group
    finally:
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling


def _first(group: "ExceptionGroup[Exception]") -> Exception:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt

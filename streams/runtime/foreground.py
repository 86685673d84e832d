"""Runs work in the foreground until it ends or a signal stops it; stopping always completes."""

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

Result = TypeVar("Result")

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended, as shells report it."""
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def foreground(stop: Callable[[], None]) -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP end the block without an error; `stop`, which is bounded, always runs."""
    for number in _STOP_SIGNALS:
        signal.signal(number, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        _ignore_stop_signals()
        stop()


def run_and_stop(
    work: Coroutine[Any, Any, Result],
    background: Coroutine[Any, Any, None] | None,
    stop: Callable[[], None],
    *,
    restore_signals: bool = False,
) -> Result | None:
    """Run `work` in a new event loop and then `stop`, which is bounded; return None when a signal ended the work.

    The stop signals stay ignored afterwards unless `restore_signals`, so that cleaning up is not interrupted either.
    """
    handlers = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
    try:
        return asyncio.run(run_until_signalled(work, background))
    finally:
        _ignore_stop_signals()
        stop()
        if restore_signals:
            for number, handler in handlers.items():
                signal.signal(number, handler)


async def run_until_signalled(
    work: Coroutine[Any, Any, Result], background: Coroutine[Any, Any, None] | None = None
) -> Result | None:
    """Return the result of the work, None when a signal ended it; `background` runs as long as the work.

    Of errors in a group, raises the first.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    beside = None if background is None else asyncio.ensure_future(background)
    try:
        return await task
    except asyncio.CancelledError:
        return None
    except ExceptionGroup as group:
        raise _first(group) from group
    finally:
        if beside is not None:
            beside.cancel()
            with suppress(asyncio.CancelledError):
                await beside


def _first(group: "ExceptionGroup[Exception]") -> Exception:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _ignore_stop_signals() -> None:
    """Ignore the stop signals, so that a second Ctrl-C does not leave something half-stopped."""
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


class WallClock:
    """The clock of the machine."""

    def now_ns(self) -> int:
        """Unix time in nanoseconds."""
        return time.time_ns()

"""Runs work in the foreground until it ends or a signal stops it; the stop always completes."""

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

Result = TypeVar("Result")

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, as in shells."""
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def foreground(stop: Callable[[], None]) -> Iterator[None]:
    """End the block without an error on SIGINT, SIGTERM and SIGHUP; always run `stop`, which is bounded in time."""
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
    """Run `work` in a new event loop and then `stop` (bounded in time); return None if a signal ended the work.

    Without `restore_signals`, the stop signals stay ignored afterwards, so that they do not interrupt the cleanup.
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
    """Return the result of the work, or None if a signal ended it; `background` runs as long as the work.

    Raises the first error of a group.
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

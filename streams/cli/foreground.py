"""Runs something in the foreground until a person or a supervisor ends it; ending it is never left half-done."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt

"""Keeps the log readable while the brokers are away: clients and Faust then log the same 120 lines a second."""

import logging
import time
from collections.abc import Callable

# Faust logs under the name of the module that its app's class is from.
_LIBRARIES = ("aiokafka", "faust", "mode", "kafka", "streams.runtime.chunk_consumer")
_AGAIN_S = 10.0
_FORGET_AT = 1000


class RepeatFilter(logging.Filter):
    """Lets a message of a library through once in ten seconds, whatever its arguments are."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._next: dict[tuple[str, int, str], float] = {}

    @property
    def known(self) -> int:
        """The number of messages that it remembers."""
        return len(self._next)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record."""
        if not record.name.startswith(_LIBRARIES):
            return True
        # Faust formats some of its messages itself: what differs then is behind the first words.
        key = record.name, record.levelno, str(record.msg)[:40]
        now = self._now_s()
        if now < self._next.get(key, 0.0):
            return False
        if len(self._next) > _FORGET_AT:
            self._next.clear()
        self._next[key] = now + _AGAIN_S
        return True


def install(handlers: list[logging.Handler] | None = None) -> None:
    """Filter what these handlers, or those of the root logger, write; libraries log from WARNING on."""
    repeat_filter = RepeatFilter()
    for handler in logging.getLogger().handlers if handlers is None else handlers:
        handler.addFilter(repeat_filter)
    for library in _LIBRARIES:
        logging.getLogger(library).setLevel(logging.WARNING)

"""Keeps on disk where a process stands: how far it read the kernel log, which ports it told to be shut. I/O only.

That counts only once all events before it are kept: killed before that, a process repeats a few rather than lose one.
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import orjson
import structlog

_log = structlog.get_logger("railsight.host")

Position = TypeVar("Position")


class LogPositions(Generic[Position]):
    """One file of what orjson writes; `parse` makes of it what it was, or None where it makes no sense."""

    def __init__(self, path: Path, parse: Callable[[Any], Position | None]) -> None:
        self._path = path
        self._parse = parse
        self._waiting: deque[tuple[int, Position]] = deque()
        self._known: Position | None = None
        self._written: Position | None = None
        self._has_warned = False

    def load(self) -> Position | None:
        """What an earlier process kept; None where there is nothing, or nothing that can be read."""
        try:
            return self._parse(orjson.loads(self._path.read_bytes()))
        except (OSError, ValueError):
            return None

    def note(self, events: int, position: Position) -> None:
        """It stands there, with so many events handed over by then since the process began."""
        if self._waiting and self._waiting[-1][0] == events:
            self._waiting.pop()
        self._waiting.append((events, position))

    def save(self, settled: int) -> None:
        """Write the last one of which all events, `settled` since the process began, are kept or refused."""
        while self._waiting and self._waiting[0][0] <= settled:
            self._known = self._waiting.popleft()[1]
        if self._known is None or self._known == self._written:
            return
        fresh = self._path.with_name(self._path.name + ".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_bytes(orjson.dumps(self._known))
            fresh.replace(self._path)
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                _log.warning("a restart will not know what was told before it", why=str(error))
            return
        self._written = self._known

"""Stores the positions of a process on disk: its place in the kernel log, the ports reported as shut. I/O only.

A position is valid once all events before it are acknowledged: after a kill, a few events repeat and none is lost.
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
    """One file written by orjson; `parse` validates its content, or returns None."""

    def __init__(self, path: Path, parse: Callable[[Any], Position | None]) -> None:
        self._path = path
        self._parse = parse
        self._waiting: deque[tuple[int, Position]] = deque()
        self._known: Position | None = None
        self._written: Position | None = None
        self._has_warned = False

    def load(self) -> Position | None:
        """Return the position of an earlier process; None without a readable one."""
        try:
            return self._parse(orjson.loads(self._path.read_bytes()))
        except (OSError, ValueError):
            return None

    def note(self, events: int, position: Position) -> None:
        """Note a position, and the number of events handed to the publisher by then."""
        if self._waiting and self._waiting[-1][0] == events:
            self._waiting.pop()
        self._waiting.append((events, position))

    def save(self, settled: int) -> None:
        """Store the last position whose events are all among the `settled` ones of this process."""
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
                _log.warning("a restart will not know what was reported before it", why=str(error))
            return
        self._written = self._known

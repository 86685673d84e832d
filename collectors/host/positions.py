"""Keeps on disk how far the kernel log was read and its events kept. I/O only.

A place counts only once all events before it are: killed before that, a process repeats a few rather than lose one.
"""

from collections import deque
from pathlib import Path

import orjson
import structlog

from collectors.host.logs import Place, place_of

_log = structlog.get_logger("railsight.host")


class Positions:
    """One file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: deque[tuple[int, Place]] = deque()
        self._known: Place | None = None
        self._written: Place | None = None
        self._has_warned = False

    def load(self) -> Place | None:
        """What an earlier process kept; None where there is nothing, or nothing that can be read."""
        try:
            return place_of(orjson.loads(self._path.read_bytes()))
        except (OSError, ValueError):
            return None

    def note(self, events: int, place: Place) -> None:
        """The log has been read to `place`, with so many events handed over by then since the process began."""
        if self._waiting and self._waiting[-1][0] == events:
            self._waiting.pop()
        self._waiting.append((events, place))

    def save(self, settled: int) -> None:
        """Write the last place of which all events, `settled` since the process began, are kept or refused."""
        while self._waiting and self._waiting[0][0] <= settled:
            self._known = self._waiting.popleft()[1]
        if self._known is None or self._known == self._written:
            return
        fresh = self._path.with_name(self._path.name + ".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_bytes(orjson.dumps(self._known.as_json()))
            fresh.replace(self._path)
        except OSError as error:
            if not self._has_warned:
                self._has_warned = True
                _log.warning("a restart will not know how far the kernel log was read", why=str(error))
            return
        self._written = self._known

"""Follows files of lines that a relay writes, through rotation, from the stored positions on."""

import asyncio
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from collectors.core.context import CollectorContext
from collectors.host.event_listener import LogPositions, Tally
from collectors.host.log_file import LogFile
from collectors.host.log_sources import place_of
from collectors.syslog.device import Arrival
from collectors.syslog.params import Params
from collectors.syslog.receiver import Receiver
from streams.wire.topics import EVENTS

_log = structlog.get_logger("railsight.syslog")

_MOST_LINES = 1000
"""Limit of lines of a file per read; other inputs are read meanwhile."""
_SAVE_EVERY_S = 2.0

Positions = dict[str, Any]


def _positions(state: Any) -> Positions | None:
    """Parse stored positions, by the path of the file."""
    return state if isinstance(state, dict) and all(place_of(one) is not None for one in state.values()) else None


class Files:
    """The files of one process."""

    def __init__(
        self, paths: tuple[Path, ...], params: Params, receiver: Receiver, context: CollectorContext, tally: Tally
    ) -> None:
        self._receiver, self._context, self._tally = receiver, context, tally
        self._poll_s = params.poll_s
        self._positions = LogPositions(params.state_path(), _positions)
        known = (self._positions.load() or {}) if paths else {}
        self._files = {str(path): LogFile(path, place_of(known.get(str(path)))) for path in paths}
        self._is_live = dict.fromkeys(self._files, False)
        self._problems = dict.fromkeys(self._files, "")
        self._saved_s = 0.0
        for path, file in self._files.items():
            context.health.ready_while(path, partial(getattr, file, "problem"))

    async def run(self) -> None:
        """Read until cancelled; return at once without files."""
        loop = asyncio.get_running_loop()
        while self._files:
            is_drained = True
            for path, file in self._files.items():
                is_drained &= self._read(path, file, loop.time())
            if loop.time() - self._saved_s >= _SAVE_EVERY_S:
                self._saved_s = loop.time()
                self.note()
                self.save()
            await asyncio.sleep(self._poll_s if is_drained else 0)

    def _read(self, path: str, file: LogFile, now_s: float) -> bool:
        """Read new lines; return True if the file is drained."""
        chunk = file.read(_MOST_LINES)
        metrics = self._context.metrics
        if chunk.gaps or chunk.refused:
            metrics.add("out_of_bounds", path, chunk.gaps)
            metrics.add("unreadable", path, chunk.refused)
        arrival = Arrival(path, self._context.clock.now_ns(), now_s, self._is_live[path])
        for line in chunk.lines:
            self._receiver.receive(line, None, arrival)
        self._is_live[path] = chunk.is_drained
        if file.problem != self._problems[path]:
            self._problems[path] = file.problem
            if file.problem:
                _log.warning("file not read", why=file.problem)
            else:
                _log.info("file is read", path=path)
        return chunk.is_drained

    def note(self) -> None:
        """Record the positions, unless an event of a line that was read waits."""
        if self._files and not self._receiver.waits:
            places = {path: asdict(file.place()) for path, file in self._files.items()}
            self._positions.note(self._tally.events, places)

    def save(self) -> None:
        """Store the recorded positions whose events are in Kafka or the spool."""
        self._positions.save(self._context.metrics.value("settled", EVENTS.name))

    def close(self) -> None:
        """Close the files, after the delayed events were sent."""
        self.note()
        for file in self._files.values():
            file.close()

"""Reads many ports in a thread beside the event loop, so that a hanging port affects no other.

A driver may block a reader for as long as its firmware sleeps. One thread reads all ports, one after the other. If it
makes no progress within the deadline, its card is skipped until it returns, and another thread reads the rest.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from collectors.core.tasks import in_thread
from collectors.kernel.ports import Port

Result = TypeVar("Result")
Read_co = TypeVar("Read_co", covariant=True)


class Reader(Protocol[Read_co]):
    """Reads one port."""

    port: Port

    def read(self) -> Read_co:
        """Return one reading; may block with the driver."""
        ...


class PollRounds(Generic[Result]):
    """Runs the polling rounds of one host."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._hung: set[str] = set()

    @property
    def hung(self) -> frozenset[str]:
        """The cards on which a thread is still blocked."""
        return frozenset(self._hung)

    async def read(self, readers: Iterable[Reader[Result]]) -> dict[str, Result]:
        """Return one reading of each responding port, by identity."""
        waiting = deque(reader for reader in readers if reader.port.card not in self._hung)
        found: dict[str, Result] = {}
        while waiting:
            worker = _Worker(waiting, found)
            if not await worker.finished(self._deadline_s):
                card = worker.abandon(self._hung)
                waiting = deque(reader for reader in waiting if reader.port.card != card)
        return dict(found)


class _Worker(Generic[Result]):
    """One thread that reads the waiting ports."""

    def __init__(self, waiting: "deque[Reader[Result]]", found: dict[str, Result]) -> None:
        self._waiting = waiting
        self._found = found
        self._lock = threading.Lock()
        self._on = ""
        self._left_to: set[str] | None = None
        self._read = 0
        self._done = in_thread(self._work, "railsight-nic")

    async def finished(self, deadline_s: float) -> bool:
        """Wait until it has finished; return False if it made no progress within the deadline."""
        while True:
            before = self._read
            ended, _ = await asyncio.wait({self._done}, timeout=deadline_s)
            if ended:
                self._done.result()
                return True
            if self._read == before:
                return False

    def abandon(self, hung: set[str]) -> str:
        """Abandon the thread, and return the card that blocks it; `hung` has the card until the thread has finished."""
        with self._lock:
            self._left_to = hung
            if self._on:
                hung.add(self._on)
            return self._on

    def _work(self) -> None:
        while (reader := self._next()) is not None:
            self._store(reader, reader.read())

    def _next(self) -> Reader[Result] | None:
        with self._lock:
            if self._left_to is not None or not self._waiting:
                return None
            reader = self._waiting.popleft()
            self._on = reader.port.card
            return reader

    def _store(self, reader: Reader[Result], reading: Result) -> None:
        """Store a reading; a reading of an abandoned thread is dropped."""
        with self._lock:
            if self._left_to is not None:
                self._left_to.discard(self._on)
            else:
                self._found[reader.port.identity] = reading
                self._read += 1
            self._on = ""

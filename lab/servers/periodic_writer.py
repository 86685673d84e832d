"""Writes the state of the simulated world to files at intervals."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from lab.world.demo_world import DemoWorld
from streams.instrument.clock import Clock


class PeriodicWriter(ABC):
    """Writes files of all hosts of the world below `folder`, every `every_s`, while it is entered."""

    def __init__(self, world: DemoWorld, clock: Clock, folder: Path, every_s: float) -> None:
        self._world = world
        self._clock = clock
        self._folder = folder
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of the world."""
        return self._world.hosts

    @abstractmethod
    def write(self, at_ns: int) -> None:
        """Write what is due at this moment."""

    def prepare(self) -> None:
        """Write what must be there before the first interval."""
        self.write(self._clock.now_ns())

    async def __aenter__(self) -> Self:
        self.prepare()
        self._task = asyncio.create_task(self._write_periodically())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _write_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            self.write(self._clock.now_ns())

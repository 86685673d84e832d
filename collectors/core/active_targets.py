"""Which targets are read now: those that are configured, as far as their shards are ours; one task for each.

A target that comes is read, one that goes or changed is left first. Where nobody shares, all shards are ours.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Generic, TypeVar

from collectors.core.tasks import cancel_and_wait
from streams.wire.topics import partition_of

Target = TypeVar("Target")


class ActiveTargets(Generic[Target]):
    """One for a process; its targets have names, and are equal where nothing about them changed."""

    def __init__(self, shards: int | None = None) -> None:
        """`shards` is how many there are; None where all are ours."""
        self._shards = shards
        self._owned: frozenset[int] = frozenset()
        self._configured: Mapping[str, Target] = {}
        self._changed = asyncio.Event()
        self._reading: dict[str, tuple[Target, asyncio.Task[None]]] = {}

    def configure(self, targets: Mapping[str, Target]) -> None:
        """All targets, whoever reads them."""
        self._configured = dict(targets)
        self._changed.set()

    def assign(self, owned: frozenset[int]) -> None:
        """The shards that are ours."""
        if owned != self._owned:
            self._owned = owned
            self._changed.set()

    @property
    def selected(self) -> dict[str, Target]:
        """What is to be read."""
        if self._shards is None:
            return dict(self._configured)
        return {
            name: target for name, target in self._configured.items() if partition_of(name, self._shards) in self._owned
        }

    async def run(self, read: Callable[[Target], Coroutine[Any, Any, None]]) -> None:
        """Read each until cancelled; raises what a reading raises."""
        try:
            while True:
                self._changed.clear()
                await self._follow(read)
                await self._until_changed()
        finally:
            await cancel_and_wait(*(task for _, task in self._reading.values()))
            self._reading = {}

    async def _follow(self, read: Callable[[Target], Coroutine[Any, Any, None]]) -> None:
        wanted = self.selected
        left = {name: task for name, (target, task) in self._reading.items() if wanted.get(name) != target}
        await cancel_and_wait(*left.values())
        for name in left:
            del self._reading[name]
        for name in wanted.keys() - self._reading.keys():
            self._reading[name] = wanted[name], asyncio.create_task(read(wanted[name]), name=name)

    async def _until_changed(self) -> None:
        changed = asyncio.ensure_future(self._changed.wait())
        waited_for: set[asyncio.Future[Any]] = {changed, *(task for _, task in self._reading.values())}
        try:
            ended, _ = await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        for task in ended:
            task.result()
        for task in ended - {changed}:
            raise RuntimeError(f"{task!r} ended, which reads for ever")

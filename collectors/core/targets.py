"""Reads the configured targets of one process, or its assigned shards, in one task per target, with reloads."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Generic, TypeVar

from collectors.core.context import CollectorContext
from collectors.core.params import TargetParams
from collectors.core.reload import reloads
from collectors.core.shard_assignment import ShardAssignment
from collectors.core.spec import GROUP_PREFIX
from collectors.core.tasks import cancel_and_wait
from streams.wire.topics import TARGETS, partition_of

Params = TypeVar("Params", bound=TargetParams)
Target = TypeVar("Target")


class ActiveTargets(Generic[Target]):
    """The targets of a process by name; two targets compare equal if all their settings are equal."""

    def __init__(self, shards: int | None = None, on_removed: Callable[[str], None] = lambda _: None) -> None:
        """Create it with the number of shards; None if all are assigned to this process.

        `on_removed` receives the name of each target that is no longer read.
        """
        self._shards = shards
        self._on_removed = on_removed
        self._owned: frozenset[int] = frozenset()
        self._configured: Mapping[str, Target] = {}
        self._changed = asyncio.Event()
        self._reading: dict[str, tuple[Target, asyncio.Task[None]]] = {}

    def configure(self, targets: Mapping[str, Target]) -> None:
        """Set all configured targets, also those that other processes read."""
        self._configured = dict(targets)
        self._changed.set()

    def assign(self, owned: frozenset[int]) -> None:
        """Set the shards that are assigned to this process."""
        if owned != self._owned:
            self._owned = owned
            self._changed.set()

    @property
    def selected(self) -> dict[str, Target]:
        """The targets to read now."""
        if self._shards is None:
            return dict(self._configured)
        return {
            name: target for name, target in self._configured.items() if partition_of(name, self._shards) in self._owned
        }

    @property
    def count(self) -> int:
        """The number of targets that are read now."""
        return len(self._reading)

    async def run(self, read: Callable[[Target], Coroutine[Any, Any, None]]) -> None:
        """Read each target until cancelled; raises the error of a reading."""
        try:
            while True:
                self._changed.clear()
                await self._apply(read)
                await self._until_changed()
        finally:
            await cancel_and_wait(*(task for _, task in self._reading.values()))
            self._reading = {}

    async def _apply(self, read: Callable[[Target], Coroutine[Any, Any, None]]) -> None:
        selected = self.selected
        removed = {name: task for name, (target, task) in self._reading.items() if selected.get(name) != target}
        await cancel_and_wait(*removed.values())
        for name in removed:
            del self._reading[name]
            if name not in selected:
                self._on_removed(name)
        for name in selected.keys() - self._reading.keys():
            self._reading[name] = selected[name], asyncio.create_task(read(selected[name]), name=name)

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
            raise RuntimeError(f"{task!r} ended before it was cancelled")


async def read_targets(
    kind: str,
    params: Params,
    context: CollectorContext,
    targets: Callable[[Params], Mapping[str, Target]],
    read: Callable[[Target], Coroutine[Any, Any, None]],
) -> None:
    """Run `read` for each of `targets(params)` until cancelled.

    `targets` returns the targets by name, each with all settings that affect its reading: a target that compares
    unequal after a reload is stopped and started again. `targets` raises Misconfigured, at the start and at a reload.
    """
    core = context.core
    is_shared = bool(params.share_group) and core.client_options is not None
    active = ActiveTargets[Target](core.partitions.count(TARGETS) if is_shared else None, context.end)
    active.configure(targets(params))
    context.health.ready_while("targets", lambda: "" if active.count else "none is assigned to this process")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(active.run(read))
        tasks.create_task(reloads(params, core, context.metrics, lambda changed: active.configure(targets(changed))))
        if is_shared:
            group = f"{GROUP_PREFIX}{kind}.{params.share_group}"
            tasks.create_task(ShardAssignment(core, group, params.share_session_s, active.assign).run())

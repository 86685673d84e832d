"""Reads the configured targets of one process: all of them, or its assigned shards, with reloads. Wiring only."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from collectors.core.access import GROUP_PREFIX
from collectors.core.active_targets import ActiveTargets
from collectors.core.context import CollectorContext
from collectors.core.params import TargetParams
from collectors.core.reload import reloads
from collectors.core.shard_assignment import ShardAssignment
from streams.wire.topics import TARGETS

Params = TypeVar("Params", bound=TargetParams)
Target = TypeVar("Target")


async def read_targets(
    kind: str,
    params: Params,
    context: CollectorContext,
    targets: Callable[[Params], Mapping[str, Target]],
    read: Callable[[Target], Coroutine[Any, Any, None]],
) -> None:
    """Run `read` for each of `targets(params)` until cancelled.

    `targets` returns them by name, each with all settings that affect its reading: one that compares unequal after a
    reload is stopped and started again. It raises Misconfigured, at the start and at a reload.
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

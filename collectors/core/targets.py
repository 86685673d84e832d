"""Many targets in one process: all of them, or this process's share, as the configuration has them now. Wiring only."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

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
    means: CollectorContext,
    targets: Callable[[Params], Mapping[str, Target]],
    read: Callable[[Target], Coroutine[Any, Any, None]],
) -> None:
    """Run `read` for each of `targets(params)` until cancelled.

    `targets` gives them by name, each with all that decides how it is read: one that compares unequal after a reload
    is left and read anew. It raises Misconfigured, at the start and at a reload.
    """
    core = means.core
    is_shared = bool(params.share_group) and core.client_options is not None
    roster = ActiveTargets[Target](core.partitions.count(TARGETS) if is_shared else None)
    roster.configure(targets(params))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(roster.run(read))
        tasks.create_task(reloads(params, core, means.counts, lambda fresh: roster.configure(targets(fresh))))
        if is_shared:
            group = f"railsight.collect.{kind}.{params.share_group}"
            tasks.create_task(ShardAssignment(core, group, params.share_session_s, roster.assign).run())

"""Reads the inventory for collectors that recognize devices by it, and applies its changes."""

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from collectors.core.metrics import CollectorMetrics
from collectors.core.params import InventoryParams
from streams.fabric.inventory import InvalidInventory, Inventory, read_folder
from streams.fabric.inventory_folder import table_files
from streams.wire.errors import Misconfigured

_log = structlog.get_logger("railsight.collect")


def read_inventory(kind: str, params: InventoryParams) -> Inventory | None:
    """Return the inventory, None if none is configured; raises Misconfigured for an invalid folder."""
    if params.inventory is None:
        return None
    try:
        return read_folder(params.inventory)
    except InvalidInventory as error:
        raise Misconfigured(f"collect.{kind}: inventory {params.inventory}: {error}") from error


async def apply_changes(params: InventoryParams, metrics: CollectorMetrics, apply: Callable[[], None]) -> None:
    """Call `apply` when a table has changed, until cancelled; it raises Misconfigured to refuse the change."""
    stamp = _stamp(params)
    while True:
        await asyncio.sleep(params.inventory_check_s)
        if (fresh := _stamp(params)) == stamp:
            continue
        stamp = fresh
        try:
            apply()
        except Misconfigured as error:
            metrics.add("reload_refused")
            _log.error("new inventory refused, the old one stays in force", why=str(error))


def _stamp(params: InventoryParams) -> tuple[tuple[str, int], ...]:
    with contextlib.suppress(OSError):
        if params.inventory is not None:
            return tuple((str(path), path.stat().st_mtime_ns) for path in table_files(params.inventory))
    return ()

"""Prints what a running pipeline is blind to: once all collectors had time for a first reading, then each change."""

import asyncio
import time
from collections.abc import Callable

from streams.config.settings import Settings
from streams.fabric.inventory import Inventory
from streams.report.source_status import SourceRow, SourceState, blind_lines, read_statuses, source_rows
from streams.runtime.inventory_reader import inventory_in_effect
from streams.wire.errors import Misconfigured, Retry

FIRST_S = 20.0
"""Longer than the first attempt of any collector: SNMP reports no answer after 6 s (3 tries of 2 s)."""
EVERY_S = 30.0
_RETRY_S = 2.0
"""Between two looks at first readings that are not due yet."""


async def watch_blindness(
    settings: Callable[[], Settings | None],
    print_line: Callable[[str], None],
    cadence_s: float,
) -> None:
    """Print until cancelled; `settings` returns None while the servers start.

    `cadence_s` is the longest cadence of the collectors.
    """
    while (found := settings()) is None:  # noqa: ASYNC110 — another process sets no event
        await asyncio.sleep(1.0)
    begin_s = time.monotonic()
    printed: frozenset[str] | None = None
    while True:
        try:
            now_ns = time.time_ns()
            inventory = await inventory_in_effect(found.kafka, now_ns)
            rows = source_rows(await read_statuses(found.kafka), inventory, now_ns)
        except (Retry, Misconfigured):
            # The brokers are away or restarting, which the supervisor and the parts' logs report.
            await asyncio.sleep(EVERY_S)
            continue
        if printed is None and not are_due(rows, inventory, time.monotonic() - begin_s, cadence_s):
            await asyncio.sleep(_RETRY_S)
            continue
        lines = list(blind_lines(rows, inventory))
        for line in changes(printed, lines, rows):
            print_line(line)
        printed = frozenset(lines)
        await asyncio.sleep(EVERY_S)


def are_due(rows: list[SourceRow], inventory: Inventory | None, waited_s: float, cadence_s: float) -> bool:
    """Return whether all targets had time for a first reading: collectors spread them over their cadence."""
    if rows and inventory is not None and all(row.state is SourceState.UP for row in rows):
        return True
    return waited_s >= FIRST_S + cadence_s


def changes(printed: frozenset[str] | None, lines: list[str], rows: list[SourceRow]) -> list[str]:
    """Return the lines to print: those that are new, and how much is read whenever something changed."""
    if printed is not None and printed == frozenset(lines):
        return []
    up = sum(row.state is SourceState.UP for row in rows)
    expected = sum(row.state is not SourceState.ENDED for row in rows)
    summary = f"reading {up} of {expected} sources; `railsight status` lists them"
    return [*(f"blind: {line}" for line in lines if printed is None or line not in printed), summary]

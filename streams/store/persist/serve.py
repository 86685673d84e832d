"""Runs a sink as a process: waits until the tables are up to date, stores until a signal, and stops in order."""

import asyncio
import gc
import signal
from collections.abc import Mapping
from typing import Any

from streams.instrument.pages import retain_malloc_pages
from streams.store.clickhouse import ClickHouse
from streams.store.migrate import pending_migrations, shipped_migrations
from streams.store.params import SinkParams, StoreParams
from streams.store.persist.retry import retry_forever
from streams.store.persist.sink import Sink
from streams.wire.errors import Misconfigured
from streams.wire.event_loop import new_loop

_GC_THRESHOLDS = (100_000, 50, 100)
"""Blocks have 300,000 waiting objects at the largest fabric, without cycles: with the interpreter's defaults the
garbage collector scans all of them repeatedly (reading and building 8 blocks: 1.00 to 1.19 CPU seconds a million rows,
0.86 to 1.12 with these; three runs of each in turn)."""


async def serve(store: StoreParams, options: Mapping[str, Any], params: SinkParams) -> None:
    """Run one sink until SIGINT or SIGTERM; raises Misconfigured where a migration is pending."""
    retain_malloc_pages()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    clickhouse = ClickHouse(store)
    try:
        ready = asyncio.create_task(_wait_for_tables(clickhouse, params))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({ready, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not ready.done():
            ready.cancel()
            return
        ready.result()
        await Sink(clickhouse, options, params).run(stop)
    finally:
        clickhouse.close()


async def _wait_for_tables(clickhouse: ClickHouse, params: SinkParams) -> None:
    """Return once ClickHouse responds and has every table."""
    migrations = shipped_migrations()
    pending = await retry_forever(
        params, "ClickHouse", lambda _: asyncio.to_thread(pending_migrations, clickhouse, migrations)
    )
    if pending:
        names = ", ".join(migration.name for migration in pending)
        raise Misconfigured(f"ClickHouse lacks migrations {names}: run `railsight migrate`")


def run(store: StoreParams, options: Mapping[str, Any], params: SinkParams) -> None:
    """Run `serve` on an event loop of its own, uvloop where it is installed."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve(store, options, params))

"""A sink as a process: waits for tables that are up to date, stores until a signal, and ends in order."""

import asyncio
import gc
import signal
from collections.abc import Mapping
from typing import Any

from streams.instrument.pages import keep_pages
from streams.store.clickhouse import ClickHouse
from streams.store.migrate import pending_migrations, shipped_migrations
from streams.store.params import SinkParams, StoreParams
from streams.store.persist.retry import retry_forever
from streams.store.persist.sink import Sink
from streams.wire.errors import Misconfigured
from streams.wire.loops import new_loop

_GARBAGE_AFTER = (100_000, 50, 100)
"""Messages wait in blocks, 300,000 objects of them at the largest fabric, and hold no cycles: by the interpreter's own
thresholds the collector goes through all of them again and again (reading and building 8 blocks: 1.00 to 1.19 CPU
seconds a million rows, 0.86 to 1.12 with these; three runs of each in turn)."""


async def serve(store: StoreParams, options: Mapping[str, Any], params: SinkParams) -> None:
    """Run one sink until SIGINT or SIGTERM; raises Misconfigured where a migration has not been applied."""
    keep_pages()
    gc.freeze()
    gc.set_threshold(*_GARBAGE_AFTER)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    clickhouse = ClickHouse(store)
    try:
        ready = asyncio.create_task(_tables(clickhouse, params))
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


async def _tables(clickhouse: ClickHouse, params: SinkParams) -> None:
    """Return once ClickHouse answers and has every table."""
    todo = await retry_forever(
        params, "ClickHouse", lambda _: asyncio.to_thread(pending_migrations, clickhouse, shipped_migrations())
    )
    if todo:
        names = ", ".join(migration.name for migration in todo)
        raise Misconfigured(f"ClickHouse lacks {names}: run `railsight migrate`")


def run(store: StoreParams, options: Mapping[str, Any], params: SinkParams) -> None:
    """`serve` as the process's own loop: uvloop where it is there."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve(store, options, params))

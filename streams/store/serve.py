"""A sink as a process: waits for tables that are up to date, stores until a signal, and ends in order."""

import asyncio
import signal
from collections.abc import Mapping
from typing import Any

from streams.store.clickhouse import ClickHouse
from streams.store.migrate import pending, shipped
from streams.store.params import SinkParams, StoreParams
from streams.store.patience import until_done
from streams.store.sink import Sink
from streams.wire.errors import Misconfigured


async def serve(store: StoreParams, options: Mapping[str, Any], params: SinkParams) -> None:
    """Run one sink until SIGINT or SIGTERM; raises Misconfigured where a migration has not been applied."""
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
    todo = await until_done(params, "ClickHouse", lambda _: asyncio.to_thread(pending, clickhouse, shipped()))
    if todo:
        names = ", ".join(migration.name for migration in todo)
        raise Misconfigured(f"ClickHouse lacks {names}: run `railsight migrate`")

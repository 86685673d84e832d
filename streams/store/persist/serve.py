"""Runs a sink as a process: waits until the tables are up to date, stores until a signal, and stops gracefully."""

import asyncio
import gc
import signal
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from streams.health.health import Health
from streams.health.partition_checks import Group, PartitionChecks, Wording
from streams.health.status_server import stop_of, supervised
from streams.instrument.memory import retain_malloc_pages
from streams.instrument.metrics import Metrics
from streams.store.clickhouse import ClickHouse
from streams.store.migrate import pending_migrations, shipped_migrations
from streams.store.params import SinkParams, StoreParams
from streams.store.persist.partition_offsets import retry_forever
from streams.store.persist.sink import Sink
from streams.wire.errors import Misconfigured
from streams.wire.event_loop import new_loop, unless_stopped

if TYPE_CHECKING:
    from streams.wire.identity import MacVerifier

_GC_THRESHOLDS = (100_000, 50, 100)
"""Blocks have 300,000 waiting objects at the largest fabric, without cycles, which the garbage collector scans
repeatedly with the interpreter's defaults (reading and building 8 blocks: 1.00 to 1.19 CPU seconds per million rows,
with these values 0.86 to 1.12; three runs of each in turn)."""


_STOP_WITHIN_S = 2.0
"""The limit of a stop, which takes some 0.1 s while Kafka answers."""


def configure_process() -> None:
    """Configure malloc and the garbage collector for blocks of hundreds of thousands of rows."""
    retain_malloc_pages()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


async def serve(
    store: StoreParams,
    options: Mapping[str, Any],
    params: SinkParams,
    health: Health,
    metrics: Metrics,
    verifier: "MacVerifier | None" = None,
    instance: str | None = None,
) -> None:
    """Run one sink until SIGINT or SIGTERM; raises Misconfigured if a migration is pending."""
    configure_process()
    stop = asyncio.Event()

    def on_signal() -> None:
        stop_of(health)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    async with supervised(health):
        with closing(ClickHouse(store)) as clickhouse:
            if not await unless_stopped(stop, _wait_for_tables(clickhouse, params)):
                return
            sink = Sink(clickhouse, options, params, metrics=metrics, verifier=verifier, instance=instance)
            asking = asyncio.create_task(sink_checks(sink, options, params, health, store.timeout_s).run())
            health.started()
            try:
                await _run(sink, stop)
            finally:
                asking.cancel()


def sink_checks(
    sink: Sink, options: Mapping[str, Any], params: SinkParams, health: Health, request_s: float
) -> PartitionChecks:
    """Add the checks of a sink; an attempt to store makes three requests at most, of up to `request_s`."""
    return PartitionChecks(
        options,
        health,
        lambda: {f"{at.topic}/{at.partition}": writer for at, writer in sink.writers.items()},
        lambda: [Group("", 0, sink.is_joining)],
        lambda: "" if sink.writers else "none is assigned",
        Wording(
            "{name}: is not restored for {s:.0f} s, without an error",
            "{name}: a block is not stored for {s:.0f} s, without an error",
            "a block of {name} is not acknowledged for {s:.0f} s",
            output="clickhouse",
        ),
        # The position advances when a block is full or its first record has waited for the linger time.
        input_s=max(params.linger_s, params.linger_max_s, params.linger_background_s),
        attempt_s=3 * request_s,
    )


async def _run(sink: Sink, stop: asyncio.Event) -> None:
    """Run a sink; cancel it if it does not end within the limit after `stop`, because Kafka is unavailable.

    Nothing is lost, because the next sink stores the uncommitted records again.
    """
    running, stopped = asyncio.create_task(sink.run(stop)), asyncio.create_task(stop.wait())
    await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    await asyncio.wait({running}, timeout=_STOP_WITHIN_S)
    if not running.done():
        running.cancel()
        await asyncio.wait({running}, timeout=_STOP_WITHIN_S)
    elif not (stop.is_set() and running.cancelled()):  # aiokafka's `stop` raises CancelledError without brokers
        running.result()


async def _wait_for_tables(clickhouse: ClickHouse, params: SinkParams) -> None:
    """Wait until ClickHouse responds and has every table."""
    migrations = shipped_migrations()
    pending = await retry_forever(
        params, "ClickHouse", lambda _: asyncio.to_thread(pending_migrations, clickhouse, migrations)
    )
    if pending:
        names = ", ".join(migration.name for migration in pending)
        raise Misconfigured(f"ClickHouse lacks migrations {names}: run `railsight migrate`")


def run(
    store: StoreParams,
    options: Mapping[str, Any],
    params: SinkParams,
    health: Health,
    metrics: Metrics,
    verifier: "MacVerifier | None" = None,
    instance: str | None = None,
) -> None:
    """Run `serve` on a new event loop, uvloop if it is installed."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve(store, options, params, health, metrics, verifier, instance))

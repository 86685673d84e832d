"""Runs a collector's process: its publisher and self-metrics, and the failure that ends it."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics
from collectors.core.publisher import KafkaPublisher
from collectors.core.serving import serve_metrics
from collectors.core.spec import Core
from streams.health.health import Health
from streams.health.supervision import stop_of, supervised
from streams.wire.errors import Misconfigured

Collect = Callable[[CollectorContext], Awaitable[None]]


async def collect_to_kafka(kind: str, core: Core, collect: Collect) -> None:
    """Run `collect` until cancelled, or until it or the publisher fails; raises the first failure, Misconfigured too.

    The publisher sends the remaining records at the end, in bounded time.
    """
    if core.client_options is None:
        raise Misconfigured(f"collect {kind}: Kafka's address is not set; set kafka.bootstrap")
    metrics = CollectorMetrics()
    core = replace(core, collector=core.collector or f"{kind}@{socket.gethostname()}")
    health = Health(core.health, time.monotonic)
    async with contextlib.AsyncExitStack() as stack:
        if core.metrics_port is not None:
            stack.callback(serve_metrics(metrics, core.metrics_host, core.metrics_port, health).close)
        await stack.enter_async_context(supervised(health))
        async with KafkaPublisher(core, metrics) as publisher:
            health.ready_while("kafka", publisher.problem)
            context = CollectorContext(publisher, core.collector, metrics, health=health, core=core)
            health.started()
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(_until_ended(collect(context)))
                    tasks.create_task(publisher.failed())
            except asyncio.CancelledError:
                context.end()
                raise
            except BaseExceptionGroup as group:
                raise _first(group) from None
            finally:
                stop_of(health)


async def _until_ended(collecting: Awaitable[None]) -> None:
    await collecting
    raise RuntimeError("the collector ended before it was cancelled")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first

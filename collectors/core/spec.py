"""Registers a collector, and runs its process: set-up, publisher, health, end.

A collector is one Spec under the entry-point group `railsight.collectors`. Its caller (the command line) has validated
the Params and supplies the address of Kafka; nothing here reads a configuration.
"""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from pydantic import BaseModel

from collectors.core.columns import json_lines
from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics, metrics_outputs
from collectors.core.once import NullPublisher, first_facts
from collectors.core.params import CollectorParams, Core, Cpu
from collectors.core.publisher import KafkaPublisher
from streams.health.health import Health
from streams.health.metrics_export import Sender, resource
from streams.health.status_server import stop_of, supervised
from streams.wire import topics
from streams.wire.errors import Misconfigured
from streams.wire.models import Facts, Samples
from streams.wire.topics import COLLECTOR, COLLECTOR_STATUS, EVENTS, FACTS, SAMPLES, TARGETS, Access

GROUP_PREFIX = "railsight.collect."
"""Prefix of the consumer groups of collectors that share targets."""

TELEMETRY = Access(reads=(TARGETS,), writes=(SAMPLES, EVENTS, FACTS, COLLECTOR_STATUS), group_prefixes=(GROUP_PREFIX,))
"""The access on Kafka of a collector of devices."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One collector: its name, its settings, and `collect`, which reads until cancelled.

    `collect` raises Misconfigured if it cannot start, and Retry if the peer is unreachable and waiting does not help.
    `read_once` yields one reading, as Samples or as lines of JSON; None for a collector without readings of its own.
    """

    name: str
    Params: type[BaseModel]
    collect: Callable[[Any, CollectorContext], Awaitable[None]]
    read_once: Callable[[Any, CollectorContext], AsyncIterator[Samples | str]] | None = None
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    """Creates the event loop; None for asyncio's own."""
    part: str = COLLECTOR
    """The name of its principal on Kafka."""
    prepare: Callable[[Any], object] | None = None
    """Reads the files that the settings name, as the start does; raises Misconfigured. None if they name none."""
    access: Callable[[Any], Access] = lambda _: TELEMETRY
    """Returns the collector's access on Kafka for its settings; None as the argument means that it has no section."""
    example: str = ""
    """The arguments of a minimal `railsight collect NAME`, for its help."""
    needs_kafka: bool = True
    """False if the collector is useful without Kafka; its records are then discarded."""
    may_end: Callable[[Any], bool] = lambda _: False
    """Returns True if `collect` returns with these settings when its input has ended."""
    default_name: Callable[[Any], str] | None = None
    """Returns the name in the collector's messages if none is configured; None for NAME@HOST."""

    def start(self, params: BaseModel, **core: Any) -> None:
        """Run until SIGTERM or SIGINT in a new event loop; `core` has the fields of Core."""
        run_until_signalled(self.run(params, Core(**core)), self.new_loop)

    def print_once(self, params: BaseModel, write: Callable[[str], None], **core: Any) -> None:
        """Pass each line of one reading to `write`, without Kafka."""

        async def lines() -> None:
            async for line in self.once(params, Core(**core)):
                write(line)

        run_until_signalled(lines(), self.new_loop)

    async def once(self, params: BaseModel, core: Core) -> AsyncIterator[str]:
        """Yield the lines of JSON of one reading; raises Misconfigured, and Retry for devices without a reading."""
        assert self.read_once is not None, f"{self.name} has no reading to print"
        context = CollectorContext(NullPublisher(), core.collector or "once", core=core)
        async for reading in self.read_once(params, context):
            for line in (reading,) if isinstance(reading, str) else json_lines(reading):
                yield line

    def read_facts(
        self, params: BaseModel, devices: Iterable[str], bound_s: float
    ) -> tuple[list[Facts], dict[str, str]]:
        """Return the first facts of devices, without Kafka, and the reason for each device without any in time.

        Raises Misconfigured and Retry as `collect` does.
        """
        context = CollectorContext(NullPublisher(), "once", core=Core())
        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            return runner.run(first_facts(devices, context, lambda own: self.collect(params, own), bound_s))

    async def run(self, params: BaseModel, core: Core) -> None:
        """Collect until cancelled, or until `collect` or the publisher fails; raises the first failure.

        The publisher sends the remaining records at the end, in bounded time.
        """
        if isinstance(params, CollectorParams):
            if params.publisher.spool is not None and not params.supports_spool:
                raise Misconfigured(f"collect.{self.name}: publisher.spool is not supported: its input is read again")
            core = replace(core, publisher=params.publisher)
            if params.cpu is not None:
                pin_to_cpu(params.cpu, core.collector or self.name)
        if core.client_options is None and self.needs_kafka:
            raise Misconfigured(f"collect {self.name}: Kafka's address is not set; set kafka.bootstrap")
        if not set(topics.TELEMETRY) & set(self.access(params).writes):
            core = replace(core, key_file=None)  # its records have no MAC, and its machine has no key
        name = self.default_name(params) if self.default_name is not None else f"{self.name}@{socket.gethostname()}"
        core = replace(core, collector=core.collector or name)
        metrics, health = CollectorMetrics(), Health(core.health, time.monotonic)
        async with contextlib.AsyncExitStack() as stack:
            sender = Sender(core.otlp, resource(f"collect-{self.name}", core.cluster, core.collector), time.time_ns)
            stack.enter_context(metrics_outputs(metrics, core.metrics_host, core.metrics_port, health, sender))
            await stack.enter_async_context(supervised(health))
            at_end = stack.enter_context(contextlib.ExitStack())
            publisher: KafkaPublisher | NullPublisher = NullPublisher()
            if core.client_options is not None:
                publisher = await stack.enter_async_context(KafkaPublisher(core, metrics))
                health.ready_while("kafka", publisher.problem)
            context = CollectorContext(publisher, core.collector, metrics, health=health, core=core, at_end=at_end)
            health.started()
            try:
                await self._collect(params, context, publisher)
            finally:
                stop_of(health)

    async def _collect(
        self, params: BaseModel, context: CollectorContext, publisher: KafkaPublisher | NullPublisher
    ) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                failure = tasks.create_task(publisher.failed())
                await self.collect(params, context)
                if not self.may_end(params):
                    raise RuntimeError("the collector ended before it was cancelled")
                failure.cancel()
        except asyncio.CancelledError:
            context.end()
            raise
        except BaseExceptionGroup as group:
            raise _first(group) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def pin_to_cpu(cpu: Cpu, name: str) -> int:
    """Pin this process and its future threads to one CPU and return its number; raises Misconfigured.

    A gRPC stream moves between threads, and each wake-up on another CPU costs time: under the default scheduler,
    reading gNMI took up to twice the CPU of the same process on one core (measured with grpcio 1.85 on 2 shared cores).
    A pinned process waits while other work occupies its CPU: do not pin on a host whose cores belong to a job. `one`
    selects a permitted CPU by the collector's name, so that several collectors are spread over the CPUs.
    """
    allowed = sorted(os.sched_getaffinity(0))
    chosen = allowed[crc32(name.encode()) % len(allowed)] if cpu == "one" else cpu
    if chosen not in allowed:
        raise Misconfigured(
            f"cpu {chosen}: this process may use {', '.join(map(str, allowed))}; set `cpu` to one of these"
        )
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 — thread numbers, not paths
        with contextlib.suppress(ProcessLookupError):  # the thread has ended since the listing
            os.sched_setaffinity(int(thread), {chosen})
    return chosen


def run_until_signalled(
    work: Coroutine[Any, Any, None], new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> None:
    """Run `work` to its end, or cancel it at the first SIGTERM or SIGINT and wait for its cleanup."""

    async def main() -> None:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())

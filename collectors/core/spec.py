"""The registration of a collector, and the settings of its process.

A collector is one Spec under the entry-point group `railsight.collectors`. Its caller (the command line) has validated
the Params and knows the address of Kafka; nothing here reads a configuration.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from collectors.core.access import telemetry
from collectors.core.affinity import pin_to_cpu
from collectors.core.buffer_limits import PublisherParams
from collectors.core.params import CollectorParams
from streams.health.params import HealthParams
from streams.wire.access import COLLECTOR, Access
from streams.wire.topics import Partitions


@dataclass(frozen=True, slots=True)
class Core:
    """The settings of a collector's process: the address of Kafka, its own name, and the limits of its buffer.

    `client_options` are the arguments of an aiokafka client for the cluster; None without Kafka, for a collector that
    only prints. `acknowledged_file` receives the acknowledged counts as JSON, about once a second, for tests that prove
    that no record is lost. `metrics_port` serves self-metrics at `metrics_host`. `reload_settings` reads the settings
    again from the files `configuration`, and raises Misconfigured. `health` are the limits of its health checks.
    """

    client_options: Mapping[str, Any] | None = None
    partitions: Partitions = field(default_factory=Partitions)
    collector: str = ""
    publisher: PublisherParams = field(default_factory=PublisherParams)
    acknowledged_file: Path | None = None
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    reload_settings: Callable[[], BaseModel] | None = None
    configuration: tuple[Path, ...] = ()
    health: HealthParams = field(default_factory=HealthParams)


@dataclass(frozen=True, slots=True)
class Spec:
    """One collector: its name, its settings, its `run` until cancelled, and `once`, one reading as lines of JSON.

    `run` raises Misconfigured if it cannot start, and Retry if the peer is unreachable and waiting does not help.
    `once` is None for a collector without readings of its own.
    """

    name: str
    Params: type[BaseModel]
    run: Callable[[Any, Core], Awaitable[None]]
    once: Callable[[Any, Core], AsyncIterator[str]] | None = None
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    """Creates the event loop; None for asyncio's own."""
    part: str = COLLECTOR
    """The name of its principal on Kafka."""
    prepare: Callable[[Any], object] | None = None
    """Reads the files that the settings name, as the start does; raises Misconfigured. None if there are none."""
    access: Callable[[Any], Access] = telemetry
    """Returns its access on Kafka by its settings (None: without a section)."""
    example: str = ""
    """The arguments of a minimal `railsight collect NAME`, for its help."""

    def start(self, params: BaseModel, **core: Any) -> None:
        """Run until SIGTERM or SIGINT in a new event loop; `core` are the fields of Core."""
        run_until_signalled(self._run(params, Core(**core)), self.new_loop)

    def print_once(self, params: BaseModel, write: Callable[[str], None], **core: Any) -> None:
        """Pass each line of one reading to `write`, without Kafka."""
        run_until_signalled(self._print_once(params, write, Core(**core)), self.new_loop)

    async def _run(self, params: BaseModel, core: Core) -> None:
        if isinstance(params, CollectorParams):
            core = replace(core, publisher=params.publisher)
            if params.cpu is not None:
                pin_to_cpu(params.cpu, core.collector or self.name)
        await self.run(params, core)

    async def _print_once(self, params: BaseModel, write: Callable[[str], None], core: Core) -> None:
        assert self.once is not None, f"{self.name} has no reading to print"
        async for line in self.once(params, core):
            write(line)


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

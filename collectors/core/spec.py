"""What a collector registers, and what it is given when it runs.

A collector is one Spec under the entry-point group `railsight.collectors`. Whoever starts it (the command line) has
validated its Params and composed where Kafka is; nothing here reads a configuration.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from collectors.core.affinity import pin_to_cpu
from collectors.core.buffer_limits import PublisherParams
from collectors.core.params import CollectorParams
from streams.wire.topics import Partitions


@dataclass(frozen=True, slots=True)
class Core:
    """What every collector is told: where Kafka is, its own name, and how much it may hold back.

    `client_options` are the arguments with which an aiokafka client reaches the cluster; None where there is no
    Kafka, for a collector that only prints. `acknowledged_file` gets what Kafka acknowledged, as JSON, about once a
    second: who proves that nothing is lost counts against it. `metrics_port` serves self-metrics on loopback. `again`
    reads the settings again from the files `configuration`, and raises Misconfigured.
    """

    client_options: Mapping[str, Any] | None = None
    partitions: Partitions = field(default_factory=Partitions)
    collector: str = ""
    publisher: PublisherParams = field(default_factory=PublisherParams)
    acknowledged_file: Path | None = None
    metrics_port: int | None = None
    again: Callable[[], BaseModel] | None = None
    configuration: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Spec:
    """One collector: its name, its settings, how it runs until cancelled, and one reading of it as lines of JSON.

    `run` raises Misconfigured where it cannot start, and Retry where the far side is away and waiting is no use.
    `once` is None for a collector that has no reading of its own.
    """

    name: str
    Params: type[BaseModel]
    run: Callable[[Any, Core], Awaitable[None]]
    once: Callable[[Any, Core], AsyncIterator[str]] | None = None
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    """Makes the event loop that it runs on; asyncio's own where this is None."""

    def start(self, params: BaseModel, **core: Any) -> None:
        """Run until SIGTERM or SIGINT in an event loop of its own; `core` are the fields of Core."""
        run_until_signalled(self._run(params, Core(**core)), self.new_loop)

    def print_once(self, params: BaseModel, write: Callable[[str], None], **core: Any) -> None:
        """Hand each line of one reading to `write`; nothing goes to Kafka."""
        run_until_signalled(self._print_once(params, write, Core(**core)), self.new_loop)

    async def _run(self, params: BaseModel, core: Core) -> None:
        if isinstance(params, CollectorParams):
            core = replace(core, publisher=params.publisher)
            if params.cpu is not None:
                pin_to_cpu(params.cpu, core.collector or self.name)
        await self.run(params, core)

    async def _print_once(self, params: BaseModel, write: Callable[[str], None], core: Core) -> None:
        assert self.once is not None, f"{self.name} has no reading of its own"
        async for line in self.once(params, core):
            write(line)


def run_until_signalled(
    work: Coroutine[Any, Any, None], new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> None:
    """Run `work` to its end, or cancel it at the first SIGTERM or SIGINT and wait until it has cleaned up."""

    async def main() -> None:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())

"""The NIC collector: the ports of this host. Wiring only."""

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, cast

from prometheus_client import CollectorRegistry, start_http_server

from collectors.core.clock import SystemClock
from collectors.core.columns import json_lines
from collectors.core.counts import Counts
from collectors.core.emitter import Emitter, draw_run
from collectors.core.publisher import KafkaPublisher, Publisher
from collectors.core.spec import Core, Spec
from collectors.nic.ethtool import ethtool_of
from collectors.nic.host import HostReader
from collectors.nic.params import Params
from collectors.nic.ports import Role
from collectors.nic.tree import Tree
from streams.wire.errors import Misconfigured
from streams.wire.models import Source
from streams.wire.topics import Record

if TYPE_CHECKING:
    from prometheus_client.registry import Collector


def host_reader(
    params: Params, publisher: Publisher, counts: Counts, *, collector: str, run: int, wanted: frozenset[Role]
) -> HostReader:
    """The reader of this host's ports; raises Misconfigured where the tree is not there."""
    if not params.root.is_dir():
        raise Misconfigured(f"collect.nic: root {params.root}: no such folder")
    if params.ethtool_dir is not None and not params.ethtool_dir.is_dir():
        raise Misconfigured(f"collect.nic: ethtool_dir {params.ethtool_dir}: no such folder")
    tree = Tree(params.root)
    ethtool = ethtool_of(tree, wanted=params.ethtool, folder=params.ethtool_dir)
    emitter = Emitter(publisher, collector, run, Source.SOURCE_NIC)
    return HostReader(params, tree, ethtool, emitter, counts, SystemClock(), wanted)


async def collect(
    params: Params, publisher: Publisher, counts: Counts, *, collector: str, run: int, chance: random.Random
) -> None:
    """Read until cancelled."""
    reader = host_reader(
        params, publisher, counts, collector=collector, run=run, wanted=frozenset(params.roles)
    )  # fmt: skip
    with contextlib.closing(reader):
        await reader.run(chance)


async def run(params: Params, core: Core) -> None:
    """Collect to Kafka until cancelled; raises Misconfigured."""
    if core.client_options is None:
        raise Misconfigured("collect nic: where is Kafka?")
    counts = Counts()
    name = core.collector or f"nic@{socket.gethostname()}"
    with contextlib.ExitStack() as stack:
        if core.metrics_port is not None:
            stack.callback(_serve_metrics(counts, core.metrics_port))
        async with KafkaPublisher(core, counts) as publisher:
            collecting = collect(
                params, publisher, counts, collector=name, run=draw_run(), chance=random.Random()  # noqa: S311 — jitter
            )  # fmt: skip
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(collecting)
                    tasks.create_task(publisher.failed())
            except BaseExceptionGroup as group:
                raise group.exceptions[0] from None


def _serve_metrics(counts: Counts, port: int) -> Callable[[], None]:
    registry = CollectorRegistry()
    registry.register(cast("Collector", counts))  # it asks for `collect` only
    try:
        server, thread = start_http_server(port, "127.0.0.1", registry)
    except OSError as error:
        raise Misconfigured(f"self-metrics: port {port}: {error.strerror}") from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join(5)

    return stop


class _Nobody:
    """The Publisher of one reading that is only printed."""

    def offer(self, record: Record, rows: int = 0) -> bool:
        return True


async def once(params: Params, core: Core) -> AsyncIterator[str]:
    """One reading of every port that there is, whatever its role, as lines of JSON; nothing where there is none."""
    reader = host_reader(
        params, _Nobody(), Counts(), collector=core.collector or "once", run=draw_run(), wanted=frozenset(Role)
    )  # fmt: skip
    with contextlib.closing(reader):
        samples = await reader.read_once()
    for line in json_lines(samples) if samples is not None else ():
        yield line


SPEC = Spec("nic", Params, run, once)

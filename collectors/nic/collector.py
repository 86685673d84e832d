"""Composes the NIC collector for the ports of this host. Wiring only."""

import contextlib
from collections.abc import AsyncIterator

from collectors.core.columns import json_lines
from collectors.core.context import CollectorContext
from collectors.core.once import NullPublisher
from collectors.core.process import collect_to_kafka
from collectors.core.spec import Core, Spec
from collectors.kernel.ports import Role
from collectors.kernel.tree import Tree
from collectors.nic.ethtool import ethtool_of
from collectors.nic.host_reader import HostReader
from collectors.nic.params import Params
from streams.wire.errors import Misconfigured
from streams.wire.models import Source


def host_reader(params: Params, context: CollectorContext, wanted: frozenset[Role]) -> HostReader:
    """Return the reader of this host's ports; raises Misconfigured if the tree is missing."""
    if not params.root.is_dir():
        raise Misconfigured(f"collect.nic: root {params.root}: no such directory")
    if params.ethtool_dir is not None and not params.ethtool_dir.is_dir():
        raise Misconfigured(f"collect.nic: ethtool_dir {params.ethtool_dir}: no such directory")
    tree = Tree(params.root)
    ethtool = ethtool_of(tree, wanted=params.ethtool, folder=params.ethtool_dir)
    return HostReader(params, tree, ethtool, context.emitter(Source.SOURCE_NIC), context.metrics, context.clock, wanted)


async def collect(params: Params, context: CollectorContext) -> None:
    """Read until cancelled."""
    with contextlib.closing(host_reader(params, context, frozenset(params.roles))) as reader:
        await reader.run(context.rng)


async def run(params: Params, core: Core) -> None:
    """Collect to Kafka until cancelled; raises Misconfigured."""
    await collect_to_kafka(SPEC.name, core, lambda context: collect(params, context))


async def once(params: Params, core: Core) -> AsyncIterator[str]:
    """Yield one reading of every port, of any role, as lines of JSON; nothing without ports."""
    with contextlib.closing(
        host_reader(params, CollectorContext(NullPublisher(), core.collector or "once"), frozenset(Role))
    ) as reader:
        samples = await reader.read_once()
    for line in json_lines(samples) if samples is not None else ():
        yield line


SPEC = Spec("nic", Params, run, once, example="--once --print")

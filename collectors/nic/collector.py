"""Composes the NIC collector for the ports of this host. Wiring only."""

import contextlib
from collections.abc import AsyncIterator

from collectors.core.context import CollectorContext
from collectors.core.spec import Spec
from collectors.kernel.ports import Role
from collectors.kernel.tree import Tree
from collectors.nic.ethtool import ethtool_of
from collectors.nic.host_reader import HostReader
from collectors.nic.params import Params
from streams.wire.errors import Misconfigured
from streams.wire.models import Samples, Source


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


async def read_once(params: Params, context: CollectorContext) -> AsyncIterator[Samples]:
    """Yield one reading of every port, of any role; nothing without ports."""
    with contextlib.closing(host_reader(params, context, frozenset(Role))) as reader:
        if (samples := await reader.read_once()) is not None:
            yield samples


SPEC = Spec("nic", Params, collect, read_once, example="--once --print")

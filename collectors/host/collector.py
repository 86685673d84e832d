"""Composes the host collector: kernel log, PCIe links, GPUs and neighbors of this host. Wiring only."""

import contextlib
from collections.abc import AsyncIterator

from collectors.core.context import CollectorContext
from collectors.core.spec import Spec
from collectors.host.agent import HostAgent
from collectors.host.gpu import Gpus, nvml_of_this_machine
from collectors.host.params import Params
from collectors.kernel.tree import Tree
from streams.wire.errors import Misconfigured
from streams.wire.models import Samples


def host_agent(params: Params, context: CollectorContext) -> HostAgent:
    """Return the agent of this host; raises Misconfigured if the tree is missing."""
    if not params.root.is_dir():
        raise Misconfigured(f"collect.host: root {params.root}: no such folder")
    tree = Tree(params.root)
    nvml = nvml_of_this_machine() if params.gpu and tree.is_live else None
    return HostAgent(params, tree, Gpus(nvml), context)


async def collect(params: Params, context: CollectorContext) -> None:
    """Read until cancelled."""
    agent = host_agent(params, context)
    context.at_end.callback(agent.listening.save)
    with contextlib.closing(agent):
        await agent.run()


async def read_once(params: Params, context: CollectorContext) -> AsyncIterator[Samples]:
    """Yield one reading of every PCIe link and GPU; nothing without any."""
    with contextlib.closing(host_agent(params, context)) as agent:
        for samples in await agent.read_once():
            yield samples


SPEC = Spec("host", Params, collect, read_once, example="--once --print")

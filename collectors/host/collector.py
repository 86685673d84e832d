"""Composes the host collector: kernel log, PCIe links, GPUs and neighbors of this host. Wiring only."""

import contextlib
from collections.abc import AsyncIterator

from collectors.core.columns import json_lines
from collectors.core.context import CollectorContext
from collectors.core.once import NullPublisher
from collectors.core.process import collect_to_kafka
from collectors.core.spec import Core, Spec
from collectors.host.agent import HostAgent
from collectors.host.gpu import Gpus, nvml_of_this_machine
from collectors.host.params import Params
from collectors.kernel.tree import Tree
from streams.wire.errors import Misconfigured


def host_agent(params: Params, context: CollectorContext) -> HostAgent:
    """Return the agent of this host; raises Misconfigured if the tree is missing."""
    if not params.root.is_dir():
        raise Misconfigured(f"collect.host: root {params.root}: no such folder")
    tree = Tree(params.root)
    nvml = nvml_of_this_machine() if params.gpu and tree.is_live else None
    return HostAgent(params, tree, Gpus(nvml), context)


async def collect(params: Params, context: CollectorContext, at_end: contextlib.ExitStack) -> None:
    """Read until cancelled; `at_end` is unwound after the publisher has sent its buffer."""
    agent = host_agent(params, context)
    at_end.callback(agent.listening.save)
    with contextlib.closing(agent):
        await agent.run()


async def run(params: Params, core: Core) -> None:
    """Collect to Kafka until cancelled; raises Misconfigured."""
    with contextlib.ExitStack() as at_end:
        await collect_to_kafka(SPEC.name, core, lambda context: collect(params, context, at_end))


async def once(params: Params, core: Core) -> AsyncIterator[str]:
    """Yield one reading of every PCIe link and GPU as lines of JSON; nothing without any."""
    with contextlib.closing(host_agent(params, CollectorContext(NullPublisher(), core.collector or "once"))) as agent:
        for samples in await agent.read_once():
            for line in json_lines(samples):
                yield line


SPEC = Spec("host", Params, run, once, example="--once --print")

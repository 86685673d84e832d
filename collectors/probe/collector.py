"""Composes the probe collector of this host. Wiring only."""

import contextlib

from pydantic import BaseModel

from collectors.core.context import CollectorContext
from collectors.core.process import collect_to_kafka
from collectors.core.spec import Core, Spec
from collectors.probe.agent import ProbeAgent
from collectors.probe.params import Params
from streams.wire.access import PROBE, Access
from streams.wire.topics import COLLECTOR_STATUS, PROBES

ACCESS = Access(writes=(PROBES, COLLECTOR_STATUS))


async def collect(params: Params, context: CollectorContext) -> None:
    """Probe until cancelled."""
    with contextlib.closing(ProbeAgent(params, context)) as agent:
        await agent.run()


async def run(params: Params, core: Core) -> None:
    """Collect to Kafka until cancelled; raises Misconfigured."""
    await collect_to_kafka(SPEC.name, core, lambda context: collect(params, context))


def access(_: BaseModel | None) -> Access:
    """Return the access of the prober: it writes its reports and its status, and reads nothing."""
    return ACCESS


SPEC = Spec("probe", Params, run, part=PROBE, access=access, example="--config railsight.toml")

"""Composes the probe collector of this host. Wiring only."""

import contextlib

from collectors.core.context import CollectorContext
from collectors.core.spec import Spec
from collectors.probe.agent import ProbeAgent
from collectors.probe.params import Params
from streams.wire.access import PROBE, Access
from streams.wire.topics import COLLECTOR_STATUS, PROBES

ACCESS = Access(writes=(PROBES, COLLECTOR_STATUS))


async def collect(params: Params, context: CollectorContext) -> None:
    """Probe until cancelled."""
    with contextlib.closing(ProbeAgent(params, context)) as agent:
        await agent.run()


SPEC = Spec("probe", Params, collect, part=PROBE, access=lambda _: ACCESS, example="--config railsight.toml")

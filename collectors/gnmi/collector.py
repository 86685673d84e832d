"""The gNMI collector: many devices in one process. Wiring only."""

import random
from collections.abc import AsyncIterator
from typing import NamedTuple

from collectors.core.means import Means
from collectors.core.once import first_readings
from collectors.core.process import collect_to_kafka
from collectors.core.spec import Core, Spec
from collectors.core.targets import read_targets
from collectors.gnmi.device import DeviceReader
from collectors.gnmi.params import Params, Target
from collectors.gnmi.read import credentials
from streams.wire.event_loop import new_loop
from streams.wire.models import Source


class Asked(NamedTuple):
    """One device and all that decides how it is asked."""

    target: Target
    params: Params
    secret: str


def asked(params: Params) -> dict[str, Asked]:
    """The devices by name; raises Misconfigured before anything is connected."""
    secret = params.secret()
    if params.tls:
        credentials(params)
    return {target.name: Asked(target, params, secret) for target in params.all_targets()}


async def collect(params: Params, means: Means) -> None:
    """Read every target that is this process's until cancelled."""
    emitter = means.emitter(Source.SOURCE_GNMI)

    async def read(one: Asked) -> None:
        chance = random.Random(means.chance.random())  # noqa: S311 — jitter
        try:
            await DeviceReader(*one, emitter, means.counts, means.clock, chance).run()
        finally:
            means.counts.unset("clock_offset_seconds", one.target.name)

    await read_targets(SPEC.name, params, means, asked, read)


async def run(params: Params, core: Core) -> None:
    """Collect to Kafka until cancelled; raises Misconfigured."""
    await collect_to_kafka(SPEC.name, core, lambda means: collect(params, means))


async def once(params: Params, core: Core) -> AsyncIterator[str]:
    """One reading of every target as lines of JSON; raises Retry naming those that gave none in time."""
    devices = [target.name for target in params.all_targets()]
    bound_s = max(params.once_s, 2 * params.cadence_s)
    async for line in first_readings(devices, core, lambda means: collect(params, means), bound_s):
        yield line


SPEC = Spec("gnmi", Params, run, once, new_loop)

"""The gNMI collector reads many devices in one process. Wiring only."""

import random
from collections.abc import AsyncIterator
from typing import NamedTuple

from collectors.core.context import CollectorContext
from collectors.core.once import first_readings
from collectors.core.spec import Spec
from collectors.core.targets import read_targets
from collectors.gnmi.device import DeviceReader
from collectors.gnmi.params import Params, Target
from collectors.gnmi.read import credentials
from streams.wire.event_loop import new_loop
from streams.wire.models import Samples, Source


class TargetSession(NamedTuple):
    """One device and all settings that affect its subscription."""

    target: Target
    params: Params
    secret: str


def target_sessions(params: Params) -> dict[str, TargetSession]:
    """Return the devices by name; raises Misconfigured before any connection is made."""
    targets = params.all_targets()
    own = {target.name: params.for_target(target) for target in targets}
    # Each file of settings that targets share is read once.
    secrets = {id(its): its.secret() for its in ({id(its): its for its in (params, *own.values())}).values()}
    for its in {id(its): its for its in own.values()}.values():
        if its.tls:
            credentials(its)
    return {target.name: TargetSession(target, own[target.name], secrets[id(own[target.name])]) for target in targets}


async def collect(params: Params, context: CollectorContext) -> None:
    """Read every target that is assigned to this process until cancelled."""
    emitter = context.emitter(Source.SOURCE_GNMI)

    async def read(one: TargetSession) -> None:
        rng = random.Random(context.rng.random())  # noqa: S311 — jitter
        try:
            await DeviceReader(*one, emitter, context.metrics, context.clock, rng).run()
        finally:
            context.metrics.unset("clock_offset_seconds", one.target.name)

    await read_targets(SPEC.name, params, context, target_sessions, read)


def read_once(params: Params, context: CollectorContext) -> AsyncIterator[Samples]:
    """Yield one reading of every target; raises Retry with the targets that sent none in time."""
    devices = [target.name for target in params.all_targets()]
    bound_s = max(params.once_s, 2 * params.cadence_s)
    return first_readings(devices, context, lambda own: collect(params, own), bound_s)


EXAMPLE = "--targets targets.json --set tls=true --once --print"
SPEC = Spec("gnmi", Params, collect, read_once, new_loop, prepare=target_sessions, example=EXAMPLE)

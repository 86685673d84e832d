"""The dial-out collector: devices that connect to it and send by themselves. Wiring only."""

import asyncio
from collections.abc import AsyncIterator, Callable

from collectors.core.active_targets import ActiveTargets
from collectors.core.context import CollectorContext
from collectors.core.once import first_readings
from collectors.core.process import collect_to_kafka
from collectors.core.reload import reloads
from collectors.core.spec import Core, Spec
from collectors.dialout.device import DialOutDevice
from collectors.dialout.params import Params, Target
from collectors.dialout.server import DialOutServer
from streams.wire.event_loop import new_loop
from streams.wire.models import Source


async def collect(
    params: Params, context: CollectorContext, on_listening: Callable[[int], None] = lambda _: None
) -> None:
    """Listen until cancelled; settings of targets are reloaded, those of the server are read at the start.

    `on_listening` receives the port, which differs from that of the settings if that is 0.
    """
    emitter = context.emitter(Source.SOURCE_GNMI)
    server = DialOutServer(params, context.metrics)
    active = ActiveTargets[Target](on_removed=context.end)
    active.configure(params.all_targets())
    ports: list[int] = []
    context.health.ready_while("listening", lambda: "" if ports else "not listening yet")

    def listening(port: int) -> None:
        ports.append(port)
        on_listening(port)

    async def run_device(target: Target) -> None:
        device = server.devices[target.name] = DialOutDevice(target, params, context, emitter)
        try:
            await device.run()
        finally:
            del server.devices[target.name]

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(active.run(run_device))
        tasks.create_task(
            reloads(params, context.core, context.metrics, lambda changed: active.configure(changed.all_targets()))
        )
        tasks.create_task(server.serve(listening))


async def run(params: Params, core: Core) -> None:
    """Collect to Kafka until cancelled; raises Misconfigured."""
    await collect_to_kafka(SPEC.name, core, lambda context: collect(params, context))


async def once(params: Params, core: Core) -> AsyncIterator[str]:
    """Yield the first reading of every target as lines of JSON; raises Retry with those that sent none in time."""
    bound_s = max(params.once_s, 2 * params.cadence_s)
    readings = first_readings(params.all_targets(), core, lambda context: collect(params, context), bound_s, bound_s)
    async for line in readings:
        yield line


def _prepare(params: Params) -> None:
    params.all_targets()
    params.tls()


SPEC = Spec("dialout", Params, run, once, new_loop, prepare=_prepare, example="--config railsight.toml")

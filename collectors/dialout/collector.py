"""The dial-out collector receives telemetry from devices that connect to it. Wiring only."""

import asyncio
from collections.abc import AsyncIterator, Callable

from collectors.core.context import CollectorContext
from collectors.core.once import first_readings
from collectors.core.reload import reloads
from collectors.core.spec import Spec
from collectors.core.targets import ActiveTargets
from collectors.dialout.params import Params, Target
from collectors.dialout.server import DialOutDevice, DialOutServer
from streams.wire.event_loop import new_loop
from streams.wire.models import Samples, Source


async def collect(
    params: Params, context: CollectorContext, on_listening: Callable[[int], None] = lambda _: None
) -> None:
    """Listen until cancelled. Settings of targets are reloaded; settings of the server are read only at the start.

    `on_listening` receives the port, which differs from the configured port if that is 0.
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


def read_once(params: Params, context: CollectorContext) -> AsyncIterator[Samples]:
    """Yield the first reading of every target; raises Retry with the targets that sent none in time."""
    bound_s = max(params.once_s, 2 * params.cadence_s)
    return first_readings(params.all_targets(), context, lambda own: collect(params, own), bound_s, bound_s)


def _prepare(params: Params) -> None:
    params.all_targets()
    params.pem("dialout")


SPEC = Spec("dialout", Params, collect, read_once, new_loop, prepare=_prepare, example="--config railsight.toml")

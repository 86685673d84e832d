"""The OTLP collector receives metrics that devices and relays export. Wiring only."""

import asyncio
from collections.abc import AsyncIterator, Callable

from collectors.core.context import CollectorContext, Emitter
from collectors.core.once import first_readings
from collectors.core.reload import reloads
from collectors.core.spec import Spec
from collectors.core.targets import ActiveTargets
from collectors.dialout.params import Target
from collectors.otlp.delivery import Delivery
from collectors.otlp.params import Params
from collectors.otlp.receiver import Receiver
from collectors.otlp.server import serve
from collectors.otlp.tables import tables
from streams.wire.event_loop import new_loop
from streams.wire.models import Samples, Source


async def collect(
    params: Params, context: CollectorContext, on_listening: Callable[[dict[str, int]], None] = lambda _: None
) -> None:
    """Listen until cancelled. Targets are reloaded; settings of the server are read only at the start.

    `on_listening` receives the ports of `grpc` and `http`, which differ from the configured ones if those are 0.
    """
    delivery = Delivery(context.publisher)
    emitter = Emitter(delivery, context.collector, context.run, Source.SOURCE_OTLP)
    context.emitters.append(emitter)
    receiver = Receiver(params, context, emitter, delivery)
    active = ActiveTargets[Target](on_removed=context.end)
    is_listening = False
    context.health.ready_while("listening", lambda: "" if is_listening else "not listening yet")

    def configure(changed: Params) -> None:
        targets = changed.all_targets()
        receiver.configure(targets)
        active.configure({name: target for name, target in targets.items() if not target.relay})

    def listening(ports: dict[str, int]) -> None:
        nonlocal is_listening
        is_listening = True
        on_listening(ports)

    configure(params)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(active.run(receiver.run_device))
        tasks.create_task(receiver.run())
        tasks.create_task(reloads(params, context.core, context.metrics, configure))
        # Not a task: a stop ends the server first, and the devices after its last answer.
        await serve(params, receiver, listening)


def read_once(params: Params, context: CollectorContext) -> AsyncIterator[Samples]:
    """Yield the first reading of every device; raises Retry with the devices that sent none in time."""
    bound_s = max(params.once_s, 2 * params.cadence_s)
    devices = [name for name, target in params.all_targets().items() if not target.relay]
    return first_readings(devices, context, lambda own: collect(params, own), bound_s, bound_s)


def _prepare(params: Params) -> None:
    params.all_targets()
    params.pem("otlp")
    params.file_context("otlp")
    tables()


SPEC = Spec("otlp", Params, collect, read_once, new_loop, prepare=_prepare, example="--config railsight.toml")

"""The SNMP collector: many devices in one process, and one ear for their traps. Wiring only."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence

from collectors.core.means import Means
from collectors.core.once import first_readings
from collectors.core.process import collect_to_kafka
from collectors.core.spec import Core, Spec
from collectors.snmp.ber import Value
from collectors.snmp.device import DeviceReader
from collectors.snmp.engine import Engines
from collectors.snmp.params import Params
from collectors.snmp.senders import Senders
from collectors.snmp.traps import Traps
from streams.wire.errors import Reject, Retry
from streams.wire.models import Source

_AGAIN_S = 1.0


def readers(params: Params, means: Means) -> list[DeviceReader]:
    """One reader a target; raises Misconfigured before anything is asked."""
    targets, engines = params.all_targets(), Engines(params.login())
    emitter = means.emitter(Source.SOURCE_SNMP)
    return [
        DeviceReader(
            target, params, engines, emitter, means.counts, means.clock, random.Random(means.chance.random())  # noqa: S311 — jitter
        )
        for target in targets
    ]  # fmt: skip


async def collect(params: Params, means: Means) -> None:
    """Read every target, and hear their traps where that is wanted, until cancelled."""
    found = readers(params, means)
    async with asyncio.TaskGroup() as tasks:
        if (address := params.traps_address()) is not None:
            senders = Senders({reader.name: reader.host for reader in found})
            tasks.create_task(senders.keep())
            tasks.create_task(_hear(address, params, found, senders, means))
        for reader in found:
            tasks.create_task(reader.run())


async def _hear(
    address: tuple[str, int], params: Params, found: Sequence[DeviceReader], senders: Senders, means: Means
) -> None:
    by_name = {reader.name: reader for reader in found}

    def heard(sender: str, said: dict[bytes, Value]) -> bool:
        device = senders.whose(sender)
        return device is not None and by_name[device].heard(said)

    async with Traps(address, params.login(), senders.whose, heard, means.counts, params.max_traps_per_s):
        await asyncio.Event().wait()


async def run(params: Params, core: Core) -> None:
    """Collect to Kafka until cancelled; raises Misconfigured."""
    await collect_to_kafka(SPEC.name, core, lambda means: collect(params, means))


async def _collect_first(params: Params, means: Means) -> None:
    """One reading of each device as soon as it gives one, then nothing."""

    async def first(reader: DeviceReader) -> None:
        while True:
            try:
                await reader.read_whole()
            except (Retry, Reject):
                await asyncio.sleep(_AGAIN_S)
            else:
                return

    found = readers(params, means)
    try:
        async with asyncio.TaskGroup() as tasks:
            for reader in found:
                tasks.create_task(first(reader))
        await asyncio.Event().wait()
    finally:
        for reader in found:
            reader.close()


async def once(params: Params, core: Core) -> AsyncIterator[str]:
    """One reading of every interface of every target as lines of JSON; raises Retry naming those that gave none."""
    names = [target.name for target in params.all_targets()]
    params.login()
    bound_s = params.deadline_s + params.facts_deadline_s
    whole = params.model_copy(update={"every_interface": not params.if_types})
    async for line in first_readings(names, core, lambda means: _collect_first(whole, means), bound_s):
        yield line


SPEC = Spec("snmp", Params, run, once)

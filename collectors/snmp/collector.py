"""The SNMP collector polls many devices in one process, and has one receiver for their traps."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from weakref import WeakValueDictionary

from collectors.core.context import CollectorContext
from collectors.core.once import first_readings
from collectors.core.spec import Spec
from collectors.core.targets import read_targets
from collectors.snmp.ber import Value
from collectors.snmp.device import DeviceReader
from collectors.snmp.engine import Engines, Login
from collectors.snmp.octet_text import literal
from collectors.snmp.params import Params, Target
from collectors.snmp.traps import Traps
from streams.wire.errors import Misconfigured, Reject, Retry
from streams.wire.models import Samples, Source
from streams.wire.retry import Backoff, Failure, retry


class TrapSenders:
    """Maps addresses to the devices that are read; an address of two devices maps to none."""

    def __init__(self) -> None:
        self._readers: set[DeviceReader] = set()

    @contextmanager
    def known(self, reader: DeviceReader) -> Iterator[None]:
        """Register a device while it is read."""
        self._readers.add(reader)
        try:
            yield
        finally:
            self._readers.discard(reader)

    def reader(self, address: str) -> DeviceReader | None:
        """Return the reader of the device with this address."""
        wanted = literal(address)
        found = [reader for reader in self._readers if reader.address == wanted]
        return found[0] if len(found) == 1 else None

    def login(self, address: str) -> Login | None:
        """Return the login of the device with this address."""
        reader = self.reader(address)
        return None if reader is None else reader.login

    def reader_of(self, address: str) -> str | None:
        """Return the name of the device with this address."""
        reader = self.reader(address)
        return None if reader is None else reader.name


_RETRY = Backoff.constant(1.0)


class TargetSession(NamedTuple):
    """One device and all settings that affect its polling."""

    target: Target
    params: Params
    login: Login


def target_sessions(params: Params) -> dict[str, TargetSession]:
    """Return the devices by name; raises Misconfigured before any request is sent."""
    targets = params.all_targets()
    own = {target.name: params.for_target(target) for target in targets}
    # The files of the collector's login are read once, not for each target.
    login = params.login() if not own or any(its is params for its in own.values()) else None
    return {
        target.name: TargetSession(
            target, its := own[target.name], login if login and its is params else _login(target, its)
        )
        for target in targets
    }


def _login(target: Target, params: Params) -> Login:
    try:
        return params.login()
    except Misconfigured as error:
        raise Misconfigured(f"{error} (target {target.name})") from error


class Readers:
    """Creates the readers of a process. Readers with the same login share parts of their engines."""

    def __init__(self, context: CollectorContext) -> None:
        self._context = context
        self._emitter = context.emitter(Source.SOURCE_SNMP)
        self._engines: WeakValueDictionary[Login, Engines] = WeakValueDictionary()

    def reader(self, one: TargetSession) -> DeviceReader:
        """Return the reader of one device; it has sent no request yet."""
        if (engines := self._engines.get(one.login)) is None:
            engines = self._engines[one.login] = Engines(one.login)
        context, rng = self._context, random.Random(self._context.rng.random())  # noqa: S311 — jitter
        return DeviceReader(
            one.target, one.params, engines, self._emitter, context.metrics, context.clock, rng
        )  # fmt: skip


async def collect(params: Params, context: CollectorContext) -> None:
    """Read every target that is assigned to this process, and receive traps if configured, until cancelled."""
    readers, senders = Readers(context), TrapSenders()

    async def read(one: TargetSession) -> None:
        reader = readers.reader(one)
        try:
            with senders.known(reader):
                await reader.run()
        finally:
            context.metrics.unset("sensors_left_out", one.target.name)

    async with asyncio.TaskGroup() as tasks:
        if (address := params.traps_address()) is not None:
            tasks.create_task(_receive_traps(address, params, senders, context))
        tasks.create_task(read_targets(SPEC.name, params, context, target_sessions, read))


async def _receive_traps(
    address: tuple[str, int], params: Params, senders: TrapSenders, context: CollectorContext
) -> None:
    def on_trap(sender: str, trap: dict[bytes, Value]) -> bool:
        reader = senders.reader(sender)
        return reader is not None and reader.on_trap(trap)

    async with Traps(address, senders.login, senders.reader_of, on_trap, context.metrics, params.max_traps_per_s):
        await asyncio.Event().wait()


async def _collect_first(params: Params, context: CollectorContext) -> None:
    """Read each device once, retrying until it succeeds, then wait."""
    readers = Readers(context)

    async def first(reader: DeviceReader) -> None:
        def warn(failure: Failure) -> None:
            reader.set_unreachable(str(failure.error))
            reader.close()

        try:
            await retry(lambda _: reader.read_whole(), (Retry, Reject), _RETRY, before_wait=warn)
        finally:
            reader.close()

    async with asyncio.TaskGroup() as tasks:
        for one in target_sessions(params).values():
            tasks.create_task(first(readers.reader(one)))
    await asyncio.Event().wait()


def read_once(params: Params, context: CollectorContext) -> AsyncIterator[Samples]:
    """Yield one reading of every interface of every target; raises Retry with the targets without one."""
    names = list(target_sessions(params))
    bound_s = params.deadline_s + params.facts_deadline_s
    whole = params.model_copy(update={"every_interface": not params.if_types})
    return first_readings(names, context, lambda own: _collect_first(whole, own), bound_s)


EXAMPLE = "--targets targets.json --set community_file=community --once --print"
SPEC = Spec("snmp", Params, collect, read_once, prepare=target_sessions, example=EXAMPLE)

"""The measured clients: each polls the switch, and a poll returns the number of values that it read.

A poll reads every cell of ifTable and ifXTable, 41 columns. `collected` polls as the collector does: the columns with
metrics, converted to Samples and encoded.
"""

import asyncio
import os
import random
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from pysnmp.hlapi.v3arch import asyncio as hlapi

from collectors.core.clock import SystemClock
from collectors.core.context import Emitter
from collectors.core.device_share import DeviceShare
from collectors.core.metrics import CollectorMetrics
from collectors.core.once import NullPublisher
from collectors.snmp.ber import oid_bytes
from collectors.snmp.device import DeviceReader
from collectors.snmp.engine import V2C, V3, Engines, Login
from collectors.snmp.params import Params, Target
from collectors.snmp.read import Agent
from lab.bench.collector_costs import Cost, cpu_s, running
from lab.bench.snmp_agent import AUTH_SECRET, COMMUNITY, IF_TABLE, IFX_TABLE, PRIVACY_SECRET, USER
from lab.constants import with_constants
from streams.wire.errors import Retry
from streams.wire.models import Source

TABLES = (IF_TABLE, IFX_TABLE)
LOGINS = {
    "v2c": Login(V2C, community=COMMUNITY),
    "v3 authPriv": Login(V3, "", USER, "sha256", AUTH_SECRET, "aes128", PRIVACY_SECRET),
}
_UNLIMITED = 10**9
_PATIENCE_S = 10.0
"""A long timeout: the switch shares the machine with the clients, and no request should be repeated."""

Poll = Callable[[], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Asked:
    """The switch, and the login and size of requests."""

    port: int
    login: Login
    at_once: int


Way = Callable[[Asked], AbstractAsyncContextManager[Poll]]


@asynccontextmanager
async def walked(asked: Asked) -> AsyncIterator[Poll]:
    """Walk both tables with the collector's agent."""
    metrics, engines = CollectorMetrics(), Engines(asked.login)
    address = "127.0.0.1", asked.port
    async with Agent(
        "bench", address, engines, metrics, timeout_s=_PATIENCE_S, tries=1, at_once=asked.at_once,
        share=DeviceShare("bench", _UNLIMITED, metrics),
    ) as agent:  # fmt: skip

        async def poll() -> int:
            found = [await agent.columns([oid_bytes(table)]) for table in TABLES]
            return sum(len(cells) for columns in found for cells in columns.values())

        yield poll


@asynccontextmanager
async def collected(asked: Asked) -> AsyncIterator[Poll]:
    """Read with the collector, up to encoded Samples."""
    metrics = CollectorMetrics()
    target = Target(name="bench", address=f"127.0.0.1:{asked.port}")
    params = with_constants(
        Params, varbinds_per_request=asked.at_once, deadline_s=2 * _PATIENCE_S, max_values_per_s=_UNLIMITED
    )(targets=(target,), timeout_s=_PATIENCE_S)
    emitter = Emitter(NullPublisher(), "bench", 1, Source.SOURCE_SNMP)
    reader = DeviceReader(target, params, Engines(asked.login), emitter, metrics, SystemClock(), random.Random(1))  # noqa: S311 — jitter

    async def poll() -> int:
        before = metrics.value("updates")
        await reader.read()
        return metrics.value("updates") - before

    try:
        yield poll
    finally:
        reader.close()


def by_pysnmp(*, looks_up: bool) -> Way:
    """Return a client of plain pysnmp; with `looks_up` it resolves the names of the values, pysnmp's default."""

    @asynccontextmanager
    async def way(asked: Asked) -> AsyncIterator[Poll]:
        engine = hlapi.SnmpEngine()
        login = asked.login
        who: Any = hlapi.CommunityData(login.community, mpModel=1)  # noqa: S508 — what it costs is the question
        if login.version == V3:
            who = hlapi.UsmUserData(
                login.user, login.authentication_secret, login.privacy_secret,
                authProtocol=hlapi.USM_AUTH_HMAC192_SHA256, privProtocol=hlapi.USM_PRIV_CFB128_AES,
            )  # fmt: skip
        where = await hlapi.UdpTransportTarget.create(("127.0.0.1", asked.port), timeout=_PATIENCE_S)

        async def poll() -> int:
            values = 0
            for table in TABLES:
                walk = hlapi.bulk_walk_cmd(
                    engine, who, where, hlapi.ContextData(), 0, asked.at_once,
                    hlapi.ObjectType(hlapi.ObjectIdentity(table)), lookupMib=looks_up, lexicographicMode=False,
                )  # fmt: skip
                async for trouble, status, _, found in walk:
                    if trouble or status:
                        raise Retry(f"pysnmp: {trouble or status}")
                    values += len(found)
            return values

        try:
            yield poll
        finally:
            engine.close_dispatcher()

    return way


@dataclass(slots=True)
class BulkWalks:
    """Walks both tables with net-snmp's `program`, one process per walk."""

    program: str
    cpu_s: float = 0.0
    """The CPU time of all walks. Other processes of the benchmark, such as the reference load, do not count."""

    @asynccontextmanager
    async def way(self, asked: Asked) -> AsyncIterator[Poll]:
        """Yield the client of one switch."""
        login = asked.login
        how = ["-v2c", "-c", login.community]
        if login.version == V3:
            how = ["-v3", "-l", "authPriv", "-u", login.user, "-a", "SHA-256", "-A", login.authentication_secret,
                   "-x", "AES", "-X", login.privacy_secret]  # fmt: skip
        how += ["-m", "", f"-Cr{asked.at_once}", "-On", "-t", f"{_PATIENCE_S:g}", f"127.0.0.1:{asked.port}"]

        async def poll() -> int:
            found = [await asyncio.to_thread(self._walk, [*how, ".".join(map(str, table))]) for table in TABLES]
            return sum(b"No more variables" not in line for lines in found for line in lines)

        yield poll

    def _walk(self, arguments: list[str]) -> list[bytes]:
        with subprocess.Popen([self.program, *arguments], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            out = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise Retry(f"{self.program}: ended with {process.returncode}")
        self.cpu_s += used.ru_utime + used.ru_stime
        return out.splitlines()


_NET_SNMP = "snmpbulkwalk"
_SLOW = 5
"""The factor by which plain pysnmp is slower; it makes fewer polls."""


class _Client(NamedTuple):
    name: str
    way: Way | None
    """The client; None if it cannot be measured here."""
    slow: int = 1
    cpu_s: Callable[[], float] = cpu_s


def _clients() -> tuple[_Client, ...]:
    net_snmp = shutil.which(_NET_SNMP)
    walks = BulkWalks(net_snmp or "")
    return (
        _Client("railsight", walked),
        _Client("railsight, the collector", collected),
        _Client("pysnmp", by_pysnmp(looks_up=False), _SLOW),
        _Client("pysnmp, looking up names", by_pysnmp(looks_up=True), _SLOW),
        _Client(_NET_SNMP, walks.way if net_snmp else None, cpu_s=lambda: walks.cpu_s),
    )


@contextmanager
def switch(ports: int) -> Iterator[int]:
    """Run a simulated switch with this many ports, and yield its UDP port. Raises Retry."""
    with running([sys.executable, "-m", "lab.bench.snmp_agent", str(ports)]) as line:
        yield int(line)


def compare(ports: int, polls: int, at_once: int) -> list[Cost]:
    """Return the cost of each client for its polls, after one uncounted poll. Raises Retry."""
    return asyncio.run(_compared(ports, polls, at_once))


async def _compared(ports: int, polls: int, at_once: int) -> list[Cost]:
    found = []
    for load, login in LOGINS.items():
        with switch(ports) as port:
            asked = Asked(port, login, at_once)
            found += [await _measured(load, client, asked, polls) for client in _clients()]
    return found


async def _measured(load: str, client: _Client, asked: Asked, polls: int) -> Cost:
    if client.way is None:
        return Cost(load, client.name, skipped=f"{client.name} is not installed")
    async with client.way(asked) as poll:
        await poll()
        began, values = client.cpu_s(), 0
        for _ in range(max(1, polls // client.slow)):
            values += await poll()
        return Cost(load, client.name, values, client.cpu_s() - began)

"""CPU of reading a 64-port switch by SNMP: ours, plain pysnmp and net-snmp's snmpbulkwalk, in one run.

    python -m tests.bench.snmp_cost [--ports 64] [--polls 20] [--repetitions 50] [--json]

A poll is every cell of ifTable and ifXTable, 41 columns: 2,624 values at 64 ports. All ask the same agent, which runs
in a process of its own; what is counted is the client's CPU, user and system, per 100,000 values. snmpbulkwalk is a
process for each table, whose start is in its figure. `collector` is a poll as it is really done: the columns that
mean something, made into Samples and encoded.
"""

import argparse
import asyncio
import json
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pysnmp.hlapi.v3arch import asyncio as hlapi

from collectors.core.clock import SystemClock
from collectors.core.counts import Counts
from collectors.core.emitter import Emitter
from collectors.snmp.ber import oid_bytes
from collectors.snmp.device import DeviceReader
from collectors.snmp.engine import V2C, V3, Engines, Login
from collectors.snmp.params import Params, Target
from collectors.snmp.read import Agent
from streams.wire.models import Source
from streams.wire.topics import Record
from tests.bench.snmp_agent import AUTH_SECRET, COMMUNITY, IF_TABLE, IFX_TABLE, PRIVACY_SECRET, USER

TABLES = (IF_TABLE, IFX_TABLE)
LOGINS = {
    "v2c": Login(V2C, community=COMMUNITY),
    "v3 authPriv": Login(V3, "", USER, "sha256", AUTH_SECRET, "aes128", PRIVACY_SECRET),
}
Poll = Callable[[], Awaitable[int]]


class Cost(NamedTuple):
    """What one client took; `ratio` is how many times as much as ours, of the same version."""

    client: str
    version: str
    values: int
    cpu_s_per_100k: float
    ratio: float


@contextmanager
def agent(ports: int) -> Iterator[int]:
    """An agent of so many ports; its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.snmp_agent", str(ports)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


def _cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


async def _measured(poll: Poll, polls: int, who: int = resource.RUSAGE_SELF) -> tuple[int, float]:
    """Values and CPU seconds of so many polls, after one that is not counted."""
    await poll()
    began, values = _cpu_s(who), 0
    for _ in range(polls):
        values += await poll()
    return values, _cpu_s(who) - began


async def _ours(port: int, login: Login, polls: int, repetitions: int) -> tuple[int, float]:
    async with Agent(
        "bench", ("127.0.0.1", port), Engines(login), Counts(), timeout_s=10, tries=1, at_once=repetitions
    ) as asked:

        async def poll() -> int:
            return sum([len(cells) for t in TABLES for cells in (await asked.columns([oid_bytes(t)])).values()])

        return await _measured(poll, polls)


class Nowhere:
    """A publisher that keeps nothing."""

    def offer(self, record: Record, rows: int = 0) -> bool:
        """Drop it."""
        return True


async def _collector(port: int, login: Login, polls: int, repetitions: int) -> tuple[int, float]:
    counts = Counts()
    target = Target(name="bench", address=f"127.0.0.1:{port}")
    params = Params(targets=(target,), varbinds_a_request=repetitions, timeout_s=10, deadline_s=60)
    emitter = Emitter(Nowhere(), "bench", 1, Source.SOURCE_SNMP)
    reader = DeviceReader(target, params, Engines(login), emitter, counts, SystemClock(), random.Random(1))

    async def poll() -> int:
        before = counts.of("updates")
        await reader.read()
        return counts.of("updates") - before

    try:
        return await _measured(poll, polls)
    finally:
        reader.close()


async def _pysnmp(port: int, login: Login, polls: int, repetitions: int, *, looks_up: bool) -> tuple[int, float]:
    engine = hlapi.SnmpEngine()
    who: Any = hlapi.CommunityData(login.community, mpModel=1)
    if login.version == V3:
        who = hlapi.UsmUserData(
            login.user, login.authentication_secret, login.privacy_secret,
            authProtocol=hlapi.USM_AUTH_HMAC192_SHA256, privProtocol=hlapi.USM_PRIV_CFB128_AES,
        )  # fmt: skip
    where = await hlapi.UdpTransportTarget.create(("127.0.0.1", port), timeout=10)

    async def poll() -> int:
        values = 0
        for table in TABLES:
            walk = hlapi.bulk_walk_cmd(
                engine, who, where, hlapi.ContextData(), 0, repetitions,
                hlapi.ObjectType(hlapi.ObjectIdentity(table)), lookupMib=looks_up, lexicographicMode=False,
            )  # fmt: skip
            async for trouble, status, _, found in walk:
                assert not trouble and not status, f"{trouble} {status}"
                values += len(found)
        return values

    try:
        return await _measured(poll, polls)
    finally:
        engine.close_dispatcher()


async def _bulkwalk(port: int, login: Login, polls: int, repetitions: int) -> tuple[int, float]:
    how = ["-v2c", "-c", login.community]
    if login.version == V3:
        how = ["-v3", "-l", "authPriv", "-u", login.user, "-a", "SHA-256", "-A", login.authentication_secret,
               "-x", "AES", "-X", login.privacy_secret]  # fmt: skip

    async def poll() -> int:
        values = 0
        for table in TABLES:
            said = ".".join(map(str, table))
            process = await asyncio.create_subprocess_exec(
                "snmpbulkwalk", *how, "-m", "", f"-Cr{repetitions}", "-On", "-t", "10", f"127.0.0.1:{port}", said,
                stdout=subprocess.PIPE,
            )  # fmt: skip
            out, _ = await process.communicate()
            values += sum(b"No more variables" not in line for line in out.splitlines())
        return values

    return await _measured(poll, polls, resource.RUSAGE_CHILDREN)


async def _compared(ports: int, polls: int, repetitions: int) -> list[Cost]:
    found: list[Cost] = []
    for version, login in LOGINS.items():
        with agent(ports) as port:
            ways: dict[str, Callable[[int], Awaitable[tuple[int, float]]]] = {
                "railsight": lambda n, p=port, lg=login: _ours(p, lg, n, repetitions),  # type: ignore[misc]
                "railsight, the collector": lambda n, p=port, lg=login: _collector(p, lg, n, repetitions),  # type: ignore[misc]
                "pysnmp": lambda n, p=port, lg=login: _pysnmp(p, lg, n, repetitions, looks_up=False),  # type: ignore[misc]
                "pysnmp, looking up names": lambda n, p=port, lg=login: _pysnmp(p, lg, n, repetitions, looks_up=True),  # type: ignore[misc]
            }
            if shutil.which("snmpbulkwalk"):
                ways["snmpbulkwalk"] = lambda n, p=port, lg=login: _bulkwalk(p, lg, n, repetitions)  # type: ignore[misc]
            ours = 0.0
            for client, way in ways.items():
                values, cpu_s = await way(polls if "pysnmp" not in client else max(1, polls // 5))
                cost = cpu_s / values * 1e5
                ours = ours or cost
                found.append(Cost(client, version, values, cost, cost / ours))
    return found


def compare(ports: int = 64, polls: int = 20, repetitions: int = 50) -> list[Cost]:
    """Measure every client against the same agent, one after the other; those that are not installed are left out."""
    return asyncio.run(_compared(ports, polls, repetitions))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ports", type=int, default=64)
    parser.add_argument("--polls", type=int, default=20)
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = compare(given.ports, given.polls, given.repetitions)
    if given.json:
        sys.stdout.write(json.dumps([cost._asdict() for cost in found]) + "\n")
        return
    sys.stdout.write(f"{'version':12} {'client':26} {'values':>8} {'CPU s / 100 k':>14} {'ratio':>7}\n")
    for cost in found:
        sys.stdout.write(
            f"{cost.version:12} {cost.client:26} {cost.values:8} {cost.cpu_s_per_100k:14.2f} {cost.ratio:7.2f}\n"
        )


if __name__ == "__main__":
    main()

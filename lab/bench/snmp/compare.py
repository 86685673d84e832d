"""Compares the CPU of reading a switch by SNMP between clients, in one run.

All read the same agent, which runs in its own process; the client's CPU is counted, user and system. snmpbulkwalk is a
process for each table, and its start is part of its figure.
"""

import asyncio
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from lab.bench.collector_costs import Cost
from lab.bench.snmp.clients import LOGINS, Asked, Way, by_pysnmp, by_snmpbulkwalk, collected, walked
from streams.wire.errors import Retry

_NET_SNMP = "snmpbulkwalk"
_SLOW = 5
"""The factor by which plain pysnmp is slower; it makes fewer polls."""


class _Client(NamedTuple):
    name: str
    way: Way | None
    """None if it cannot be measured here."""
    slow: int = 1
    who: int = resource.RUSAGE_SELF


def _clients() -> tuple[_Client, ...]:
    net_snmp = shutil.which(_NET_SNMP)
    return (
        _Client("railsight", walked),
        _Client("railsight, the collector", collected),
        _Client("pysnmp", by_pysnmp(looks_up=False), _SLOW),
        _Client("pysnmp, looking up names", by_pysnmp(looks_up=True), _SLOW),
        _Client(_NET_SNMP, by_snmpbulkwalk(net_snmp) if net_snmp else None, who=resource.RUSAGE_CHILDREN),
    )


@contextmanager
def switch(ports: int) -> Iterator[int]:
    """Run a simulated switch of so many ports, and yield its UDP port. Raises Retry."""
    command = [sys.executable, "-m", "lab.bench.snmp.agent", str(ports)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise Retry("the simulated switch did not start")
        yield int(line)
    finally:
        process.terminate()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


def compare(ports: int, polls: int, at_once: int) -> list[Cost]:
    """Return the cost of each client for its polls, after one that is not counted. Raises Retry."""
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
        began, values = _cpu_s(client.who), 0
        for _ in range(max(1, polls // client.slow)):
            values += await poll()
        return Cost(load, client.name, values, _cpu_s(client.who) - began)


def _cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime

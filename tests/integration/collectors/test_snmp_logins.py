"""Tests the logins of the collector with a pysnmp agent: all read the same, and a wrong one has a clear error."""

from collections.abc import Iterator

import pytest

from collectors.core.device_share import DeviceShare
from collectors.core.metrics import CollectorMetrics
from collectors.snmp import ber, mib
from collectors.snmp.engine import V2C, Engines, Login
from collectors.snmp.read import Agent
from lab.bench.snmp_agent import CLEAR_USER
from lab.bench.snmp_clients import LOGINS, TABLES, switch
from streams.wire.errors import Retry

PORTS = 8
V3 = LOGINS["v3 authPriv"]
EVERY_LOGIN = LOGINS | {"v3 authNoPriv": V3._replace(user=CLEAR_USER, privacy="none", privacy_secret="")}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Yield the port of an agent of a few ports."""
    with switch(PORTS) as found:
        yield found


def agent(port: int, login: Login, timeout_s: float) -> Agent:
    metrics = CollectorMetrics()
    share = DeviceShare("a", 10**6, metrics)
    return Agent("a", ("127.0.0.1", port), Engines(login), metrics, timeout_s=timeout_s, tries=1, share=share)


async def test_every_login_reads_the_same_values() -> None:
    """All columns of both tables, encrypted or not; test_snmp_recordings.py compares them with those of net-snmp."""
    read = []
    with switch(PORTS) as port:
        for login in EVERY_LOGIN.values():
            async with agent(port, login, timeout_s=10) as asked:
                read.append(await asked.columns(map(ber.oid_bytes, TABLES)))
    assert sum(len(read[0][ber.oid_bytes(table)]) for table in TABLES) == 41 * PORTS
    assert all(one == read[0] for one in read)


@pytest.mark.parametrize(
    ("login", "why"),
    [
        (V3._replace(authentication_secret="another-secret"), "Wrong SNMP PDU digest"),
        (V3._replace(user="unknown"), "Unknown USM user"),
        (V3._replace(privacy_secret="another-secret"), "Ciphering"),
        (V3._replace(privacy="none"), "Unsupported SNMP security level"),
        (Login(V2C, community="another-secret"), "no answer"),
    ],
)
async def test_a_wrong_login_gives_the_reason_without_a_secret(port: int, login: Login, why: str) -> None:
    """The reason is that of the side which refused it."""
    async with agent(port, login, timeout_s=2) as asked:
        with pytest.raises(Retry, match=why) as refused:
            await asked.get((mib.SYS_UP_TIME,))
    assert "secret" not in str(refused.value)

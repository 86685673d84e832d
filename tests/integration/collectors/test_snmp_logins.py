"""Tests the collector with a pysnmp agent: the values equal pysnmp's, and a wrong login has a clear error."""

from collections.abc import Iterator
from typing import Any

import pytest
from pysnmp.hlapi.v3arch import asyncio as hlapi

from collectors.core.device_share import DeviceShare
from collectors.core.metrics import CollectorMetrics
from collectors.snmp import ber, mib
from collectors.snmp.engine import V2C, Engines, Login
from collectors.snmp.read import Agent
from lab.bench.snmp_agent import AUTH_SECRET, CLEAR_USER, COMMUNITY
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


def plain(value: Any) -> ber.Value:
    """Return a value of pysnmp's as ours."""
    if hasattr(value, "asOctets"):
        return bytes(value.asOctets())
    return ber.oid_bytes(value.asTuple()) if hasattr(value, "asTuple") else int(value)


async def by_pysnmp(port: int, login: Login) -> dict[tuple[int, ...], ber.Value]:
    """Return both tables, read by pysnmp alone."""
    engine = hlapi.SnmpEngine()
    who: Any = hlapi.CommunityData(COMMUNITY, mpModel=1)
    if login.version != V2C:
        protocols = {"authProtocol": hlapi.USM_AUTH_HMAC192_SHA256, "privProtocol": hlapi.USM_PRIV_CFB128_AES}
        if login.privacy == "none":
            del protocols["privProtocol"]
        who = hlapi.UsmUserData(login.user, AUTH_SECRET, login.privacy_secret or None, **protocols)
    where = await hlapi.UdpTransportTarget.create(("127.0.0.1", port), timeout=10)
    found: dict[tuple[int, ...], ber.Value] = {}
    try:
        for table in TABLES:
            asked = hlapi.ObjectType(hlapi.ObjectIdentity(table))
            async for trouble, status, _, result in hlapi.bulk_walk_cmd(
                engine, who, where, hlapi.ContextData(), 0, 20, asked, lookupMib=False, lexicographicMode=False
            ):
                assert not trouble and not status
                found |= {tuple(name): plain(value) for name, value in result}
    finally:
        engine.close_dispatcher()
    return found


def agent(port: int, login: Login, timeout_s: float) -> Agent:
    metrics = CollectorMetrics()
    share = DeviceShare("a", 10**6, metrics)
    return Agent("a", ("127.0.0.1", port), Engines(login), metrics, timeout_s=timeout_s, tries=1, share=share)


@pytest.mark.parametrize("version", EVERY_LOGIN)
async def test_every_value_equals_that_of_pysnmp(port: int, version: str) -> None:
    """All 41 columns of both tables are equal, whether encrypted or not."""
    login = EVERY_LOGIN[version]
    async with agent(port, login, timeout_s=10) as asked:
        read = await asked.columns(map(ber.oid_bytes, TABLES))
    ours = {
        (*table, *ber.sub_identifiers(row)): value
        for table in TABLES
        for row, value in read[ber.oid_bytes(table)].items()
    }
    assert len(ours) == 41 * PORTS
    assert ours == await by_pysnmp(port, login)


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

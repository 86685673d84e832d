"""Tests an attacker between collector and device, who sees every message and forges responses: none is accepted."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pysnmp.carrier.asyncio.dgram import udp

from collectors.core.device_share import DeviceShare
from collectors.core.metrics import CollectorMetrics
from collectors.snmp import ber
from collectors.snmp.engine import Engines
from collectors.snmp.read import Agent
from lab.bench.snmp_clients import LOGINS, TABLES, switch
from tests.fixtures.snmp_packets import damaged

PORTS = 2
CELLS = 41 * PORTS
Forge = Callable[[bytes, list[bytes]], list[bytes]]


class Between(asyncio.DatagramProtocol):
    """Forwards requests, and sends before each response the forgeries that `forge` makes of it and of earlier ones."""

    def __init__(self, port: int, forge: Forge) -> None:
        self._port = port
        self._forge = forge
        self.answers: list[bytes] = []
        self.forged = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._asker: Any = None

    def datagram_received(self, data: bytes, address: Any) -> None:
        if address[1] != self._port:
            self._asker = address
            self._transport.sendto(data, ("127.0.0.1", self._port))
            return
        for forged in self._forge(data, self.answers):
            self.forged += 1
            self._transport.sendto(forged, self._asker)
        self._transport.sendto(data, self._asker)
        self.answers.append(data)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Yield the port of an agent of few ports."""
    with switch(PORTS) as found:
        yield found


@asynccontextmanager
async def asked_through(
    port: int, version: str, forge: Forge
) -> AsyncIterator[tuple[Agent, Between, CollectorMetrics]]:
    """Yield the agent behind the attacker, the attacker, and the metrics."""
    loop = asyncio.get_running_loop()
    transport, between = await loop.create_datagram_endpoint(
        lambda: Between(port, forge), local_addr=("127.0.0.1", 0)
    )  # fmt: skip
    where, metrics = ("127.0.0.1", transport.get_extra_info("sockname")[1]), CollectorMetrics()
    with contextlib.closing(transport):
        async with Agent(
            "a", where, Engines(LOGINS[version]), metrics, timeout_s=3, tries=2, at_once=4,
            share=DeviceShare("a", 10**6, metrics),
        ) as agent:  # fmt: skip
            yield agent, between, metrics


async def cells(agent: Agent) -> int:
    """Return the number of cells of both tables."""
    return sum(map(len, (await agent.columns(map(ber.oid_bytes, TABLES))).values()))


def flipped(data: bytes, _before: list[bytes]) -> list[bytes]:
    """Return copies with one bit of the encrypted part or of a value changed, with a byte less, and with one more."""
    return [data[:-1] + bytes((data[-1] ^ 1,)), data[:-1], data + b"\0"] if len(data) > 200 else []


def replayed(_data: bytes, before: list[bytes]) -> list[bytes]:
    """Return the last two responses, which were genuine when they were sent."""
    return before[-2:] if len(before) > 4 else []


@pytest.mark.parametrize("version", LOGINS)
async def test_a_response_to_an_earlier_request_is_refused(port: int, version: str) -> None:
    """Each is counted, signed or not, and every cell has the device's value."""
    async with asked_through(port, version, replayed) as (agent, between, metrics):
        assert await cells(agent) == CELLS
        assert between.forged > 10 and metrics.value("unreadable", "a") == between.forged


async def test_a_changed_response_is_refused_if_responses_are_signed(port: int) -> None:
    """The genuine response that follows is read."""
    async with asked_through(port, "v3 authPriv", flipped) as (agent, between, metrics):
        assert await cells(agent) == CELLS
        assert between.forged > 10 and metrics.value("unreadable", "a") == between.forged


@pytest.mark.parametrize("version", LOGINS)
async def test_after_ten_thousand_damaged_responses_the_device_is_still_read(port: int, version: str) -> None:
    """Each is made of a genuine response of this session: refused and counted, without an exception or a delay."""
    async with asked_through(port, version, lambda *_: []) as (agent, between, metrics):
        assert await cells(agent) == CELLS
        assert agent._connection is not None
        engine, began = agent._connection.engine, time.monotonic()
        for data in damaged(max(between.answers, key=len), 10_000, seed=6):
            engine.message_dispatcher.receive_message(engine, udp.DOMAIN_NAME, ("127.0.0.1", 161), data)
        assert metrics.value("unreadable", "a") == 10_000
        assert time.monotonic() - began < 60
        assert await cells(agent) == CELLS

"""An engine that hears what it did not ask for: everything is refused, counted, and nothing raises."""

import time
from typing import Any

import pytest
from pysnmp.carrier.asyncio.dgram import udp

from collectors.core.metrics import CollectorMetrics
from collectors.snmp.ber import Value
from collectors.snmp.engine import V2C, V3, Engines, Login
from collectors.snmp.traps import Traps
from tests.fixtures.snmp_packets import damaged, response, table, trap

LOGINS = {
    "v2c": Login(V2C, community="public"),
    "v3": Login(V3, user="rail", authentication="sha256", authentication_secret="authentic-secret",
                privacy="aes128", privacy_secret="private-secret"),
}  # fmt: skip
V3_MESSAGE = bytes.fromhex(
    "3074020103301002047d8b5f0b020300ffe30401030201030430302e0410800000000102030405060708090a0b0c020105020203e8"
    "04047261696c040ca1a2a3a4a5a6a7a8a9aaabac0408b1b2b3b4b5b6b7b8042bc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4"
    "d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebec"
)


def receive(engine: Any, data: bytes) -> None:
    engine.message_dispatcher.receive_message(engine, udp.DOMAIN_NAME, ("127.0.0.1", 161), data)


@pytest.mark.parametrize("version", LOGINS)
def test_ten_thousand_damaged_packets_are_refused_and_counted(version: str) -> None:
    """Nothing that no request asked for is taken, whatever it looks like."""
    refused: list[str] = []
    engine = Engines(LOGINS[version]).open(refused.append).engine
    whole = table() if version == "v2c" else V3_MESSAGE
    began = time.monotonic()
    for data in damaged(whole, 10_000, seed=2):
        receive(engine, data)
    assert len(refused) == 10_000
    assert time.monotonic() - began < 60


def test_a_whole_answer_to_nobodys_question_is_refused() -> None:
    """Also from the right device with the right community."""
    refused: list[str] = []
    engine = Engines(LOGINS["v2c"]).open(refused.append).engine
    receive(engine, response([]))
    assert len(refused) == 1


def test_a_login_says_nothing_of_its_secrets() -> None:
    """Neither in a log nor in a traceback."""
    for login in LOGINS.values():
        assert "public" not in repr(login) and "secret" not in repr(login)


@pytest.mark.parametrize("version", LOGINS)
async def test_ten_thousand_damaged_traps_are_refused_and_counted(version: str) -> None:
    """But those whose damage hides in a value; and afterwards the ear still hears."""
    metrics, heard = CollectorMetrics(), list[str]()

    def hear(sender: str, said: dict[bytes, Value]) -> bool:
        heard.append(sender)
        return bool(said)

    traps = Traps(("127.0.0.1", 0), LOGINS[version], lambda _: "sw1", hear, metrics, 10**9)
    async with traps:
        whole = trap() if version == "v2c" else V3_MESSAGE
        for data in damaged(whole, 10_000, seed=4):
            receive(traps.engine, data)
        refused = metrics.value("unreadable", "sw1")
        assert refused + len(heard) == 10_000 and refused > 8_000
        receive(traps.engine, trap())
        assert metrics.value("unreadable", "sw1") == refused + (version == "v3")


async def test_who_may_speak_and_how_often() -> None:
    """Strangers, giants, and more than a device's share are not even read."""
    metrics = CollectorMetrics()
    traps = Traps(("127.0.0.1", 0), LOGINS["v2c"], {"10.0.0.1": "sw1"}.get, lambda *_: True, metrics, 5)
    async with traps:
        assert not traps.is_allowed(b"x", ("10.9.9.9", 1))
        assert not traps.is_allowed(b"x" * 9000, ("10.0.0.1", 1))
        spoken = sum(traps.is_allowed(b"x", ("10.0.0.1", 1)) for _ in range(100))
    assert 5 <= spoken <= 10
    assert (metrics.value("unreadable", "traps"), metrics.value("unreadable", "sw1")) == (1, 1)
    assert metrics.value("throttled", "sw1") == 100 - spoken

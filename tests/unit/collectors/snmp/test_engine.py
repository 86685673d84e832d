"""An engine refuses and counts every datagram that it did not request, and never raises."""

import time
from typing import Any

import pytest
from pysnmp.carrier.asyncio.dgram import udp

from collectors.core.metrics import CollectorMetrics
from collectors.snmp.ber import Value
from collectors.snmp.engine import V2C, V3, Engines, Login
from collectors.snmp.traps import EngineSlots, Traps
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
    """No datagram is accepted without a request, whatever its content."""
    refused: list[str] = []
    engine = Engines(LOGINS[version]).open(refused.append).engine
    whole = table() if version == "v2c" else V3_MESSAGE
    began = time.monotonic()
    for data in damaged(whole, 10_000, seed=2):
        receive(engine, data)
    assert len(refused) == 10_000
    assert time.monotonic() - began < 60


def test_a_valid_answer_without_a_request_is_refused() -> None:
    """Even from the right device with the right community."""
    refused: list[str] = []
    engine = Engines(LOGINS["v2c"]).open(refused.append).engine
    receive(engine, response([]))
    assert len(refused) == 1


def test_a_login_shows_no_secrets() -> None:
    """Neither in a log nor in a traceback."""
    for login in LOGINS.values():
        assert "public" not in repr(login) and "secret" not in repr(login)


@pytest.mark.parametrize("version", LOGINS)
async def test_ten_thousand_damaged_traps_are_refused_and_counted(version: str) -> None:
    """Except for those with damage inside a value; afterwards the receiver still works."""
    metrics, received = CollectorMetrics(), list[str]()

    def on_trap(sender: str, varbinds: dict[bytes, Value]) -> bool:
        received.append(sender)
        return bool(varbinds)

    traps = Traps(("127.0.0.1", 0), lambda _: LOGINS[version], lambda _: "sw1", on_trap, metrics, 10**9)
    async with traps:
        whole = trap() if version == "v2c" else V3_MESSAGE
        for data in damaged(whole, 10_000, seed=4):
            receive(traps.engine, data)
        refused = metrics.value("unreadable", "sw1")
        assert refused + len(received) == 10_000 and refused > 8_000
        receive(traps.engine, trap())
        assert metrics.value("unreadable", "sw1") == refused + (version == "v3")


def _tlv(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes((tag, len(body)) if len(body) < 128 else (tag, 0x81, len(body))) + body


def _v3_trap(engine_id: bytes) -> bytes:
    """Return a trap of version 3 of our user by an engine, which is not authenticated."""
    header = _tlv(0x30, _tlv(2, b"\x01"), _tlv(2, b"\x00\xff\xe3"), _tlv(4, b"\x03"), _tlv(2, b"\x03"))
    user = LOGINS["v3"].user.encode()
    security = _tlv(
        0x30, _tlv(4, engine_id), _tlv(2, b"\x05"), _tlv(2, b"\x03"), _tlv(4, user), _tlv(4, bytes(12)),
        _tlv(4, bytes(8)),
    )  # fmt: skip
    return _tlv(0x30, _tlv(2, b"\x03"), header, _tlv(4, security), _tlv(4, bytes(40)))


async def test_forged_engines_leave_a_bounded_number_of_keys() -> None:
    """Datagrams with a new engine id each retain keys of four engines, and none is accepted."""
    metrics, received = CollectorMetrics(), list[str]()

    def on_trap(sender: str, varbinds: dict[bytes, Value]) -> bool:
        received.append(sender)
        return True

    traps = Traps(("127.0.0.1", 0), lambda _: LOGINS["v3"], lambda _: "sw1", on_trap, metrics, 10**9)
    async with traps:
        for number in range(40):
            receive(traps.engine, _v3_trap(bytes((0x80, 0, 0, 0, 1, number))))
        assert metrics.value("throttled", "sw1") == 40 - 4  # each of these replaced the keys of another
        assert metrics.value("unreadable", "sw1") == 40
    assert not received


async def test_traps_are_limited_to_known_senders_sizes_and_rates() -> None:
    """Datagrams of unknown senders, too large ones, and those above a device's rate are not decoded."""
    metrics = CollectorMetrics()
    traps = Traps(("127.0.0.1", 0), lambda _: LOGINS["v2c"], {"10.0.0.1": "sw1"}.get, lambda *_: True, metrics, 5)
    async with traps:
        assert not traps.is_allowed(b"x", ("10.9.9.9", 1))
        assert not traps.is_allowed(b"x" * 9000, ("10.0.0.1", 1))
        allowed = sum(traps.is_allowed(b"x", ("10.0.0.1", 1)) for _ in range(100))
    assert 5 <= allowed <= 10
    assert (metrics.value("unreadable", "traps"), metrics.value("unreadable", "sw1")) == (1, 1)
    assert metrics.value("throttled", "sw1") == 100 - allowed


@pytest.mark.parametrize("login", [Login(V2C, community="other"), LOGINS["v3"], None])
async def test_a_trap_with_the_login_of_another_device_is_refused(login: Login | None) -> None:
    """A community that one target has proves nothing about another, whose login differs."""
    metrics, received = CollectorMetrics(), list[str]()

    def on_trap(sender: str, varbinds: dict[bytes, Value]) -> bool:
        received.append(sender)
        return True

    traps = Traps(("127.0.0.1", 0), lambda _: login, lambda _: "sw1", on_trap, metrics, 10**9)
    async with traps:
        receive(traps.engine, trap())
    assert (received, metrics.value("unreadable", "sw1")) == ([], 1)


def test_forged_engines_replace_each_other() -> None:
    """After any number of them a real engine is added, and stays once it was authenticated."""
    slots = EngineSlots(4)
    evicted = [slots.add("sw1", b"forged%d" % number) for number in range(1000)]
    assert all(is_new for is_new, _ in evicted)
    assert sum(engine is not None for _, engine in evicted) == 996
    assert slots.add("sw1", b"real") == (True, b"forged996")
    slots.verify("sw1", b"real")
    for number in range(1000, 1100):
        slots.add("sw1", b"forged%d" % number)
    assert slots.add("sw1", b"real") == (False, None)


def test_of_authenticated_engines_the_one_that_is_longest_silent_is_replaced() -> None:
    """A chassis that changed its supervisors is received again."""
    slots = EngineSlots(2)
    for engine in (b"a", b"b", b"a"):
        slots.add("sw1", engine)
        slots.verify("sw1", engine)
    assert slots.add("sw1", b"c") == (True, b"b")


def test_the_keys_of_an_engine_of_two_devices_are_retained() -> None:
    """An engine that another device has is neither new nor removed."""
    slots = EngineSlots(1)
    assert slots.add("sw1", b"a") == (True, None)
    assert slots.add("sw2", b"a") == (False, None)
    assert slots.add("sw1", b"b") == (True, None)
    assert slots.add("sw2", b"c") == (True, b"a")

"""Tests the syslog collector with real sockets, and Debian's rsyslog as the sender."""

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewTopic

from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics
from collectors.core.params import Core
from collectors.syslog.collector import SPEC, collect
from collectors.syslog.params import Params
from lab.constants import params_of
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.wire.models import Event
from streams.wire.topics import EVENTS
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.certificates import CertificateAuthority, certificate
from tests.fixtures.external_programs import program
from tests.fixtures.running_task import run_beside
from tests.fixtures.waiting import until
from tests.integration.collectors.bridged_readings import PARTITIONS, create_topics, read

SWITCH = {"name": "leaf1", "addresses": ["127.0.0.1"]}
RELAY = {"name": "log1", "addresses": ["127.0.0.1"], "relay": True}
_PATIENCE_S = 60.0


class Collecting:
    """A running collector."""

    def __init__(self, ports: list[int], published: RecordingPublisher, metrics: CollectorMetrics) -> None:
        self.ports, self.published, self.metrics = ports, published, metrics

    async def until(self, holds: Callable[[], bool], within_s: float = _PATIENCE_S) -> None:
        """Wait until a condition is true, also one of metrics, whose changes have no notice."""
        await until(holds, within_s)

    def events(self) -> list[tuple[str, str, str]]:
        return [(one.device, one.port, one.kind.name) for one in self.published.of(Event)]


@asynccontextmanager
async def collecting(folder: Path, *inputs: str, **settings: Any) -> AsyncIterator[Collecting]:
    values = {"inputs": inputs, "targets": [SWITCH], "state_file": folder / "state.json"} | settings
    published, metrics = RecordingPublisher(), CollectorMetrics()
    addresses: asyncio.Future[list[tuple[str, int]]] = asyncio.get_running_loop().create_future()
    context = CollectorContext(published, "test", metrics)
    async with run_beside(collect(params_of(Params, values), context, addresses.set_result)):
        yield Collecting([port for _, port in await addresses], published, metrics)
    metrics.add("settled", EVENTS.name, len(published.of(Event)))
    context.at_end.close()


def line(text: str) -> bytes:
    """Return a line of a switch that is sent now."""
    return f"<187>{datetime.now(UTC):%b %d %H:%M:%S.%f} leaf1 {text}".encode()


def link(state: str, port: str = "Ethernet1") -> bytes:
    return line(f"Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface {port}, changed state to {state}")


def counted(one: bytes) -> bytes:
    return b"%d %s" % (len(one), one)


def connected(port: int, context: ssl.SSLContext | None = None) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=10)
    return plain if context is None else context.wrap_socket(plain, server_hostname="127.0.0.1")


@contextmanager
def rsyslog(folder: Path, port: int, action: str) -> Iterator[Path]:
    """Run rsyslogd, which forwards what is written to the yielded socket of programs."""
    inlet, configuration = folder / "log", folder / "rsyslog.conf"
    configuration.write_text(
        f'global(workDirectory="{folder}" localHostname="leaf1" maxMessageSize="8k"'
        f' defaultNetstreamDriverCAFile="{folder / "ca.pem"}")\n'
        f'module(load="imuxsock" SysSock.Name="{inlet}" SysSock.RateLimit.Interval="0")\n'
        f'action(type="omfwd" target="127.0.0.1" port="{port}" {action})\n'
    )
    command = [program("rsyslogd"), "-n", "-f", str(configuration), "-i", str(folder / "pid")]
    with (folder / "rsyslog.out").open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as running:
        try:
            yield inlet
        finally:
            running.terminate()


def log(inlet: Path, tag: str, text: str) -> None:
    """Write a line as a program of the switch does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.connect(str(inlet))
        to.send(f"<28>{datetime.now(UTC):%b %e %H:%M:%S} {tag}: {text}".encode())


@pytest.mark.parametrize(
    ("form", "action"),
    [
        ("udp", 'protocol="udp"'),
        ("udp", 'protocol="udp" template="RSYSLOG_SyslogProtocol23Format"'),
        ("tcp", 'protocol="tcp"'),
        ("tcp", 'protocol="tcp" TCP_Framing="octet-counted" template="RSYSLOG_SyslogProtocol23Format"'),
        ("tls", 'protocol="tcp" TCP_Framing="octet-counted" StreamDriver="gtls" StreamDriverMode="1"'
         ' StreamDriverAuthMode="x509/certvalid"'),
        ("tls", 'protocol="tcp" StreamDriver="gtls" StreamDriverMode="1" StreamDriverAuthMode="anon"'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sender", [SWITCH, RELAY], ids=lambda target: target["name"])
async def test_lines_of_rsyslog_are_events(form: str, action: str, sender: dict[str, Any], tmp_path: Path) -> None:
    """By address as a switch, or by the name in the lines as a relay; each transition once, with its time."""
    authority = CertificateAuthority(tmp_path)
    cert, key = authority.signed("collector")
    tls = {"cert_file": cert, "key_file": key} if form == "tls" else {}
    targets = [sender, {"name": "leaf1", "addresses": ["192.0.2.1"]}] if sender is RELAY else [sender]
    async with collecting(tmp_path, f"{form}://127.0.0.1:0", targets=targets, **tls) as now:
        with rsyslog(tmp_path, now.ports[0], action) as inlet:
            begun_ns = time.time_ns()
            await now.until(inlet.exists)
            for state in ("down", "up", "down"):
                text = f"SNMP_TRAP_LINK_{state.upper()}: ifIndex 5, ifAdminStatus up(1), ifOperStatus {state}(2), "
                log(inlet, "mib2d[2]", f"{text}ifName et-0/0/1:0")
            await now.until(lambda: len(now.events()) == 3)
    port = "et-0/0/1:0"
    assert now.events() == [("leaf1", port, "LINK_DOWN"), ("leaf1", port, "LINK_UP"), ("leaf1", port, "LINK_DOWN")]
    times = [one.at_ns for one in now.published.of(Event)]
    assert times == sorted(set(times))
    assert all(begun_ns - 2_000_000_000 < at <= time.time_ns() for at in times)


async def test_one_flood_costs_others_nothing_and_is_counted(tmp_path: Path) -> None:
    """100,000 lines and more in a second; those that neither the kernel nor the limit admits are counted."""
    others = {"name": "leaf2", "addresses": ["127.0.0.2"]}
    async with collecting(tmp_path, "udp://127.0.0.1:0", targets=[SWITCH, others]) as now:
        flood = link("down")

        def send() -> int:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to:
                to.bind(("127.0.0.1", 0))
                to.connect(("127.0.0.1", now.ports[0]))
                for _ in range(100_000):
                    to.send(flood)
            return 100_000

        sent = await asyncio.to_thread(send)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to:
            to.bind(("127.0.0.2", 0))
            to.connect(("127.0.0.1", now.ports[0]))

            def received() -> bool:
                nonlocal sent
                sent += to.send(link("down", "Ethernet2")) > 0
                return ("leaf2", "Ethernet2", "LINK_DOWN") in now.events()

            await now.until(received)

        def counted_lines() -> int:
            limited = now.metrics.by_label("throttled")
            dropped = sum(count for of, count in limited.items() if not of.startswith("events of "))
            return now.metrics.value("updates") + dropped

        await now.until(lambda: counted_lines() == sent)
        assert len([one for one in now.events() if one[:2] == ("leaf1", "Ethernet1")]) <= 40
        await now.until(lambda: any("rate limit" in one.detail for one in now.published.of(Event, "leaf1")))


async def test_hostile_connections_end_and_are_counted(tmp_path: Path) -> None:
    """Garbage, an endless count, a half line, a handshake that never comes; a good connection beside them is read."""
    cert, key = certificate(tmp_path, "collector")
    settings: dict[str, Any] = {"cert_file": cert, "key_file": key, "incomplete_s": 0.5, "max_connections_of_one": 3}
    async with collecting(tmp_path, "tcp://127.0.0.1:0", "tls://127.0.0.1:0", **settings) as now:
        for data in (b"GET / HTTP/1.0\r\n", b"99999 <1>x", b"123456 <1>x", b"0 <1>x", b"12"):
            with connected(now.ports[0]) as hostile:
                hostile.sendall(data)
                assert await asyncio.to_thread(hostile.recv, 1) == b""
        with connected(now.ports[0]) as good, connected(now.ports[0]) as second, connected(now.ports[0]) as third:
            good.sendall(counted(link("down")))
            for each in (second, third):
                each.sendall(link("down", "Ethernet3")[:9])
            await now.until(lambda: now.metrics.value("reconnects") >= 3)
            good.sendall(counted(link("up")))
            await now.until(lambda: len(now.events()) == 2)
        with connected(now.ports[1]) as silent:
            assert await asyncio.to_thread(silent.recv, 1) == b""
        assert now.metrics.value("unreadable") >= 4
        several = [connected(now.ports[0]) for _ in range(8)]
        await now.until(lambda: now.metrics.value("not_admitted") >= 5)
        for each in several:
            each.close()


@pytest.mark.parametrize("certified", ["leaf1", "leaf9", ""])
async def test_a_client_certificate_names_the_device(certified: str, tmp_path: Path) -> None:
    """Whatever its address; without a certificate, or with another name, there is no connection."""
    authority = CertificateAuthority(tmp_path)
    cert, key = authority.signed("collector")
    settings = {"cert_file": cert, "key_file": key, "client_ca_file": authority.file, "targets": [{"name": "leaf1"}]}
    client = ssl.create_default_context(cafile=str(authority.file))
    if certified:
        client.load_cert_chain(*authority.signed(certified))
    async with collecting(tmp_path, "tls://127.0.0.1:0", **settings) as now:

        def send() -> None:
            with connected(now.ports[0], client) as to:
                to.sendall(counted(link("down")))
                to.recv(1)

        sending = asyncio.create_task(asyncio.to_thread(send))
        if certified == "leaf1":
            await now.until(lambda: now.events() == [("leaf1", "Ethernet1", "LINK_DOWN")])
        else:
            await now.until(lambda: now.metrics.value("not_admitted") > 0)
            assert not now.events()
    await asyncio.wait([sending])
    sending.exception()


async def test_what_no_target_sends_is_counted_and_nothing_else(tmp_path: Path) -> None:
    """An unknown address, and a host that the lines of a relay name."""
    stranger = {"name": "leaf1", "addresses": ["192.0.2.1"]}
    for targets in ([stranger], [RELAY, {"name": "leaf7", "addresses": ["192.0.2.1"]}]):
        async with collecting(tmp_path, "udp://127.0.0.1:0", targets=targets) as now:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to:
                to.sendto(link("down"), ("127.0.0.1", now.ports[0]))
            await now.until(lambda: now.metrics.value("not_admitted") == 1)
            assert not now.published.messages


async def test_a_file_is_followed_through_rotation_and_a_restart(tmp_path: Path) -> None:
    """Only new lines count; lines that were written while no process ran are read once."""
    path = tmp_path / "network.log"
    path.write_bytes(link("down", "Ethernet9") + b"\n")
    seen: list[str] = []
    for round_ in range(3):
        async with collecting(tmp_path, f"file:{path}") as now:
            with path.open("ab") as file:
                file.write(link("down", f"Ethernet{round_}") + b"\n")
            await now.until(lambda: ("leaf1", f"Ethernet{round_}", "LINK_DOWN") in now.events())  # noqa: B023
            seen += [port for _, port, _ in now.events()]
        path.rename(tmp_path / f"network.log.{round_ + 1}")
        path.write_bytes(b"")
    assert seen == ["Ethernet0", "Ethernet1", "Ethernet2"]


async def test_a_topic_of_raw_lines_is_read_and_continued(tmp_path: Path) -> None:
    """As syslog-ng, Vector and Kafka Connect write them; a second process begins after the published lines."""
    with contextlib.ExitStack() as stack:
        broker = await asyncio.to_thread(stack.enter_context, EmbeddedKafka(KafkaParams(data=tmp_path / "kafka")))
        await create_topics(broker.bootstrap, NewTopic("raw", 2, 1))
        core = Core(client_options={"bootstrap_servers": broker.bootstrap}, partitions=PARTITIONS, collector="syslog@a")
        settings = {"inputs": ["topic:raw"], "targets": [SWITCH], "state_file": tmp_path / "state.json"}
        for ports in ({"Ethernet1"}, {"Ethernet1", "Ethernet2"}):
            async with (
                run_beside(SPEC.run(params_of(Params, settings), core)),
                AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer,
                asyncio.timeout(60),
            ):
                found: list[Event] = []
                while {one.port for one in found} < ports:  # lines before the group's first assignment are skipped
                    for state in ("down", "up"):
                        text = {"message": link(state, max(ports)).decode(), "host": "leaf1"}
                        await producer.send_and_wait("raw", json.dumps(text).encode())
                    with contextlib.suppress(TimeoutError):
                        found = await read(broker.bootstrap, EVENTS, lambda some: len(some) > 1, 2)
                assert {(one.device, one.port) for one in found} == {("leaf1", port) for port in ports}

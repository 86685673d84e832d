"""Tests prober and responder on loopback with real sockets: two hosts, one that stops, and a hostile peer."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics
from collectors.probe.collector import ProbeAgent
from collectors.probe.packet import LENGTH, Kind, Packet, encode
from collectors.probe.params import Params
from lab.constants import params_of
from streams.fabric.inventory import Device, Inventory, Link, PortName, write_folder
from streams.wire.errors import Misconfigured
from streams.wire.models import CollectorStatus, ProbeReport, Source
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.ports import free_port

ADDRESSES = {"h0": "127.77.0.1", "h1": "127.77.0.2"}
STRANGER = "127.77.9.9"


def inventory() -> Inventory:
    devices = (*(Device(name, "host", "host", "pod1") for name in ADDRESSES), Device("leaf", "switch", "T0", "pod1"))
    links = tuple(Link(name, "e0", "leaf", f"d{n}", "host-link", 0) for n, name in enumerate(ADDRESSES))
    return Inventory(devices, links, tuple(PortName(name, "e0", address) for name, address in ADDRESSES.items()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(inventory(), tmp_path / "inventory")
    return tmp_path / "inventory"


@pytest.fixture
def settings(folder: Path) -> dict[str, object]:
    port = free_port(socket.SOCK_DGRAM)
    return {
        "inventory": folder, "port": port, "source_ports": 4,
        "interval_s": 0.1, "window_s": 1.0, "timeout_s": 0.1, "tick_s": 0.05, "stall_s": 5.0,
    }  # fmt: skip


@contextlib.asynccontextmanager
async def running(*agents: ProbeAgent) -> AsyncIterator[None]:
    """Run agents; a failure of one is raised at the end."""
    tasks = [asyncio.create_task(agent.run()) for agent in agents]
    try:
        yield
    finally:
        for task in tasks:
            if not task.done():
                task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for agent in agents:
            agent.close()
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result


def agent(device: str, publisher: RecordingPublisher, settings: dict[str, object], **more: object) -> ProbeAgent:
    params = params_of(Params, settings | {"device": device} | more)
    return ProbeAgent(params, CollectorContext(publisher, f"probe@{device}"))


async def test_two_hosts_measure_each_other_and_a_host_without_a_responder_is_no_loss(
    settings: dict[str, object],
) -> None:
    """With the kernel's times; where no responder runs any more, the ICMP errors discard the probes."""
    publisher = RecordingPublisher()
    one, other = agent("h0", publisher, settings), agent("h1", publisher, settings)

    def reports() -> list[ProbeReport]:
        return [report for report in publisher.of(ProbeReport, "h0") if sum(report.flow_sent) > 0]

    async with running(one):
        async with running(other):
            await publisher.until(lambda: len(reports()) >= 2)
        healthy = reports()
        await publisher.until(lambda: sum(publisher.of(ProbeReport, "h0")[-1].flow_discarded) > 0)
    for report in healthy:
        assert report.address[report.flow_source[0]] == ADDRESSES["h0"]
        assert report.address[report.flow_target[0]] == ADDRESSES["h1"]
        assert report.end_ns - report.begin_ns <= 1_000_000_000 and report.end_ns % 1_000_000_000 == 0
        assert sum(report.flow_forward_lost) + sum(report.flow_reverse_lost) + sum(report.flow_unanswered) == 0
        assert 0 < report.flow_rtt_p50_ns[0] <= report.flow_rtt_p99_ns[0] < 1_000_000_000
    assert [report.sequence for report in publisher.of(ProbeReport, "h0")][:2] == [1, 2]
    lost = [sum(report.flow_unanswered) for report in publisher.of(ProbeReport, "h0")]
    assert sum(lost) <= 1  # the one whose error came while the responder closed
    assert publisher.of(CollectorStatus, "h0")[0].source is Source.SOURCE_PROBE


async def test_a_hostile_peer_gets_nothing_and_harms_no_measurement(settings: dict[str, object]) -> None:
    """Floods from outside, forged replies, reflection, garbage: no answer, no loss, no wrong time."""
    publisher = RecordingPublisher()
    one, other = agent("h0", publisher, settings), agent("h1", publisher, settings)
    port = int(str(settings["port"]))
    with contextlib.ExitStack() as stack:
        stranger, insider = (stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(2))
        stranger.bind((STRANGER, 0))
        insider.bind((ADDRESSES["h0"], 0))
        for own in (stranger, insider):
            own.setblocking(False)
        async with running(one, other):
            await publisher.until(lambda: len(publisher.of(ProbeReport)) >= 2)
            flow = one.prober.flow_keys[0]
            for number in range(3000):
                request = encode(Packet(Kind.PROBE, number, 0, number))
                stranger.sendto(request, (ADDRESSES["h1"], port))
                stranger.sendto(
                    encode(Packet(Kind.REPLY, number, 0, number, number=7)), (ADDRESSES["h0"], flow.source_port)
                )
                insider.sendto(bytes(number % 200), (ADDRESSES["h1"], port))
                if number < 5:
                    insider.sendto(request, (ADDRESSES["h1"], port))
                if number % 200 == 0:
                    await asyncio.sleep(0)
            count = len(publisher.of(ProbeReport))
            await publisher.until(lambda: len(publisher.of(ProbeReport)) >= count + 4)
            answers = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    answers.append(insider.recv(2 * LENGTH))
            assert len(answers) == 5 and {len(answer) for answer in answers} == {LENGTH}
            with pytest.raises(BlockingIOError):
                stranger.recv(2 * LENGTH)
    assert one.prober.forged > 0
    for report in publisher.of(ProbeReport):
        assert sum(report.flow_forward_lost) + sum(report.flow_reverse_lost) == 0
        assert all(rtt < 1_000_000_000 for rtt in report.flow_rtt_p99_ns)


async def test_a_refused_inventory_changes_nothing_and_is_counted_once(
    settings: dict[str, object], folder: Path
) -> None:
    """It lacks the host's own rail, or is invalid; the next valid one is in force."""
    publisher, metrics = RecordingPublisher(), CollectorMetrics()
    params = params_of(Params, settings | {"device": "h0", "inventory_check_s": 0.1})
    one = ProbeAgent(params, CollectorContext(publisher, "probe@h0", metrics))
    ports, valid = folder / "ports.csv", (folder / "ports.csv").read_text("utf-8")

    def write(text: str) -> int:
        """Replace the table at once; return the number of reports before."""
        (folder / "new").write_text(text, "utf-8")
        (folder / "new").rename(ports)
        return len(publisher.of(ProbeReport))

    async with running(one):
        await publisher.until(lambda: bool(publisher.of(ProbeReport)))
        for refused, text in enumerate((valid.replace(f"h0,e0,{ADDRESSES['h0']}\n", ""), "device\n"), start=1):
            before = write(text)
            await publisher.until(lambda: len(publisher.of(ProbeReport)) >= before + 3)  # noqa: B023 — awaited here
            assert metrics.value("reload_refused") == refused
            assert publisher.of(ProbeReport)[-1].address == tuple(ADDRESSES.values())
        write(valid.replace(ADDRESSES["h1"], "127.77.0.3"))
        await publisher.until(lambda: "127.77.0.3" in publisher.of(ProbeReport)[-1].address)


async def test_a_host_that_the_inventory_does_not_name_is_one_clear_error(settings: dict[str, object]) -> None:
    """It names the host, the folder and the next step."""
    with pytest.raises(Misconfigured, match=r"host-x has no port with an address in .*inventory; add the addresses"):
        await agent("host-x", RecordingPublisher(), settings).run()
    with pytest.raises(Misconfigured, match=r"no inventory; set collect\.probe\.inventory"):
        await agent("h0", RecordingPublisher(), settings, inventory=None).run()

"""Tests the simulated switches as SNMP agents, and the collector that reads them: the same world, the same faults."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import orjson

from collectors.core.clock import SystemClock
from collectors.core.columns import json_lines
from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics
from collectors.snmp.collector import collect
from collectors.snmp.params import Params
from lab.constants import params_of
from lab.servers.snmp_agent import SnmpServers
from lab.world.demo_world import DemoWorld
from lab.world.effects import Interval
from lab.world.faults.devices import Reboot
from lab.world.faults.links import AdminDown, LinkFlap
from lab.world.ground_truth import AnyFault
from streams.fabric.inventory import Inventory
from streams.wire.models import CollectorStatus, Event, EventKind, Facts, Samples, Source
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.ports import free_port
from tests.fixtures.running_task import run_beside
from tests.fixtures.snmp_packets import damaged, table
from tests.fixtures.waiting import until
from tests.integration.collectors.fabric import world_of
from tests.integration.collectors.snmp_peers import sent

LEAF = "pod1-leaf1"
S = 10**9


def simulated(addresses: dict[str, str], **settings: object) -> Params:
    targets = [{"name": name, "address": address} for name, address in addresses.items()]
    quick = {"cadence_s": 0.3, "timeout_s": 1, "tries": 1, "deadline_s": 3}
    login = {} if "version" in settings else {"community": "public"}
    return params_of(Params, {"targets": targets} | quick | login | settings)


@asynccontextmanager
async def collecting(params: Params) -> AsyncIterator[tuple[RecordingPublisher, CollectorMetrics]]:
    """Run the collector."""
    retained, metrics = RecordingPublisher(), CollectorMetrics()
    async with run_beside(collect(params, CollectorContext(retained, "test", metrics))):
        yield retained, metrics


@asynccontextmanager
async def hearing(world: DemoWorld) -> AsyncIterator[RecordingPublisher]:
    """Run the simulation's agents, and the collector that polls them and receives their traps."""
    port = free_port(socket.SOCK_DGRAM)
    async with (
        SnmpServers(world, SystemClock(), trap_to=("127.0.0.1", port)) as face,
        collecting(simulated(face.addresses, traps=f"127.0.0.1:{port}")) as (retained, _),
    ):
        yield retained


def rows(samples: Samples) -> dict[str, dict[str, Any]]:
    return {row["port"]: row["metrics"] for row in map(orjson.loads, json_lines(samples))}


def link(inventory: Inventory, leaf: str = LEAF) -> Any:
    return next(each for each in inventory.links if each.z_device == leaf)


async def test_readings_equal_the_world() -> None:
    """Every port of every switch has its traffic at the time of reading and its states; facts identify the switch."""
    world = world_of()
    async with SnmpServers(world, SystemClock()) as face, collecting(simulated(face.addresses)) as (retained, _):
        await retained.until(lambda: {s.device for s in retained.of(Samples)} == set(world.switches), 20)
        await retained.until(lambda: {f.device for f in retained.of(Facts)} == set(world.switches), 20)
        for samples in retained.of(Samples):
            assert samples.source is Source.SOURCE_SNMP and samples.boot_id
            result = rows(samples)
            assert set(result) == set(world.ports[samples.device])
            for name, metrics in result.items():
                early, late = (
                    world.port(samples.device, name, at_ns)
                    for at_ns in (2 * samples.sampled_at_ns - samples.received_at_ns, samples.received_at_ns)
                )
                assert early.rx_bytes <= metrics["rx_bytes"] <= late.rx_bytes
                assert early.tx_packets <= metrics["tx_packets"] <= late.tx_packets
                assert (metrics["oper_up"], metrics["admin_up"], metrics["speed_bps"]) == (1, 1, late.speed_bps)
                assert "rx_power_dbm[0]" not in metrics
        facts = next(facts for facts in retained.of(Facts) if facts.device == LEAF)
        known = next(device for device in world.inventory.devices if device.name == LEAF)
        assert (facts.vendor, facts.model, facts.serial) == (known.vendor, known.model, known.serial)
        far = {(n.port, n.remote_device, n.remote_port) for n in facts.neighbors}
        expected = {(p, world.neighbor(LEAF, p, facts.observed_at_ns)) for p in world.ports[LEAF]}
        assert far == {(port, there.device, there.port) for port, there in expected}
        assert all(status.reachable for status in retained.of(CollectorStatus))


async def test_traps_report_a_flap_within_a_second() -> None:
    """Each down and each up is an event of its port, with its time; an administrative shutdown is reported first."""

    def faulty(inventory: Inventory, now_ns: int) -> list[AnyFault]:
        downs = (Interval(now_ns + 6 * S, now_ns + 7 * S), Interval(now_ns + 8 * S, now_ns + 9 * S))
        shut = link(inventory, "pod1-leaf2")
        return [LinkFlap(link(inventory), downs), AdminDown(shut, shut.z, Interval(now_ns + 6 * S, now_ns + 8 * S))]

    world = world_of(faulty)
    moments = world.changes(LEAF)
    async with hearing(world) as retained:
        await retained.until(
            lambda: len(retained.of(Event, LEAF)) == 4 and len(retained.of(Event, "pod1-leaf2")) == 4, 20
        )
        events = retained.of(Event, LEAF)
        assert [event.kind for event in events] == 2 * [EventKind.LINK_DOWN, EventKind.LINK_UP]
        assert {event.port for event in events} == {link(world.inventory).z_port}
        for event, moment_ns in zip(events, moments, strict=True):
            assert 0 <= event.at_ns - moment_ns < S
        kinds = [event.kind for event in retained.of(Event, "pod1-leaf2")]
        assert kinds == [EventKind.ADMIN_DOWN, EventKind.LINK_DOWN, EventKind.ADMIN_UP, EventKind.LINK_UP]


async def test_a_reboot_is_reported_by_trap_and_by_poll_with_another_boot() -> None:
    """While down, it is unreachable; afterwards its boot differs, counters restarted, and events give the reason."""

    def faulty(inventory: Inventory, now_ns: int) -> list[AnyFault]:
        return [Reboot(LEAF, Interval(now_ns + 8 * S, now_ns + 10 * S))]

    async with hearing(world_of(faulty)) as retained:
        await retained.until(lambda: len({s.boot_id for s in retained.of(Samples, LEAF)}) == 2, 30)
        first, *_, last = retained.of(Samples, LEAF)
        name = first.row[0]
        assert rows(first)[name]["rx_bytes"] > 1000 * rows(last)[name]["rx_bytes"]
        await retained.until(lambda: retained.of(CollectorStatus, LEAF)[-1].reachable)
        assert not all(status.reachable for status in retained.of(CollectorStatus, LEAF))
        (restart,) = (event for event in retained.of(Event, LEAF) if event.kind is EventKind.DEVICE_REBOOT)
        assert restart.detail.startswith("sysUpTime") and restart.detail.endswith("coldStart")
        assert {event.kind for event in retained.of(Event, LEAF)} == {EventKind.DEVICE_REBOOT}
        assert len({s.boot_id for s in retained.of(Samples, "pod1-leaf2")}) == 1


class Hostile(asyncio.DatagramProtocol):
    """Answers each request with a burst of damaged responses."""

    def __init__(self) -> None:
        self.requests = 0
        self._noise = damaged(table(), 10_000_000, seed=3)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        self.requests += 1
        for _ in range(50):
            self._transport.sendto(next(self._noise)[:1400], address)


async def test_a_hostile_device_and_a_silent_one_do_not_affect_the_others() -> None:
    """The others' readings arrive at their cadence; each refusal is counted, and a status has the error."""
    world = world_of()
    loop = asyncio.get_running_loop()
    transport, hostile = await loop.create_datagram_endpoint(Hostile, local_addr=("127.0.0.1", 0))
    with contextlib.closing(transport), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        async with SnmpServers(world, SystemClock()) as face:
            bad = {
                "hostile": f"127.0.0.1:{transport.get_extra_info('sockname')[1]}",
                "silent": f"127.0.0.1:{silent.getsockname()[1]}",
            }
            async with collecting(simulated(face.addresses | bad)) as (retained, metrics):
                await retained.until(lambda: len(retained.of(Samples, LEAF)) >= 10, 30)
                await retained.until(lambda: metrics.value("unreadable", "hostile") > 200, 30)
                await retained.until(lambda: any(retained.of(CollectorStatus, "silent")))
                assert not retained.of(Samples, "hostile") and not retained.of(Samples, "silent")
                assert "no answer" in retained.of(CollectorStatus, "hostile")[-1].error
                times = [samples.sampled_at_ns for samples in retained.of(Samples, LEAF)]
                assert sorted(b - a for a, b in pairwise(times))[len(times) // 2] < S
                assert metrics.value("unreadable", LEAF) == 0 and hostile.requests > 3


async def test_traps_and_informs_of_net_snmp_are_received_and_no_others() -> None:
    """Versions 2c and 3 arrive within a second and are acknowledged if requested; a wrong community is counted."""
    kinds = {"coldStart": 1, "warmStart": 2, "linkDown": 3, "linkUp": 4}
    port = free_port(socket.SOCK_DGRAM)
    secrets = ("authentic-secret", "private-secret")
    v3 = {"version": "3", "username": "rail", "auth_secret": secrets[0], "privacy_secret": secrets[1]}
    silent = free_port(socket.SOCK_DGRAM)
    logins: tuple[tuple[dict[str, object], tuple[str, ...]], ...] = (
        ({}, ("-v2c", "-c", "public")),
        (
            dict(v3),
            ("-v3", "-u", "rail", "-l", "authPriv", "-a", "SHA-256", "-A", secrets[0], "-x", "AES", "-X", secrets[1]),
        ),
    )
    for settings, login in logins:
        params = simulated({"sw1": f"127.0.0.1:{silent}"}, traps=f"127.0.0.1:{port}", **settings)
        async with collecting(params) as (retained, metrics):
            await retained.until(lambda retained=retained: any(retained.of(CollectorStatus)))  # type: ignore[misc]
            began_ns: list[int] = []
            about = ("1.3.6.1.2.1.2.2.1.1.7", "i", "7", "1.3.6.1.2.1.31.1.1.1.1.7", "s", "Ethernet7")
            for program in ("snmptrap", "snmpinform"):
                for number in kinds.values():
                    engine = ("-e", "0x80001f8804aabbccdd") if program == "snmptrap" and settings else ()
                    trap = f"1.3.6.1.6.3.1.1.5.{number}"
                    began_ns.append(time.time_ns())
                    await sent(program, "-m", "", *engine, *login, f"127.0.0.1:{port}", "", trap, *about)
            await retained.until(lambda retained=retained: len(retained.of(Event)) == 8)  # type: ignore[misc]
            assert [event.detail for event in retained.of(Event)] == 2 * list(kinds)
            assert [event.port for event in retained.of(Event)] == 2 * ["", "", "Ethernet7", "Ethernet7"]
            late_ns = [event.at_ns - began for event, began in zip(retained.of(Event), began_ns, strict=True)]
            assert all(0 <= late < S for late in late_ns), late_ns
            before = metrics.value("unreadable", "sw1")
            await sent("snmptrap", "-m", "", "-v2c", "-c", "wrong", f"127.0.0.1:{port}", "", "1.3.6.1.6.3.1.1.5.3")
            await until(lambda metrics=metrics, before=before: metrics.value("unreadable", "sw1") > before)  # type: ignore[misc]
            assert len(retained.of(Event)) == 8

"""Tests the running host agent: on the logs of a simulated fabric, on a real Kafka, and on this machine's own log."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer

from collectors.core.clock import SystemClock
from collectors.core.context import CollectorContext
from collectors.core.metrics import CollectorMetrics
from collectors.core.params import Core, PublisherParams
from collectors.host.collector import SPEC, collect
from collectors.host.lines import Times, record, system_boot_ns
from collectors.host.log_sources import kmsg_of
from collectors.host.params import Params
from lab.constants import with_constants
from lab.servers.kernel_log_writer import KernelLogWriter, kernel_log_lines
from lab.servers.sysfs_writer import SysfsWriter
from lab.world import demo_fabric
from lab.world.demo_world import DemoWorld
from lab.world.effects import Interval
from lab.world.faults.devices import Reboot
from lab.world.faults.links import LinkDown, LinkFlap
from lab.world.ground_truth import AnyFault
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.fabric.inventory import Link
from streams.wire.errors import Reject
from streams.wire.models import Event, EventKind
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, FACTS, SAMPLES, Partitions, decode
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.host_tree import machine
from tests.fixtures.running_task import run_beside
from tests.fixtures.waiting import until
from tests.integration.fixtures_kafka import create_topics

SHAPE = demo_fabric.DemoShape(pods=1, hosts=1, planes=1, spines=1, uplinks=1)
HOST = "pod1-host1"
S = 10**9
CLOSE_NS = S // 2
"""A line is written and read within a tenth of a second each, and its time is that exact."""


def world_of(now_ns: int, faulty: Callable[[dict[str, Link]], list[AnyFault]]) -> DemoWorld:
    """Return one host, its leaves and a spine, with these faults."""
    inventory = demo_fabric.inventory(SHAPE, now_ns)
    return DemoWorld(
        inventory, faulty({link.a_port: link for link in inventory.links if link.a_device == HOST}), 1, now_ns
    )


@asynccontextmanager
async def listening(sysfs: SysfsWriter, log: KernelLogWriter, folder: Path) -> AsyncIterator[RecordingPublisher]:
    """Run the agent of the host."""
    retained = RecordingPublisher()
    params = with_constants(Params, log_poll_s=0.05, discover_every_s=1)(
        device=HOST, root=sysfs.root(HOST), kernel_log=log.file(HOST), cadence_s=0.5, state_file=folder / "state.json"
    )
    context = CollectorContext(retained, "host", CollectorMetrics(), 7, random.Random(1))
    with context.at_end:
        async with run_beside(collect(params, context)):
            yield retained


def links(retained: RecordingPublisher) -> list[Event]:
    return [event for event in retained.of(Event) if event.kind in {EventKind.LINK_UP, EventKind.LINK_DOWN}]


async def test_a_flap_is_reported_as_it_happens(tmp_path: Path) -> None:
    """Each down and up of the port that the NIC collector names, at the time of the world."""
    clock = SystemClock()
    now_ns = clock.now_ns()
    downs = (Interval(now_ns + 2 * S, now_ns + 3 * S), Interval(now_ns + 4 * S, now_ns + 5 * S))
    world = world_of(now_ns, lambda link: [LinkFlap(link["mlx5_3"], downs)])
    async with (
        SysfsWriter(world, clock, tmp_path / "sysfs", every_s=0.1) as sysfs,
        KernelLogWriter(world, clock, tmp_path / "logs", every_s=0.05) as log,
        listening(sysfs, log, tmp_path) as retained,
    ):
        await retained.until(lambda: len(links(retained)) == 4, 30)
    emitted = links(retained)
    assert {(event.device, event.port) for event in emitted} == {(HOST, "mlx5_3")}
    assert [event.kind for event in emitted] == [EventKind.LINK_DOWN, EventKind.LINK_UP] * 2
    for event, at_ns in zip(emitted, (moment for span in downs for moment in span), strict=True):
        assert abs(event.at_ns - at_ns) < CLOSE_NS and event.at_ns <= event.received_at_ns


async def test_a_reboot_of_a_host_gives_another_boot(tmp_path: Path) -> None:
    """Its clock begins at 0, and its links come up when the host does."""
    clock = SystemClock()
    now_ns = clock.now_ns()
    away = Interval(now_ns + 2 * S, now_ns + 4 * S)
    world = world_of(
        now_ns, lambda link: [Reboot(HOST, away), LinkDown(link["mlx5_0"], Interval(now_ns + 6 * S, now_ns + 99 * S))]
    )
    async with (
        SysfsWriter(world, clock, tmp_path / "sysfs", every_s=0.05) as sysfs,
        KernelLogWriter(world, clock, tmp_path / "logs", every_s=0.05) as log,
        listening(sysfs, log, tmp_path) as retained,
    ):
        await retained.until(lambda: any(event.kind is EventKind.LINK_DOWN for event in links(retained)), 30)
    *ups, down = links(retained)
    assert sorted(event.port for event in ups) == [f"mlx5_{number}" for number in range(demo_fabric.RAILS)]
    assert all(abs(event.at_ns - away.end_ns) < CLOSE_NS for event in ups)
    assert (down.port, abs(down.at_ns - now_ns - 6 * S) < CLOSE_NS) == ("mlx5_0", True)


def test_the_log_of_the_world_is_the_same_in_one_piece_and_in_many() -> None:
    """A healthy host has no log lines."""
    start_ns = 1_700_000_000 * S

    def faulty(link: dict[str, Link]) -> list[AnyFault]:
        return [
            LinkFlap(
                link["mlx5_1"], (Interval(start_ns + S, start_ns + 2 * S), Interval(start_ns + 3 * S, start_ns + 4 * S))
            ),
            Reboot(HOST, Interval(start_ns + 10 * S, start_ns + 20 * S)),
        ]

    world = world_of(start_ns, faulty)
    whole = [*kernel_log_lines(world, HOST, start_ns, start_ns + 30 * S)]
    steps = range(0, 30 * S, S // 3)
    pieces = [
        line
        for at in steps
        for line in kernel_log_lines(world, HOST, start_ns + at, min(start_ns + at + S // 3, start_ns + 30 * S))
    ]
    assert pieces == whole
    assert (
        sum("Link down" in line for line in whole) == 2
        and sum("Link up" in line for line in whole) == 2 + demo_fabric.RAILS
    )
    assert next(line for line in whole if line.startswith("<6>[    0.000000]")).endswith("PREEMPT_DYNAMIC")
    assert [*kernel_log_lines(world_of(start_ns, lambda _: []), HOST, start_ns, start_ns + 30 * S)] == []


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield a broker for this module, because the topics have their real names."""
    with EmbeddedKafka(KafkaParams(data=tmp_path_factory.mktemp("kafka"))) as running:
        yield running.bootstrap


async def test_over_a_restart_every_event_is_in_kafka_once(tmp_path: Path, broker: str) -> None:
    """Acknowledged events are not sent again; events written meanwhile are sent."""
    await create_topics(broker, *(topic.name for topic in (EVENTS, SAMPLES, FACTS, COLLECTOR_STATUS)))
    root, log = machine(tmp_path), tmp_path / "kern.log"
    log.touch()
    core = Core(client_options={"bootstrap_servers": broker}, partitions=Partitions(telemetry=1), collector="host@test",
                publisher=PublisherParams(spool=tmp_path / "spool"))  # fmt: skip
    params = with_constants(Params, log_poll_s=0.05)(
        device="gpu17", root=root, kernel_log=log, cadence_s=0.5, state_file=tmp_path / "state.json"
    )
    consumer = AIOKafkaConsumer(EVENTS.name, bootstrap_servers=broker, auto_offset_reset="earliest")
    await consumer.start()
    codes: list[int] = []

    async def until_read(wanted: int) -> None:
        async with asyncio.timeout(60):
            while len(codes) < wanted:
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    events = [decode(EVENTS, record.value, record.headers) for record in records]
                    codes.extend(event.code for event in events if isinstance(event, Event))

    def write(*numbers: int) -> None:
        with log.open("a") as file:
            file.writelines(f"2026-01-02T03:04:05Z gpu17 kernel: NVRM: Xid (PCI:0000:9b:00): {n}, x\n" for n in numbers)

    try:
        for turn in range(3):
            work = asyncio.create_task(SPEC.run(params, core))
            await until(params.state_path().exists, 30)  # the first reads on from the end that it found
            write(10 * turn + 1, 10 * turn + 2)
            await until_read(4 * turn + 2)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            write(10 * turn + 3, 10 * turn + 4)
        work = asyncio.create_task(SPEC.run(params, core))
        await until_read(12)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        for _ in range(5):
            assert not await consumer.getmany(timeout_ms=100)
    finally:
        await consumer.stop()
    assert codes == [10 * turn + n for turn in range(3) for n in (1, 2, 3, 4)]


def test_the_log_of_this_machine_is_read_completely() -> None:
    """Every record is parsed, and none has a time in the future."""
    try:
        source = kmsg_of(Path("/dev/kmsg"), 1, None)
    except Reject as error:
        pytest.skip(f"the kernel log may not be read here: {error}")
    clock, times = SystemClock(), Times(system_boot_ns)
    with contextlib.closing(source):
        chunk = source.read(1_000_000)
    now_ns = clock.now_ns()
    if not chunk.lines:
        pytest.skip("the kernel log is empty")
    assert chunk.is_drained and not chunk.refused and not chunk.lost
    booted_ns = system_boot_ns()
    for data in chunk.lines:
        line = record(data)
        at_ns = times.at_ns(line, now_ns, None)
        assert line.sequence is not None and at_ns is not None and booted_ns - S <= at_ns <= now_ns

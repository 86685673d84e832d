"""Tests the NIC collector on the simulated hosts' trees: both ends of a link report the same fault."""

import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path

import pytest

from collectors.core.clock import SystemClock
from collectors.core.context import CollectorContext
from collectors.kernel.tree import Tree
from collectors.nic.collector import collect
from collectors.nic.ethtool import ethtool_of
from collectors.nic.params import Params
from lab.servers.sysfs_writer import SysfsWriter, guid
from lab.world import demo_fabric
from lab.world.demo_world import DemoWorld
from lab.world.effects import Interval
from lab.world.faults.devices import Reboot
from lab.world.faults.links import AdminDown, LinkDown, LinkFlap
from lab.world.ground_truth import AnyFault
from streams.wire.models import CollectorStatus, Facts, Samples, Source
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.nic_tree import rows, whole
from tests.fixtures.running_task import run_beside

SHAPE = demo_fabric.DemoShape(pods=1, hosts=1, planes=1, spines=1, uplinks=1)
HOST = "pod1-host1"
S = 10**9
START = 1_700_000_000 * S


def world_of(now_ns: int, *faults: AnyFault) -> DemoWorld:
    return DemoWorld(demo_fabric.inventory(SHAPE, now_ns), faults, 1, now_ns)


def faulty(now_ns: int) -> DemoWorld:
    """Return a flap of two downs, a link that stays down, and a leaf's port that is administratively shut."""
    links = {link.a_port: link for link in demo_fabric.inventory(SHAPE, now_ns).links}
    return world_of(
        now_ns,
        LinkFlap(links["mlx5_0"], (Interval(now_ns + S, now_ns + 2 * S), Interval(now_ns + 3 * S, now_ns + 4 * S))),
        LinkDown(links["mlx5_1"], Interval(now_ns + S, now_ns + 60 * S)),
        AdminDown(links["mlx5_2"], links["mlx5_2"].a, Interval(now_ns + S, now_ns + 60 * S)),
    )


async def test_the_trees_equal_the_world(tmp_path: Path) -> None:
    """Every port has its traffic, downs, transitions and lost frames, before and after the faults."""
    world = faulty(START)
    face = SysfsWriter(world, SystemClock(), tmp_path)
    for at_ns in (START, START + 10 * S):
        face.write(at_ns)
        result = rows(await whole(face.root(HOST)).host.read_once())
        for number in range(demo_fabric.RAILS):
            port, row = world.port(HOST, f"mlx5_{number}", at_ns), result[f"mlx5_{number}"]
            assert (row["rx_bytes"], row["tx_bytes"]) == (port.rx_bytes, port.tx_bytes)
            assert (row["link_transitions"], row["rx_fcs_errors"]) == (port.transitions, port.fcs_errors)
            assert (row["oper_up"], row["admin_up"]) == (port.oper_up, port.admin_up)
            assert row.get("speed_bps") == (port.speed_bps if port.oper_up else None)
    downs = [result[f"mlx5_{number}"]["link_down_events"] for number in range(4)]
    assert downs == [2, 1, 1, 0]
    assert [result[f"mlx5_{number}"]["oper_up"] for number in range(4)] == [1, 0, 0, 1]
    assert [result[f"mlx5_{number}"]["admin_up"] for number in range(4)] == [1, 1, 0, 1]


@asynccontextmanager
async def collecting(face: SysfsWriter, cadence_s: float = 0.1) -> AsyncIterator[RecordingPublisher]:
    """Run the collector of the host."""
    retained = RecordingPublisher()
    params = Params(device=HOST, root=face.root(HOST), ethtool_dir=face.ethtool_dir(HOST), cadence_s=cadence_s)
    async with run_beside(collect(params, CollectorContext(retained, "nic", run=7, rng=random.Random(1)))):
        yield retained


async def test_a_flap_is_observed_while_it_happens(tmp_path: Path) -> None:
    """Its state shows it if a reading is made during it, its counter in any case; only the fabric is published."""
    clock = SystemClock()
    now_ns = clock.now_ns()
    async with SysfsWriter(faulty(now_ns), clock, tmp_path, every_s=0.05) as face, collecting(face) as retained:
        await retained.until(lambda: any(_of(s, "link_down_events") == 2 for s in retained.of(Samples)), 30)
        samples = retained.of(Samples)
        assert {row for reading in samples for row in reading.row} == {f"mlx5_{n}" for n in range(demo_fabric.RAILS)}
        assert [reading.sequence for reading in samples] == list(range(1, len(samples) + 1))
        assert all(reading.source is Source.SOURCE_NIC and reading.boot_id for reading in samples)
        assert all(reading.sampled_at_ns <= reading.received_at_ns for reading in samples)
        assert retained.of(CollectorStatus)[0].reachable
        components = {component.name: component for component in retained.of(Facts)[0].components}
        assert components["eno1"].kind == "nic-management"
        assert {"ens1np0", guid(HOST, "mlx5_0"), "0000:18:00.0"} <= set(components["mlx5_0"].alias)


def _of(samples: Samples, metric: str) -> float | None:
    return rows(samples).get("mlx5_0", {}).get(metric)


async def test_a_host_that_reboots_is_unreachable_and_returns(tmp_path: Path) -> None:
    """Nothing is read meanwhile; afterwards the boot is another and the counters begin at zero."""
    clock = SystemClock()
    now_ns = clock.now_ns()
    world = world_of(now_ns, Reboot(HOST, Interval(now_ns + 2 * S, now_ns + 4 * S)))
    async with SysfsWriter(world, clock, tmp_path, every_s=0.05) as face, collecting(face) as retained:
        await retained.until(lambda: len({s.boot_id for s in retained.of(Samples)}) == 2, 30)
        first, last = retained.of(Samples)[0], retained.of(Samples)[-1]
        assert (_of(first, "rx_bytes") or 0) > 1000 * (_of(last, "rx_bytes") or 0)
        await retained.until(lambda: retained.of(CollectorStatus)[-1].reachable)
        assert [result for result, _ in groupby(s.reachable for s in retained.of(CollectorStatus))] == [
            True,
            False,
            True,
        ]


def test_ethtool_of_this_machine_is_read_through_the_kernel() -> None:
    """Reads have the same names each time; a netdev without statistics, or a missing one, has none."""
    pytest.importorskip("pyroute2", reason="pyroute2 is not installed: it comes with railsight[host]")
    ethtool = ethtool_of(Tree(Path("/")), wanted=True, folder=None)
    with contextlib.closing(ethtool("nonesuch0")) as absent:
        assert absent.read() is None
    found = 0
    for netdev in Tree(Path("/")).names("/sys/class/net"):
        source = ethtool(netdev)
        with contextlib.closing(source):
            if (first := source.read()) is None:
                continue
            second = source.read()
            assert second is not None and second.names is first.names
            assert len(first.values) >= len(first.names) > 0
            found += 1
    if not found:
        pytest.skip("no netdev of this machine has statistics of its driver")

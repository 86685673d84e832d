"""Measures the NIC collector's CPU for one host with 8 RoCE NICs at 1 s, as a share of a core.

python -m lab.bench.nic_cost [--seconds 20] [--nics 8] [--statistics 2000] [--json]

The sysfs is a simulated host's, in plain files, so that the firmware's time is not measured. Each NIC's ethtool has as
many statistics as an mlx5 with 64 channels; if pyroute2 is installed, one ioctl to this machine's own first NIC
simulates the system call. Publishing is encoding without Kafka. Also printed are the CPU of one reading in a loop, and
of reading one file, in the real sysfs and in a plain folder.
"""

import argparse
import asyncio
import ctypes
import json
import socket
import sys
import tempfile
import time
from pathlib import Path

from collectors.core.clock import SystemClock
from collectors.core.context import CollectorContext
from collectors.kernel.ports import Role
from collectors.kernel.tree import Tree
from collectors.nic.collector import HostReader
from collectors.nic.ethtool import Source, Statistics, ethtool_of
from collectors.nic.params import Params
from lab.servers.sysfs_writer import SysfsWriter, host_tree
from lab.world import demo_fabric
from lab.world.demo_world import DemoWorld
from streams.wire.topics import Record

SHAPE = demo_fabric.DemoShape(pods=1, hosts=1, planes=1, spines=1, uplinks=1)


class Counted:
    """A publisher that counts the offered records."""

    def __init__(self) -> None:
        self.rows = 0
        self.bytes = 0

    def offer(self, record: Record, rows: int = 0) -> bool:
        """Count the record."""
        self.rows += rows
        self.bytes += len(record.value or b"")
        return True


class Wide:
    """An ethtool source as wide as an mlx5's: the simulated source's names, and `wanted` more."""

    def __init__(self, names: tuple[str, ...], live: Source) -> None:
        self._names = names
        self._values = (ctypes.c_uint64 * len(names))()
        self._live = live

    def read(self) -> Statistics | None:
        """Return all statistics, after one real system call."""
        self._live.read()
        return Statistics(self._names, self._values)

    def close(self) -> None:
        """See Source."""
        self._live.close()


def own_nic() -> str:
    """Return this machine's first netdev that is not the loopback."""
    return next((name for _, name in socket.if_nameindex() if name != "lo"), "lo")


def reader(folder: Path, nics: int, statistics: int, publisher: Counted) -> HostReader:
    """Return a collector of a simulated host that reads only `nics` of its NICs."""
    clock = SystemClock()
    now_ns = clock.now_ns()
    inventory = demo_fabric.inventory(SHAPE, now_ns)
    world = DemoWorld(inventory, (), 1, now_ns)
    face = SysfsWriter(world, clock, folder)
    face.write(now_ns)
    (host,) = face.hosts
    text = next(t for p, t in host_tree(world, host, now_ns).files.items() if p.startswith("ethtool/"))
    known = [line.strip().partition(":")[0] for line in text.splitlines()[1:]]
    names = (*known, *(f"rx{n}_xdp_redirect_of_a_channel" for n in range(statistics - len(known))))
    live = ethtool_of(Tree(Path("/")), wanted=True, folder=None)
    exclude = tuple(f"mlx5_{n}" for n in range(nics, demo_fabric.RAILS))
    params = Params(device=host, root=face.root(host), exclude=exclude)
    context = CollectorContext(publisher, "bench", run=1, clock=clock)
    return HostReader(
        params, Tree(params.root), lambda _: Wide(names, live(own_nic())), context, frozenset({Role.FABRIC})
    )  # fmt: skip


async def measured(host: HostReader, seconds: float, rounds: int) -> dict[str, float]:
    """Return the CPU of readings in a loop, and the share of a core at 1 s."""
    await host.read_once()
    began = time.process_time()
    for _ in range(rounds):
        await host.read_once()
    each_s = (time.process_time() - began) / rounds
    began, wall = time.process_time(), time.perf_counter()
    try:
        async with asyncio.timeout(seconds):
            await host.run()
    except TimeoutError:
        pass
    share = (time.process_time() - began) / (time.perf_counter() - wall)
    return {"ms_a_reading": each_s * 1e3, "percent_of_a_core_at_1_s": share * 100}


def us_a_file(path: Path, rounds: int = 5000) -> float:
    """Return the CPU of reading one small file, in µs."""
    tree, text = Tree(Path("/")), str(path)
    began = time.process_time()
    for _ in range(rounds):
        tree.read_text(text)
    return (time.process_time() - began) / rounds * 1e6


def main() -> None:
    """Measure and print the costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--nics", type=int, default=8)
    parser.add_argument("--statistics", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    publisher = Counted()
    with tempfile.TemporaryDirectory() as folder:
        host = reader(Path(folder), given.nics, given.statistics, publisher)
        found = asyncio.run(measured(host, given.seconds, 50))
        host.close()
        plain = next(Path(folder).rglob("port_rcv_data"))
        found["us_a_plain_file"] = us_a_file(plain)
    real = Path(f"/sys/class/net/{own_nic()}/statistics/rx_bytes")
    if real.exists():
        found["us_a_sysfs_file"] = us_a_file(real)
    found |= {"nics": given.nics, "bytes_a_row": publisher.bytes / max(1, publisher.rows)}
    lines = [json.dumps(found)] if given.json else [f"{name:>28} {value:10.3f}" for name, value in found.items()]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

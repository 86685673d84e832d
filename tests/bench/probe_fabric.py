"""Measures what probing costs: CPU and traffic of one host, CPU of a report in `measure`, findings without a fault.

    python -m tests.bench.probe_fabric --seconds 60 --rails 2 4 8
    python -m tests.bench.probe_fabric --healthy-minutes 30

The hosts are in a Clos of network namespaces (root, iproute2, nftables). The measured host has a process of its own;
all others share one. The limits are 1 % of a core and 1 Mb/s a host.
In namespaces of one kernel a call that sends would carry the packet through the whole fabric, which a NIC does not
leave to its host: the measured process has a core of its own, and the leaves take its packets on the others (receive
packet steering). `--one-core` leaves that out.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from collectors.core.context import CollectorContext
from collectors.probe.collector import ProbeAgent
from collectors.probe.params import Params
from lab.world.probe_mesh import WINDOW_NS, ProbeMesh, with_addresses
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.inventory import write_folder
from streams.fabric.topology import Topology
from streams.wire.topics import PROBES, encode
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.namespace_clos import NamespaceClos, Shape, namespace_clos, reason_to_skip
from tests.fixtures.probed_clos import ProbedClos

_WARM_UP_S = 20
_AT_NS = 1_790_000_000 * 10**9


def _line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _agents(clos: NamespaceClos, folder: Path, hosts: list[str]) -> list[ProbeAgent]:
    publisher = RecordingPublisher()
    return [
        ProbeAgent(
            Params(device=host, inventory=folder),
            CollectorContext(publisher, f"probe@{host}"),
            lambda host=host: clos.new_socket(host),  # type: ignore[misc]
        )
        for host in hosts
    ]


async def _run(agents: list[ProbeAgent]) -> None:
    await asyncio.gather(*(agent.run() for agent in agents))


def _octets(clos: NamespaceClos, host: str) -> int:
    """Return the bytes that a host sent and received on its rails."""
    shown = subprocess.run(
        ["ip", "-n", clos.namespace(host), "-j", "-s", "link"], check=True, capture_output=True, text=True
    )
    links = [link for link in json.loads(shown.stdout) if link["ifname"].startswith("r")]
    return sum(link["stats64"][way]["bytes"] for link in links for way in ("rx", "tx"))


async def _measured(clos: NamespaceClos, agent: ProbeAgent, seconds: float) -> tuple[float, float, int, int]:
    """Return the share of a core, bit/s, flows and stalls of the host of an agent."""
    task = asyncio.create_task(agent.run())
    await asyncio.sleep(_WARM_UP_S)
    host, stalls = agent.device, agent.prober.stalls
    cpu_s, wall_s, octets = time.process_time(), time.monotonic(), _octets(clos, host)
    await asyncio.sleep(seconds)
    wall_s = time.monotonic() - wall_s
    bits = (_octets(clos, host) - octets) * 8 / wall_s
    share = (time.process_time() - cpu_s) / wall_s
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return share, bits, len(agent.prober.flow_keys), agent.prober.stalls - stalls


def _forward_elsewhere(clos: NamespaceClos, host: str) -> None:
    """Run this process on one core; let the leaves take the packets of `host` on the other cores."""
    own, *others = sorted(os.sched_getaffinity(0))
    if not others:
        raise SystemExit("probe_fabric: one core alone; use --one-core")
    os.sched_setaffinity(0, {own})
    mask = f"{sum(1 << core for core in others):x}"
    for wire in clos.shape.wires():
        if wire.lower.device == host:
            at = f"/sys/class/net/{wire.upper.port}/queues/rx-0/rps_cpus"
            done = clos.run(wire.upper.device, "tee", at, text=mask)
            assert done.returncode == 0, done.stderr


def host_cost(rails: int, seconds: float, one_core: bool) -> None:
    """Print the cost of a host with so many rails."""
    with namespace_clos(Shape(planes=rails, hosts=13)) as clos, tempfile.TemporaryDirectory() as folder:
        inventory = Path(folder) / "inventory"
        write_folder(clos.shape.inventory(), inventory)
        own, *others = clos.shape.host_names
        child = os.fork()
        if not child:
            asyncio.run(_run(_agents(clos, inventory, others)))
            os._exit(0)
        cores = os.sched_getaffinity(0)
        try:
            if not one_core:
                _forward_elsewhere(clos, own)
            (agent,) = _agents(clos, inventory, [own])
            share, bits, flows, stalls = asyncio.run(_measured(clos, agent, seconds))
        finally:
            os.sched_setaffinity(0, cores)
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
        _line(f"{rails:5}  {flows:5}  {share:9.2%}  {bits / 1e6:9.3f}  {stalls:6}")


def report_cost(count: int = 2000) -> None:
    """Print the CPU time of a report in `measure`, and its size, for hosts with 8 rails."""
    inventory = with_addresses(generate(GenerateParams(gpus=512)))
    mesh = ProbeMesh(inventory, [], np.random.default_rng(1))
    stage = Measure(DetectParams())
    stage.start_epoch(1)
    stage.set_topology(Topology(inventory))
    hosts = sorted(mesh.probers)
    reports = [
        mesh.report(hosts[number % len(hosts)], _AT_NS + WINDOW_NS * (number // len(hosts))) for number in range(count)
    ]
    size = len(encode(PROBES, reports[0]).value or b"")
    cpu_s = time.process_time()
    for report in reports:
        stage.process([report])
    each_us = (time.process_time() - cpu_s) / count * 1e6
    flows = len(reports[0].flow_sent)
    _line(f"measure: {each_us:.0f} us CPU a report of {flows} flows, {size} bytes; {len(hosts)} hosts")


async def healthy(minutes: float) -> int:
    """Probe without a fault; return the number of findings."""
    with namespace_clos() as clos, tempfile.TemporaryDirectory() as folder:
        async with ProbedClos(clos, Path(folder) / "inventory") as own:
            await own.until(lambda: bool(own.findings()), 60 * minutes)
            found, stalls = own.findings(), sum(report.stalls > 0 for report in own.reports)
            _line(
                f"{minutes:g} min without a fault: {len(own.reports)} reports, {stalls} of probers that stalled,"
                f" {len(found)} findings; load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
            )
            for one in found:
                _line(f"  {one.condition.slug} {one.subject.id}: {one.summary}")
            return len(found)


def main() -> None:
    """Run what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rails", type=int, nargs="*", default=[2, 4, 8])
    parser.add_argument("--healthy-minutes", type=float, default=0)
    parser.add_argument("--one-core", action="store_true", help="the measured process carries its packets itself")
    options = parser.parse_args()
    if reason := reason_to_skip():
        raise SystemExit(f"probe_fabric: {reason}")
    if options.healthy_minutes:
        raise SystemExit(bool(asyncio.run(healthy(options.healthy_minutes))))
    report_cost()
    _line(f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
    _line("rails  flows  of a core       Mb/s  stalls")
    for rails in options.rails:
        host_cost(rails, options.seconds, options.one_core)


if __name__ == "__main__":
    main()

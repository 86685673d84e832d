"""Runs a whole simulated fabric: its devices show their faces, its inventory is published, its faults come and go.

All faces are of one world, so a fault is seen in each of them: gNMI and SNMP of the switches, the kernel's trees and
log of the hosts.
Writes three files into its folder (see files.py) and says on standard output, as one line of JSON, where they are.
"""

import asyncio
import contextlib
import random
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from collectors.core.clock import SystemClock
from collectors.core.metrics import CollectorMetrics
from collectors.core.publisher import KafkaPublisher, Publisher
from collectors.core.spec import Core, Spec
from collectors.sim import files
from collectors.sim.gnmi_server import GnmiServers
from collectors.sim.kernel_log_writer import KernelLogWriter
from collectors.sim.snmp_server import SnmpServers
from collectors.sim.sysfs_writer import SysfsWriter
from streams.fabric.inventory import Inventory
from streams.instrument.clock import Clock
from streams.simulation import demo_fabric
from streams.simulation.demo_scenario import plan
from streams.simulation.demo_world import DemoWorld
from streams.simulation.placed_fault import truth_rows
from streams.wire.inventory_topic import to_chunks
from streams.wire.models import Job
from streams.wire.topics import INVENTORY, JOBS, encode

Interface = Literal["gnmi", "snmp", "sysfs", "kernel-log"]


class Params(BaseModel):
    """Settings of `[collect.sim]`.

    `faults_s` is how long the faults are spread over, 0 for none; the first begins `settle_s` after the start. SNMP
    agents have an address of loopback each, whatever `host` is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path = Path("sim")
    seed: int = 1
    shape: demo_fabric.DemoShape = demo_fabric.DemoShape()
    faults_s: float = Field(default=60.0, ge=0, le=86_400)
    settle_s: float = Field(default=3.0, ge=0)
    host: str = "127.0.0.1"
    interfaces: tuple[Interface, ...] = ("gnmi", "snmp", "sysfs", "kernel-log")
    community: str = Field(default="public", min_length=1)
    trap_address: str = Field(default="", pattern=r"^([^:]+:\d{1,5})?$")
    """Where the SNMP agents send their traps; nowhere where nothing is said."""

    def trap_host_and_port(self) -> tuple[str, int] | None:
        """Host and port of `traps`."""
        host, _, port = self.trap_address.partition(":")
        return (host, int(port)) if host else None


def world_of(params: Params, now_ns: int) -> DemoWorld:
    """The world that these settings describe, from now on."""
    inventory = demo_fabric.inventory(params.shape, now_ns)
    begin_ns = now_ns + int(params.settle_s * 1e9)
    chance = random.Random(params.seed)  # noqa: S311 — a simulated world
    faults = plan(inventory, begin_ns, params.faults_s, chance) if params.faults_s else ()
    return DemoWorld(inventory, faults, params.seed, now_ns)


def publish(inventory: Inventory, publisher: Publisher, now_ns: int) -> None:
    """Send the inventory as one version that is in effect now, and its jobs."""
    for chunk in to_chunks(inventory, now_ns):
        publisher.offer(encode(INVENTORY, chunk))
    for job in inventory.jobs:
        end_ns = _unix_ns(job.end) if job.end else None
        publisher.offer(encode(JOBS, Job(job.job, job.device, _unix_ns(job.start), end_ns)))


def _unix_ns(at: datetime) -> int:
    return int(at.timestamp()) * 10**9


async def running(params: Params, world: DemoWorld, clock: Clock, stack: contextlib.AsyncExitStack) -> files.Endpoints:
    """Show the faces that are wanted until the stack is unwound."""
    gnmi = snmp = sysfs = log = None
    if "gnmi" in params.interfaces:
        gnmi = await stack.enter_async_context(GnmiServers(world, clock, params.host))
    if "snmp" in params.interfaces:
        snmp = SnmpServers(world, clock, params.community, params.trap_host_and_port())
        await stack.enter_async_context(snmp)
    folder = params.folder / "hosts"
    if "sysfs" in params.interfaces:
        sysfs = await stack.enter_async_context(SysfsWriter(world, clock, folder))
    if "kernel-log" in params.interfaces:
        log = await stack.enter_async_context(KernelLogWriter(world, clock, folder))
    hosts = {
        host: files.HostFiles(
            sysfs.root(host) if sysfs else None, sysfs.ethtool_dir(host) if sysfs else None,
            log.file(host) if log else None,
        )
        for host in world.hosts
        if sysfs or log
    }  # fmt: skip
    return files.Endpoints(gnmi.addresses if gnmi else {}, snmp.addresses if snmp else {}, hosts)


async def run(params: Params, core: Core) -> None:
    """Serve until cancelled; without Kafka, publish nothing."""
    clock = SystemClock()
    now_ns = clock.now_ns()
    world = world_of(params, now_ns)
    async with contextlib.AsyncExitStack() as stack:
        faces = await running(params, world, clock, stack)
        if core.client_options is not None:
            async with KafkaPublisher(core, CollectorMetrics()) as publisher:
                publish(world.inventory, publisher, now_ns)
                await publisher.flushed()
        written = files.write(params.folder, world.inventory, faces, truth_rows(world.faults))
        said: dict[str, Any] = {name: str(path) for name, path in written._asdict().items()}
        said |= {"switches": len(world.switches), "hosts_shown": len(faces.hosts)}
        sys.stdout.write(orjson.dumps(said).decode() + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


SPEC = Spec("sim", Params, run)

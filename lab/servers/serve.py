"""Runs a whole simulated fabric: serves its devices, publishes its inventory, and plays its faults.

All interfaces read one world, so that each shows a fault: gNMI and SNMP of the switches, the sysfs trees and kernel
logs of the hosts. It writes files to its folder (see files.py) and prints their paths as one line of JSON.
"""

import asyncio
import contextlib
import random
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal

import grpc
import orjson
from pydantic import BaseModel, ConfigDict, Field, model_validator

from collectors.core.context import CollectorContext
from collectors.core.publisher import KafkaPublisher, Publisher
from collectors.core.spec import Spec
from lab.servers import files
from lab.servers.gnmi_server import GnmiServers
from lab.servers.kernel_log_writer import KernelLogWriter
from lab.servers.repair_server import RepairServer
from lab.servers.snmp_agent import SnmpServers
from lab.servers.sysfs_writer import SysfsWriter
from lab.world import demo_fabric
from lab.world.bad_links import BadLink
from lab.world.demo_scenario import inject, plan, plan_repairs
from lab.world.demo_world import DemoProbes, DemoWorld
from lab.world.effects import Interval
from lab.world.fault_placement import NoRoom
from lab.world.faults import FAULT_OF
from lab.world.ground_truth import AnyFault, TruthRow, truth_rows
from lab.world.probe_mesh import with_addresses
from streams.fabric.inventory import Inventory
from streams.instrument.clock import Clock
from streams.wire.errors import Misconfigured
from streams.wire.inventory_topic import to_chunks
from streams.wire.models import Job, SchedulerAnswer
from streams.wire.topics import INVENTORY, JOBS, PROBES, SCHEDULERS, Access, encode

_TRUTH_EVERY_S = 1.0
"""The interval of writing the truth about bad links, because repairs change it."""

Interface = Literal["gnmi", "snmp", "sysfs", "kernel-log", "probes"]


class Params(BaseModel):
    """Settings of `[collect.sim]`.

    The faults are spread over `faults_s`, 0 for none; the first starts `settle_s` after the start. Each SNMP agent has
    its own loopback address, regardless of `host`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path = Path("sim")
    """The folder of the files that it writes: inventory, targets, hosts, ground truth."""
    seed: int = 1
    """The seed of traffic and faults; the same seed gives the same fabric."""
    shape: demo_fabric.DemoShape = demo_fabric.DemoShape()
    """The size of the fabric."""
    faults_s: float = Field(default=60.0, ge=0, le=86_400)
    """The time over which the faults are spread; 0: no faults."""
    settle_s: ClassVar[float] = 3.0
    """The time before the first fault."""
    host: str = "127.0.0.1"
    """The address of the gNMI servers."""
    interfaces: tuple[Interface, ...] = ("gnmi", "snmp", "sysfs", "kernel-log", "probes")
    """The interfaces that are served; `probes` publishes the reports of simulated probers to Kafka."""
    gnmi_cert_file: Path | None = None
    """The certificate of the switches' gNMI servers, which then use TLS; `gnmi_key_file` is its key."""
    gnmi_key_file: Path | None = None
    """The key of `gnmi_cert_file`."""
    gnmi_client_ca_file: Path | None = None
    """The authority of the clients' certificates; without it, clients need no certificate."""
    community: str = Field(default="public", min_length=1)
    """The community of the SNMP agents."""
    trap_address: str = Field(default="", pattern=r"^([^:]+:\d{1,5})?$")
    """Host and port to which the SNMP agents send traps; empty for none."""
    scenario: Literal["faults", "demo", "repairs"] = "faults"
    """The faults that are spread over `faults_s`. `demo` adds a switch that does not answer, a storm and a broken GPU;
    `repairs` adds links with a bad part that flap until it is repaired, and a repair server."""
    inject: tuple[str, ...] = ()
    """Faults to inject in addition to the scenario's, by detector, as `link/down`; each within `inject_s`."""
    inject_s: float = Field(default=1800.0, gt=0, le=86_400)
    """The time within which the faults of `inject` start."""

    @model_validator(mode="after")
    def _complete(self) -> "Params":
        if (self.gnmi_cert_file is None) != (self.gnmi_key_file is None):
            raise ValueError("set both gnmi_cert_file and gnmi_key_file, or neither")
        if self.gnmi_client_ca_file is not None and self.gnmi_cert_file is None:
            raise ValueError("gnmi_client_ca_file requires gnmi_cert_file")
        return self

    def written_files(self) -> tuple[Path, ...]:
        """Return the files with the addresses of the fabric's devices, which other collectors read."""
        return self.folder / files.SNMP_TARGETS, self.folder / files.TARGETS

    def gnmi_tls(self) -> grpc.ServerCredentials | None:
        """Return the credentials of the gNMI servers; None without TLS. Raises Misconfigured."""
        if self.gnmi_cert_file is None or self.gnmi_key_file is None:
            return None
        try:
            pair = self.gnmi_key_file.read_bytes(), self.gnmi_cert_file.read_bytes()
            authority = self.gnmi_client_ca_file.read_bytes() if self.gnmi_client_ca_file else None
        except OSError as error:
            raise Misconfigured(f"collect.sim: {error.filename}: {error.strerror}") from error
        return grpc.ssl_server_credentials([pair], authority, require_client_auth=authority is not None)

    def trap_host_and_port(self) -> tuple[str, int] | None:
        """Return host and port of `trap_address`."""
        host, _, port = self.trap_address.partition(":")
        return (host, int(port)) if host else None


def world_of(params: Params, now_ns: int) -> DemoWorld:
    """Return the world of these settings, which starts now; raise Misconfigured for unknown faults."""
    inventory = with_addresses(demo_fabric.inventory(params.shape, now_ns))
    begin_ns = now_ns + int(params.settle_s * 1e9)
    rng = random.Random(params.seed)  # noqa: S311 — a simulated world
    faults, bad_links = planned(params, inventory, begin_ns, rng)
    if unknown := [slug for slug in params.inject if slug not in FAULT_OF]:
        raise Misconfigured(f"inject: unknown fault {', '.join(unknown)}; known: {', '.join(FAULT_OF)}")
    if unseen := [slug for slug in params.inject if FAULT_OF[slug].is_of_trial]:
        raise Misconfigured(f"inject: what shows {', '.join(unseen)} these servers do not have; bench detection has")
    within = Interval(begin_ns, begin_ns + int(params.inject_s * 1e9))
    try:
        faults += inject(inventory, params.inject, within, params.seed)
    except NoRoom as error:
        raise Misconfigured(f"inject: {error}") from error
    return DemoWorld(inventory, faults, params.seed, now_ns, bad_links)


def planned(
    params: Params, inventory: Inventory, begin_ns: int, rng: random.Random
) -> tuple[list[AnyFault], tuple[BadLink, ...]]:
    """Return the faults and the bad links of the scenario; raise Misconfigured if the fabric is too small."""
    if not params.faults_s:
        return [], ()
    if params.scenario != "repairs":
        return [*plan(inventory, begin_ns, params.faults_s, rng, more_kinds=params.scenario == "demo")], ()
    try:
        scenario = plan_repairs(inventory, begin_ns, params.faults_s, rng)
    except ValueError as error:
        raise Misconfigured(f"collect.sim.shape: {error}") from error
    return [scenario.once], scenario.bad_links


def publish(inventory: Inventory, publisher: Publisher, now_ns: int) -> None:
    """Publish the inventory as one version that is in effect now, and its jobs."""
    for chunk in to_chunks(inventory, now_ns):
        publisher.offer(encode(INVENTORY, chunk))
    for job in inventory.jobs:
        end_ns = _unix_ns(job.end) if job.end else None
        publisher.offer(encode(JOBS, Job(job.job, job.device, _unix_ns(job.start), end_ns)))


def _unix_ns(at: datetime) -> int:
    return int(at.timestamp()) * 10**9


async def running(params: Params, world: DemoWorld, clock: Clock, stack: contextlib.AsyncExitStack) -> files.Endpoints:
    """Serve the configured interfaces until the stack is unwound."""
    gnmi = snmp = sysfs = log = None
    if "gnmi" in params.interfaces:
        gnmi = await stack.enter_async_context(GnmiServers(world, clock, params.host, params.gnmi_tls()))
        if world.bad_links:
            repairs = await stack.enter_async_context(RepairServer(world, clock, gnmi.wake))
            files.write_repairs(params.folder, repairs.address)
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


async def collect(params: Params, context: CollectorContext) -> None:
    """Serve until cancelled; without Kafka, publish nothing."""
    clock = context.clock
    now_ns = clock.now_ns()
    world = world_of(params, now_ns)
    async with contextlib.AsyncExitStack() as stack:
        endpoints = await running(params, world, clock, stack)
        probes = None
        if isinstance(context.publisher, KafkaPublisher):
            publish(world.inventory, context.publisher, now_ns)
            await context.publisher.flushed()
            probes = DemoProbes(world, params.seed, now_ns) if "probes" in params.interfaces else None
        written = files.write(params.folder, world.inventory, endpoints, _truth(world))
        output: dict[str, Any] = {name: str(path) for name, path in written._asdict().items()}
        output |= {"switches": len(world.switches), "hosts_shown": len(endpoints.hosts)}
        sys.stdout.write(orjson.dumps(output).decode() + "\n")
        sys.stdout.flush()
        while True:
            await asyncio.sleep(_TRUTH_EVERY_S)
            if isinstance(context.publisher, KafkaPublisher):
                context.publisher.offer(encode(SCHEDULERS, SchedulerAnswer("sim")))
            if probes is not None:
                for report in probes.due(clock.now_ns()):
                    context.publisher.offer(encode(PROBES, report), rows=len(report.flow_sent))
            if world.bad_links:
                files.write_truth(params.folder, _truth(world))
                files.write_bad_links(params.folder, world.bad_links.values())


def _truth(world: DemoWorld) -> list[TruthRow]:
    """Return the findings of a perfect detector, as known now: repairs and relapses change them."""
    return truth_rows([*world.faults, *(flap for state in world.bad_links.values() for flap in state.flaps())])


SPEC = Spec(
    "sim", Params, collect, part="sim", needs_kafka=False,
    access=lambda _: Access(writes=(INVENTORY, JOBS, SCHEDULERS, PROBES)),
    example="--set folder=sim --set faults_s=600",
)  # fmt: skip

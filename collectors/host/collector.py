"""The host collector reads inventory, PCIe links and GPUs at each cadence, and kernel events as they occur."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator

import structlog

from collectors.core.columns import RowComposer
from collectors.core.context import CollectorContext, StatusReporter
from collectors.core.poll import Pace, poll
from collectors.core.spec import Spec
from collectors.host import facts, lldp
from collectors.host.event_listener import EventListener
from collectors.host.gpu import Gpu, Gpus, nvml_of_this_machine
from collectors.host.nccl import NcclWitness
from collectors.host.params import Params
from collectors.host.sampling import Sampler, ThreadCalls
from collectors.kernel.discover import Discovery
from collectors.kernel.ports import KnownPorts, Port
from collectors.kernel.tree import Tree
from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import Component, Facts, Neighbor, RowKind, Samples, Source

_log = structlog.get_logger("railsight.host")

_SOONEST_S = 1.0
"""The minimum time between two discoveries that unknown ports in the log cause."""
Found = tuple[tuple[Port, ...], dict[str, str], facts.Machine]


class HostAgent:
    """Reads one host until cancelled; no fault of a device ends it."""

    def __init__(self, params: Params, tree: Tree, gpus: Gpus, context: CollectorContext) -> None:
        self.device = params.device_name()
        self._params = params
        self._tree = tree
        self._gpus = gpus
        self._metrics = context.metrics
        self._clock = context.clock
        self._rng = context.rng
        self._discovery = Discovery(tree, params.exclude, params.max_ports)
        self.known = KnownPorts(params.port_name, params.fabric, params.management)
        self.listening = EventListener(params, tree, context, self.known)
        self._nccl = NcclWitness(params, context, self.known, self.listening.emit)
        self._emitter = self.listening.emitter
        self._finding: ThreadCalls[Found] = ThreadCalls(params.deadline_s)
        self._finding_gpus: ThreadCalls[tuple[Gpu, ...]] = ThreadCalls(params.deadline_s)
        self._sampler = Sampler(tree, gpus, params.deadline_s, context.metrics, context.clock)
        self._composers = {kind: RowComposer() for kind in (RowKind.ROW_KIND_PORT, RowKind.ROW_KIND_GPU)}
        self._machine = facts.Machine()
        self._gpu_folders: dict[str, str] = {}
        self._gpus_found: dict[str, Gpu] = {}
        self._neighbors: tuple[Neighbor, ...] = ()
        self._published: tuple[object, ...] = ()
        self._looks = asyncio.Lock()
        self._found_s = self._facts_s = -math.inf
        self._statuses = StatusReporter(
            self._emitter, self.device, params.cadence_s, params.status_every_s, context.clock
        )
        self._warned: set[str] = set()
        self._health = context.health

    async def run(self) -> None:
        """Read at each cadence, and the log continuously, until cancelled."""
        self._health.ready_while("kernel log", self.log_problem)
        await self.find()
        self.listening.begin(self._machine.boot_id)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(poll(self.device, self.read_once, Pace(self._params.cadence_s), self._metrics, self._rng))
            tasks.create_task(self.listening.run())
            tasks.create_task(self._nccl.run())
            tasks.create_task(self._find_log_subjects())
            tasks.create_task(
                poll(self.device, self.query_neighbors, Pace(self._params.neighbors_every_s), self._metrics, self._rng)
            )

    def log_problem(self) -> str:
        """Return why no Xid can be read: the configured log is unreadable, or the machine's own is and NVML too."""
        has_substitute = self._params.kernel_log is None and self._gpus.reports_xids
        return "" if has_substitute else self.listening.problem

    def close(self) -> None:
        """Send delayed events, and close the logs."""
        self._nccl.close()
        self.listening.close()

    async def read_once(self) -> list[Samples]:
        """Return one reading of the ports' PCIe links and the GPUs, without those that do not respond."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._found_s >= self._params.discover_every_s:
            await self.find()
        ports, gpus = await self._sampler.read(self.known.ports, self._gpu_folders, self._gpus_found)
        for name in self._sampler.hung:
            self._warn(f"{name} does not answer: left to itself")
        samples = [
            self._emitter.samples(
                self.device, self._composers[kind].compose(result, self._clock.now_ns(), self._machine.boot_id), kind
            )
            for kind, result in ((RowKind.ROW_KIND_PORT, ports), (RowKind.ROW_KIND_GPU, gpus))
            if result
        ]
        for pci, code in self._gpus.xids():
            self.listening.emit_xid(pci, code, self._clock.now_ns())
        self._report_status(samples)
        self._emit_facts()
        return samples

    async def find(self) -> None:
        """Discover ports and GPUs, unless a discovery is running; a device that does not respond stays as it was."""
        if self._looks.locked():
            return
        async with self._looks:
            await self._find()

    async def _find(self) -> None:
        self._found_s = asyncio.get_running_loop().time()

        def look() -> Found:
            return self._discovery.ports(), facts.gpu_folders(self._tree), facts.machine(self._tree)

        asked = [("ports", look)]
        gpus, found = await asyncio.gather(
            self._finding_gpus.call([("gpus", self._gpus.find)]), self._finding.call(asked)
        )
        if "ports" in found:
            ports, self._gpu_folders, self._machine = found["ports"]
            self.known.adopt(ports)
        else:
            self._warn("looking for ports: a device does not answer")
        if "gpus" in gpus:
            self._gpus_found = {gpu.pci: gpu for gpu in gpus["gpus"]}

    async def _find_log_subjects(self) -> None:
        """Discover unknown ports of the log, beside the listener, which continues if a device does not respond."""
        while True:
            await asyncio.sleep(_SOONEST_S)
            if self.known.wants_look:
                await self.find()

    async def query_neighbors(self) -> None:
        """Query lldpd, if the tree is this machine's; the last neighbors stay while lldpd does not respond."""
        if not self._tree.is_live:
            return
        data = await lldp.query(self._params.lldpcli, self._params.deadline_s)
        if data is None:
            return
        try:
            received = lldp.neighbors(data)
        except Reject:
            self._metrics.add("unreadable", "lldp")
            return
        ports = ((self.known.by_netdev(neighbor.port), neighbor) for neighbor in received)
        self._neighbors = tuple(
            Neighbor(port.name if port else received.port, received.remote_device, received.remote_port)
            for port, received in ports
        )

    def _report_status(self, samples: list[Samples]) -> None:
        """Report the status; a host that has nothing to read sends none, because it would always be silent."""
        if samples:
            self._statuses.sampled(max(sample.sampled_at_ns for sample in samples))
        elif not self._statuses.last_sample_ns:
            return
        error = "" if samples else f"nothing answers: {', '.join(sorted(self._sampler.hung)) or 'no port, no GPU'}"
        log = f"kernel log: {problem}" if (problem := self.listening.problem) else ""
        self._statuses.report(reachable=not error, error="; ".join(part for part in (error, log) if part))

    def _emit_facts(self) -> None:
        """Publish Facts at each change and periodically."""
        now_s = asyncio.get_running_loop().time()
        gpus = {pci: self._gpus_found.get(pci, Gpu(pci)) for pci in {**self._gpu_folders, **self._gpus_found}}
        parts: tuple[Component, ...] = facts.components(
            self._machine.parts, self._gpus.driver, self.known.ports, gpus
        )  # fmt: skip
        result = (parts, self._neighbors, self._machine)
        if result == self._published and now_s - self._facts_s < self._params.facts_every_s:
            return
        self._published, self._facts_s = result, now_s
        machine = self._machine
        self._emitter.facts(
            Facts(
                self.device, self._clock.now_ns(), Source.SOURCE_HOST, machine.vendor, machine.model, machine.kernel,
                machine.booted_at_ns, machine.serial, parts, self._neighbors,
            )
        )  # fmt: skip

    def _warn(self, what: str) -> None:
        """Log a warning once."""
        if what not in self._warned:
            self._warned.add(what)
            _log.warning(what, device=self.device)


def host_agent(params: Params, context: CollectorContext) -> HostAgent:
    """Return the agent of this host; raises Misconfigured if the tree is missing."""
    if not params.root.is_dir():
        raise Misconfigured(f"collect.host: root {params.root}: no such folder")
    tree = Tree(params.root)
    nvml = nvml_of_this_machine() if params.gpu and tree.is_live else None
    return HostAgent(params, tree, Gpus(nvml), context)


async def collect(params: Params, context: CollectorContext) -> None:
    """Read until cancelled."""
    agent = host_agent(params, context)
    context.at_end.callback(agent.listening.save)
    with contextlib.closing(agent):
        await agent.run()


async def read_once(params: Params, context: CollectorContext) -> AsyncIterator[Samples]:
    """Yield one reading of every PCIe link and GPU; nothing if there are none."""
    with contextlib.closing(host_agent(params, context)) as agent:
        for samples in await agent.read_once():
            yield samples


SPEC = Spec("host", Params, collect, read_once, example="--once --print")

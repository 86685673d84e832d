"""The NIC collector of one host discovers its ports, reads them, and publishes samples, Facts and status."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable

import structlog

from collectors.core.columns import RowComposer
from collectors.core.context import CollectorContext, StatusReporter
from collectors.core.poll import Pace, poll
from collectors.core.spec import Spec
from collectors.core.tasks import in_thread
from collectors.kernel import values
from collectors.kernel.discover import Discovery
from collectors.kernel.ports import KnownPorts, Port, Role, by_uplink, components
from collectors.kernel.tree import Tree
from collectors.nic.ethtool import Ethtool, ethtool_of
from collectors.nic.ethtool_netlink import EthtoolNetlink
from collectors.nic.minute_reading import EVERY_S, MinuteReadings
from collectors.nic.params import Params
from collectors.nic.polling import PollRounds
from collectors.nic.reading import PortReader, PortReading
from streams.wire.errors import Misconfigured
from streams.wire.models import Component, Facts, Samples, Source

_log = structlog.get_logger("railsight.nic")


class HostReader:
    """Reads one host until cancelled; no fault of a device ends it."""

    def __init__(
        self, params: Params, tree: Tree, ethtool: Ethtool, context: CollectorContext, wanted: frozenset[Role],
        modules: Callable[[], EthtoolNetlink] | None = None,
    ) -> None:  # fmt: skip
        self.device = params.device_name()
        self._params = params
        self._tree = tree
        self._ethtool = ethtool
        self._emitter = context.emitter(Source.SOURCE_NIC)
        self._metrics = context.metrics
        self._clock = context.clock
        self._rng = context.rng
        self._wanted = wanted
        self._discovery = Discovery(tree, params.exclude, params.max_ports)
        self._rounds: PollRounds[PortReading] = PollRounds(params.deadline_s)
        self._modules = MinuteReadings(tree, modules)
        self._composer = RowComposer()
        self._known = KnownPorts(params.port_name, params.fabric, params.management)
        self._name_of: dict[str, str] = {}
        """The published name of each identity."""
        self._readers: dict[str, PortReader] = {}
        self._generation: object = None
        self._discovered_s = self._facts_s = -math.inf
        self._statuses = StatusReporter(
            self._emitter, self.device, params.cadence_s, params.status_every_s, context.clock
        )
        self._discovering: asyncio.Future[tuple[Port, ...]] | None = None
        self._boot_id = self._booted_ns = 0
        self._published: tuple[Component, ...] | None = None
        self._last_error = ""
        """The reason for the last missing reading, empty if none is missing."""
        self._warned: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Read at each cadence until cancelled; a hanging card is skipped, so that no reading hangs."""
        async with asyncio.TaskGroup() as tasks:
            readings = (self.device, self.read_once, self._params.cadence_s), ("modules", self.read_modules, EVERY_S)
            for name, read, cadence_s in readings:
                tasks.create_task(poll(name, read, Pace(cadence_s), self._metrics, self._rng))

    async def read_modules(self) -> None:
        """Read FEC statistics and modules of the uplinks for their next rows, beside the other readings."""
        for identity, refused in (await self._modules.read()).items():
            self._metrics.add("unreadable", self._name_of.get(identity, identity), refused)

    async def read_once(self) -> Samples | None:
        """Return one reading of every selected port that responds; None if none does."""
        await self.find()
        readings = await self._rounds.read(self._readers.values())
        samples = None
        self._record(readings)
        found = {identity: reading for identity, reading in readings.items() if reading.has_values}
        if found:
            rows = {self._name_of[each]: self._modules.row(each, reading.row) for each, reading in found.items()}
            received_ns = max(reading.ended_ns for reading in found.values())
            samples = self._emitter.samples(self.device, self._composer.compose(rows, received_ns, self._boot_id))
            self._statuses.sampled(samples.sampled_at_ns)
        self._report_status(is_reached=samples is not None)
        self._emit_facts()
        return samples

    async def find(self) -> None:
        """Discover ports after an addition or removal, and periodically.

        If a device hangs, discovery is awaited once until the deadline; then the known ports are read.
        """
        if self._discovering is None:
            now_s = asyncio.get_running_loop().time()
            generation = self._discovery.ctimes()
            if generation == self._generation and now_s - self._discovered_s < self._params.discover_every_s:
                return
            self._generation, self._discovered_s = generation, now_s
            restricted = frozenset(i for i, reader in self._readers.items() if reader.is_restricted)
            self._discovering = in_thread(lambda: self._discovery.ports(restricted), "railsight-nic")
            await asyncio.wait({self._discovering}, timeout=self._params.deadline_s)
        if not self._discovering.done():
            self._warn("", "looking for ports: a device does not answer")
            return
        found, self._discovering = self._discovering.result(), None
        self._set_ports(found)

    def _set_ports(self, ports: tuple[Port, ...]) -> None:
        before = {known.port.identity: known.role for known in self._known.ports}
        self._known.adopt(ports)
        self._name_of = {known.port.identity: known.name for known in self._known.ports}
        if before != {known.port.identity: known.role for known in self._known.ports}:
            found = {known.port.name(self._params.port_name): f"{known.role}: {known.evidence}"
                    for known in self._known.ports if known.role is not Role.VIRTUAL}  # fmt: skip
            _log.info("ports", device=self.device, found=found)
        self._boot_id = values.boot_id(self._tree.read_kernel_text("sys/kernel/random/boot_id"))
        self._booted_ns = values.boot_time_ns(self._tree.read_kernel_text("stat"))
        functions = by_uplink(known.port for known in self._known.ports)
        former, self._readers = self._readers, {}
        for port in (known.port for known in self._known.ports if known.role in self._wanted):
            reader = former.pop(port.identity, None)
            if reader is None or not port.is_same_device(reader.port):
                self._close(reader)
                reader = PortReader(self._tree, port, self._ethtool(port.netdev), self._clock)
            reader.rediscover(functions.get(port.identity, ()))
            self._readers[port.identity] = reader
        self._modules.set(reader.port for reader in self._readers.values() if not reader.is_restricted)
        for gone in former.values():
            self._close(gone)

    def close(self) -> None:
        """Release the resources."""
        for reader in self._readers.values():
            self._close(reader)
        self._readers = {}

    def _close(self, reader: PortReader | None) -> None:
        if reader is not None and reader.port.card not in self._rounds.hung:  # a thread may still use it
            reader.close()

    def _record(self, readings: dict[str, PortReading]) -> None:
        for identity, reading in readings.items():
            name = self._name_of[identity]
            if reading.refused:
                self._metrics.add("unreadable", name, reading.refused)
            for counter in reading.saturated:
                self._warn(name, f"{counter} is at the bound where old hardware sticks: it may never move again")
            if self._readers[identity].is_restricted and self._warn(
                name, "a restricted function: its counters are left alone"
            ):
                self._metrics.add("restricted", name)
        for card in self._rounds.hung:
            self._warn(card, "does not answer: left to itself")

    def _warn(self, port: str, what: str) -> bool:
        """Log a warning once; return True if this was the first time."""
        if (port, what) in self._warned:
            return False
        self._warned.add((port, what))
        _log.warning(what, device=self.device, port=port)
        return True

    def _report_status(self, *, is_reached: bool) -> None:
        error = "" if is_reached else self._unreachable_reason()
        if error and error != self._last_error:
            _log.warning("no reading", device=self.device, why=error)
        self._last_error = error
        self._statuses.report(reachable=is_reached, error=error)

    def _unreachable_reason(self) -> str:
        if self._discovering is not None:
            return "a device does not answer while its ports are looked for"
        if self._readers:
            return f"no port answers: {', '.join(sorted(self._rounds.hung))}"
        wanted = " or ".join(sorted(self._wanted))
        return f"no {wanted} port among {len(self._known.ports)} found"

    def _emit_facts(self) -> None:
        """Publish Facts at each change and periodically."""
        now_s = asyncio.get_running_loop().time()
        if self._generation is None or self._discovering is not None:
            return
        found = components(self._known.ports)
        if found == self._published and now_s - self._facts_s < self._params.facts_every_s:
            return
        self._published, self._facts_s = found, now_s
        self._emitter.facts(
            Facts(self.device, self._clock.now_ns(), self._emitter.source, booted_at_ns=self._booted_ns,
                  components=found)
        )  # fmt: skip


def host_reader(params: Params, context: CollectorContext, wanted: frozenset[Role]) -> HostReader:
    """Return the reader of this host's ports; raises Misconfigured if the tree is missing."""
    if not params.root.is_dir():
        raise Misconfigured(f"collect.nic: root {params.root}: no such directory")
    if params.ethtool_dir is not None and not params.ethtool_dir.is_dir():
        raise Misconfigured(f"collect.nic: ethtool_dir {params.ethtool_dir}: no such directory")
    tree = Tree(params.root)
    ethtool = ethtool_of(tree, wanted=params.ethtool, folder=params.ethtool_dir)
    modules = EthtoolNetlink if params.ethtool and tree.is_live and params.ethtool_dir is None else None
    return HostReader(params, tree, ethtool, context, wanted, modules)


async def collect(params: Params, context: CollectorContext) -> None:
    """Read until cancelled."""
    with contextlib.closing(host_reader(params, context, frozenset(params.roles))) as reader:
        await reader.run()


async def read_once(params: Params, context: CollectorContext) -> AsyncIterator[Samples]:
    """Yield one reading of every port of the fabric or of management; nothing if there are no ports."""
    with contextlib.closing(host_reader(params, context, frozenset({Role.FABRIC, Role.MANAGEMENT}))) as reader:
        await reader.find()
        await reader.read_modules()
        if (samples := await reader.read_once()) is not None:
            yield samples


SPEC = Spec("nic", Params, collect, read_once, example="--once --print")

"""The probe collector of one host runs the prober and the responder, and publishes a report for each window."""

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from collectors.core.context import CollectorContext, StatusReporter
from collectors.core.inventory import apply_changes, read_inventory
from collectors.core.spec import Spec
from collectors.probe.mesh import Rails, find_rails, flows_of
from collectors.probe.params import Params
from collectors.probe.prober import MeasuredFlow, Prober
from collectors.probe.responder import Responder, ResponderSockets
from collectors.probe.sockets import SocketFactory, new_udp_socket
from collectors.probe.trace import TracedPath
from streams.wire.errors import Misconfigured
from streams.wire.models import ProbeReport, Source
from streams.wire.topics import COLLECTOR_STATUS, PROBE, PROBES, Access, encode

_MAX_NS = 2**31 - 1
"""The codec's limit of a duration: 2.1 s."""


class Identity:
    """The names in one prober's reports, and the number of the next report."""

    def __init__(self, device: str, collector: str, run: int) -> None:
        self.device, self.collector, self.run = device, collector, run
        self._sequence = 0

    def next_sequence(self) -> int:
        """Return the next number."""
        self._sequence += 1
        return self._sequence


def compose(
    identity: Identity, flows: Sequence[MeasuredFlow], begin_ns: int, end_ns: int, now_ns: int, stalls: int = 0
) -> ProbeReport:
    """Return the report of a window [begin_ns, end_ns), numbered."""
    places: dict[str, int] = {}

    def place(address: str) -> int:
        return places.setdefault(address, len(places))

    sources = tuple(place(flow.key.rail.address) for flow in flows)
    targets = tuple(place(flow.key.target.address) for flow in flows)
    hops = tuple(
        1 + place(address) if address else 0
        for flow in flows
        for path in (flow.forward, flow.back)
        for address in path.hops
    )
    windows = [flow.window for flow in flows]
    return ProbeReport(
        identity.device, identity.collector, identity.run, identity.next_sequence(), begin_ns, end_ns, now_ns, stalls,
        tuple(places), sources, targets,
        tuple(flow.key.source_port for flow in flows),
        tuple(window.sent for window in windows),
        tuple(window.forward_lost for window in windows),
        tuple(window.reverse_lost for window in windows),
        tuple(window.unanswered for window in windows),
        tuple(window.discarded for window in windows),
        tuple(window.reordered for window in windows),
        tuple(window.lost_run for window in windows),
        tuple(_quantile(window.rtt_ns, 0.5) for window in windows),
        tuple(_quantile(window.rtt_ns, 0.99) for window in windows),
        tuple(_quantile(window.responder_ns, 0.5) for window in windows),
        tuple(len(flow.forward.hops) for flow in flows),
        tuple(len(flow.back.hops) for flow in flows),
        hops,
        tuple(_reach(flow.forward) for flow in flows),
        tuple(_reach(flow.back) for flow in flows),
    )  # fmt: skip


def _reach(path: TracedPath) -> int:
    return 0 if path.reach is None else 1 + path.reach


def _quantile(values: Sequence[int], ratio: float) -> int:
    """Return the nearest-rank quantile of sorted values; 0 if there are none."""
    return min(_MAX_NS, max(1, values[min(len(values) - 1, int(ratio * len(values)))])) if values else 0


_log = structlog.get_logger("railsight.probe")

_NS = 1_000_000_000
_HOUR_S = 3600


class ProbeAgent:
    """Runs the prober and the responder of one host."""

    def __init__(self, params: Params, context: CollectorContext, new_socket: SocketFactory = new_udp_socket) -> None:
        self.device = params.device_name()
        self._params, self._context = params, context
        key = _read_key(params.key_file)
        self._responder = Responder(params, frozenset(), os.urandom(4), key, time.monotonic())
        self._answering = ResponderSockets(self._responder, params.dscp, params.port, new_socket)
        self.prober = Prober(params, key, new_socket)
        self._identity = Identity(self.device, context.collector, context.run)
        emitter = context.emitter(Source.SOURCE_PROBE)
        self._statuses = StatusReporter(emitter, self.device, params.window_s, params.status_every_s, context.clock)
        self._rails = Rails()
        self._planned_hour = -1
        self._stalls_reported = 0

    @property
    def refused(self) -> dict[str, int]:
        """Return the number of requests without an answer, by reason."""
        return dict(self._responder.refused)

    def apply_inventory(self) -> None:
        """Set the inventory's rails and the flows; raises Misconfigured for an inventory that changes nothing."""
        found = read_inventory(SPEC.name, self._params)
        if found is None:
            raise Misconfigured("collect.probe: no inventory; set collect.probe.inventory to its folder")
        rails = find_rails(found)
        if not rails.by_host.get(self.device):
            raise Misconfigured(
                f"collect.probe: {self.device} has no port with an address in {self._params.inventory}; add the"
                " addresses of its ports to the table `ports` as aliases, or set collect.probe.device"
            )
        self._rails, self._planned_hour = rails, -1
        self._plan(self._context.clock.now_ns())

    def _plan(self, now_ns: int) -> None:
        """Set the flows of this hour, also while an address cannot be used."""
        hour = now_ns // (_HOUR_S * _NS)
        if hour == self._planned_hour and not (self._answering.failed or self.prober.failed):
            return
        self._planned_hour = hour
        self._responder.sources = self._rails.addresses
        self._answering.open(tuple(self._rails.by_host[self.device]))
        self.prober.set_flows(flows_of(self._rails, self.device, self._params, hour), time.monotonic())
        for address, why in sorted((self._answering.failed | self.prober.failed).items()):
            _log.warning("cannot probe from a rail, retrying", address=address, why=why)

    async def run(self) -> None:
        """Probe until cancelled, and apply changes of the inventory."""
        self.apply_inventory()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(apply_changes(self._params, self._context.metrics, self.apply_inventory))
            tasks.create_task(self._probe())

    async def _probe(self) -> None:
        params, loop = self._params, asyncio.get_running_loop()
        checked_s = next_s = loop.time()
        window_ns = int(params.window_s * _NS)
        begin_ns = self._context.clock.now_ns()
        end_ns = (begin_ns // window_ns + 1) * window_ns
        ended: tuple[int, int, float] | None = None
        """The window that ended, and the time at which its replies are complete."""
        while True:
            now_s, now_ns = loop.time(), self._context.clock.now_ns()
            self._answering.answer()
            self.prober.tick(now_s)
            if ended is not None and now_s >= ended[2]:
                self._publish(ended[0], ended[1])
                ended = None
            if now_ns >= end_ns and ended is None:
                self.prober.end_window()
                ended = begin_ns, end_ns, now_s + 2 * params.timeout_s
                begin_ns, end_ns = end_ns, (now_ns // window_ns + 1) * window_ns
            if now_s - checked_s >= params.inventory_check_s:
                checked_s = now_s
                self._plan(now_ns)
            next_s = max(next_s + params.tick_s, loop.time())
            await asyncio.sleep(next_s - loop.time())

    def _publish(self, begin_ns: int, end_ns: int) -> ProbeReport:
        now_ns = self._context.clock.now_ns()
        stalls, self._stalls_reported = self.prober.stalls - self._stalls_reported, self.prober.stalls
        report = compose(self._identity, self.prober.evaluate(), begin_ns, end_ns, now_ns, stalls)
        self._context.publisher.offer(encode(PROBES, report), rows=len(report.flow_sent))
        self._statuses.sampled(end_ns)
        self._statuses.report(reachable=True)
        return report

    def close(self) -> None:
        """Close all sockets."""
        self._answering.close()
        self.prober.close()


def _read_key(path: Path | None) -> bytes:
    """Return the shared secret; raises Misconfigured if the file is invalid."""
    if path is None:
        return b""
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise Misconfigured(f"collect.probe: key_file {path}: {error.strerror}") from error
    if not 16 <= len(key) <= 64:
        raise Misconfigured(f"collect.probe: key_file {path}: {len(key)} bytes; a key has 16 to 64")
    return key


ACCESS = Access(writes=(PROBES, COLLECTOR_STATUS))


async def collect(params: Params, context: CollectorContext) -> None:
    """Probe until cancelled."""
    with contextlib.closing(ProbeAgent(params, context)) as agent:
        await agent.run()


SPEC = Spec("probe", Params, collect, part=PROBE, access=lambda _: ACCESS, example="--config railsight.toml")

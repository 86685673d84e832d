"""Makes Events of the kernel log: read, understood, dated, named by port, bounded, handed over. Composition."""

from collections.abc import Callable
from dataclasses import replace

import structlog

from collectors.core.emitter import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from collectors.host.kernel_clock import Times
from collectors.host.lines import Line, parse, record
from collectors.host.logs import LogSource, Place
from collectors.host.messages import About, Classified, classify, is_renaming
from collectors.host.ports import KnownPorts
from collectors.host.rate_limit import RateLimiter
from collectors.host.rate_limited_emitter import RateLimitedEmitter
from collectors.kernel.ports import Role
from streams.wire.errors import Reject
from streams.wire.models import EventKind

_log = structlog.get_logger("railsight.host")

LABEL = "kernel log"
_MOST_LINES = 2000
"""A look; a flood of more is read on after others had their turn."""
_DETAIL = 500
_LINK = {EventKind.LINK_UP, EventKind.LINK_DOWN}


class KernelLog:
    """Follows one log. `say` takes an event and the time at which it was read."""

    def __init__(
        self, source: LogSource, times: Times, ports: KnownPorts, bound: RateLimiter, metrics: CollectorMetrics,
        say: Callable[[DeviceEvent, int], None], *, boot_id: int, of_device: bool, not_before_ns: int,
    ) -> None:  # fmt: skip
        self._source = source
        self._times = times
        self._ports = ports
        self._metrics = metrics
        self._say = say
        self._saying = RateLimitedEmitter(bound, metrics, LABEL, say)
        self._boot_id = boot_id
        self._parse = record if of_device else None
        self._not_before_ns = not_before_ns
        self._drained_ns: int | None = None

    def look(self, now_ns: int, now_s: float) -> bool:
        """Read what is new; answers whether that was all of it."""
        chunk = self._source.read(_MOST_LINES)
        waited_ns = now_ns - self._drained_ns if self._drained_ns is not None else None
        self._drained_ns = now_ns if chunk.is_drained else None
        refused = chunk.refused
        if chunk.lost:
            self._metrics.add("out_of_bounds", LABEL, chunk.lost)
            said = f"{chunk.lost} records of the kernel log were overwritten before they were read"
            _log.warning(said)
            self._say(DeviceEvent(EventKind.LOG, "", now_ns, said), now_ns)
        for data in chunk.lines:
            try:
                happening = self._happening(data, now_ns, waited_ns)
            except Reject:
                refused += 1
                continue
            if happening is not None:
                self._saying.emit(happening, now_ns, now_s)
        self._saying.flush(now_ns, now_s)
        if refused:
            self._metrics.add("unreadable", LABEL, refused)
        return chunk.is_drained

    def place(self) -> Place | None:
        """How far it has read; None while something that was read is not said yet."""
        if self._saying.waits:
            return None
        return replace(
            self._source.place(), boot_id=self._boot_id, zero_ns=self._times.zero_ns(), lag_ns=self._times.lag_ns,
            last_us=self._times.last_us,
        )  # fmt: skip

    def close(self, now_ns: int) -> None:
        """Say what waits, and let go of the log."""
        self._saying.end(now_ns)
        self._source.close()

    def _happening(self, data: bytes, now_ns: int, waited_ns: int | None) -> DeviceEvent | None:
        """What a line tells; None where that is nothing. Raises Reject where it cannot be read or dated."""
        line = self._parse(data) if self._parse else parse(data, now_ns)
        if not line.from_kernel:
            return None
        at_ns = self._times.at_ns(line, now_ns, waited_ns)
        if is_renaming(line.message):
            self._ports.wants_look = True
        if (said := classify(line.message)) is None:
            return None
        if at_ns is None:
            if waited_ns is None:
                raise Reject("a line without a time")
            at_ns = now_ns
        if at_ns < self._not_before_ns:
            return None
        return self._named(said, line, at_ns)

    def _named(self, said: Classified, line: Line, at_ns: int) -> DeviceEvent | None:
        detail = line.message[:_DETAIL]
        if said.about is not About.NIC:
            return DeviceEvent(said.kind, said.pci if said.about is About.GPU else "", at_ns, detail, said.code)
        port = self._ports.of(said.pci, said.netdev)
        if port is None:
            self._ports.wants_look = True
            if said.kind in _LINK:
                # Nobody knows whether it is a port of this host's own: a function handed to a guest has links, too.
                self._metrics.add("unnamed", LABEL)
                return None
            return DeviceEvent(said.kind, said.pci, at_ns, detail, said.code)
        return DeviceEvent(said.kind, port.name, at_ns, detail, said.code) if port.role is Role.FABRIC else None

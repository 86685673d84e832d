"""Converts the kernel log to Events: reads, classifies, dates, names ports, limits rates, emits. Composition only."""

from collections.abc import Callable
from dataclasses import replace

import structlog

from collectors.core.context import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from collectors.host.lines import Line, Times, parse, record
from collectors.host.log_sources import LogSource, Place
from collectors.host.messages import About, Classified, classify, is_renaming
from collectors.host.rate_limit import RateLimitedEmitter
from collectors.kernel.ports import KnownPorts, Role
from streams.wire.errors import Reject
from streams.wire.models import EventKind

_log = structlog.get_logger("railsight.host")

LABEL = "kernel log"
_MOST_LINES = 2000
"""Limit of lines per read; the rest of a flood is read after other tasks have run."""
_DETAIL = 500
_LINK = {EventKind.LINK_UP, EventKind.LINK_DOWN}


class KernelLog:
    """Follows one log. `emit` takes an event and the time at which its line was read."""

    def __init__(
        self, source: LogSource, times: Times, ports: KnownPorts, limited: RateLimitedEmitter,
        metrics: CollectorMetrics, emit: Callable[[DeviceEvent, int], None], *,
        boot_id: int, of_device: bool, not_before_ns: int,
    ) -> None:  # fmt: skip
        self._source = source
        self._times = times
        self._ports = ports
        self._metrics = metrics
        self._emit_event = emit
        self._limited = limited
        self._boot_id = boot_id
        self._parse = record if of_device else None
        self._not_before_ns = not_before_ns
        self._drained_ns: int | None = None

    def look(self, now_ns: int, now_s: float) -> bool:
        """Read new lines; return True if the log is drained."""
        chunk = self._source.read(_MOST_LINES)
        waited_ns = now_ns - self._drained_ns if self._drained_ns is not None else None
        self._drained_ns = now_ns if chunk.is_drained else None
        refused = chunk.refused
        if chunk.lost:
            self._metrics.add("out_of_bounds", LABEL, chunk.lost)
            result = f"{chunk.lost} records of the kernel log were overwritten before they were read"
            _log.warning(result)
            self._emit_event(DeviceEvent(EventKind.LOG, "", now_ns, result), now_ns)
        for data in chunk.lines:
            try:
                happening = self._happening(data, now_ns, waited_ns)
            except Reject:
                refused += 1
                continue
            if happening is not None:
                self._limited.emit(happening, now_ns, now_s)
        self._limited.flush(now_ns, now_s)
        if refused:
            self._metrics.add("unreadable", LABEL, refused)
        return chunk.is_drained

    def place(self) -> Place | None:
        """Return the position; None while an event of a read line is delayed."""
        if self._limited.waits:
            return None
        return replace(
            self._source.place(), boot_id=self._boot_id, zero_ns=self._times.zero_ns(), lag_ns=self._times.lag_ns,
            last_us=self._times.last_us,
        )  # fmt: skip

    def close(self, now_ns: int) -> None:
        """Send delayed events, and close the log."""
        self._limited.end(now_ns)
        self._source.close()

    def _happening(self, data: bytes, now_ns: int, waited_ns: int | None) -> DeviceEvent | None:
        """Return the event of a line; None if the line has no event. Raises Reject if it cannot be parsed or dated."""
        line = self._parse(data) if self._parse else parse(data, now_ns)
        if not line.from_kernel:
            return None
        at_ns = self._times.at_ns(line, now_ns, waited_ns)
        if is_renaming(line.message):
            self._ports.wants_look = True
        if (result := classify(line.message)) is None:
            return None
        if at_ns is None:
            if waited_ns is None:
                raise Reject("a line without a time")
            at_ns = now_ns
        if at_ns < self._not_before_ns:
            return None
        return self._named(result, line, at_ns)

    def _named(self, result: Classified, line: Line, at_ns: int) -> DeviceEvent | None:
        detail = line.message[:_DETAIL]
        if result.about is not About.NIC:
            return DeviceEvent(result.kind, result.pci if result.about is About.GPU else "", at_ns, detail, result.code)
        port = self._ports.of(result.pci, result.netdev)
        if port is None:
            self._ports.wants_look = True
            if result.kind in _LINK:
                # The port may not be this host's: a guest's function has links, too.
                self._metrics.add("unnamed", LABEL)
                return None
            return DeviceEvent(result.kind, result.pci, at_ns, detail, result.code)
        return DeviceEvent(result.kind, port.name, at_ns, detail, result.code) if port.role is Role.FABRIC else None

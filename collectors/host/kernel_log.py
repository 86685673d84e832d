"""Converts the kernel log to Events: reads, classifies, dates, names ports, limits rates, emits. Composition only."""

from collections.abc import Callable
from dataclasses import replace

import structlog

from collectors.core.context import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from collectors.host.lines import Times, parse, record
from collectors.host.log_file import LogFile
from collectors.host.log_sources import Chunk, Kmsg, Place
from collectors.host.messages import About, Classified, NvrmLines, classify, is_renaming, unknown_driver
from collectors.host.rate_limit import RateLimitedEmitter
from collectors.kernel.ports import KnownPorts, Role
from streams.wire.errors import Reject
from streams.wire.models import EventKind

_log = structlog.get_logger("railsight.host")

LABEL = "kernel log"
_MOST_LINES = 2000
"""Limit of lines per read; the rest of a flood is read after other tasks have run."""
_DETAIL = 500
LogSource = Kmsg | LogFile
"""Either source; one task reads it repeatedly. `has_resumed` is True after a start at an earlier process's position."""
_LINK = {EventKind.LINK_UP, EventKind.LINK_DOWN}


def oldest_record_ns(place: Place | None, now_ns: int, backlog_s: float) -> int:
    """Return the time before which the ring's records are passed over; 0 if an earlier process read the ring.

    After its position all records are new, also those of a later boot, however late the agent starts.
    """
    return now_ns - int(backlog_s * 1e9) if place is None or place.inode else 0


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
        self._nvrm = NvrmLines()

    @property
    def problem(self) -> str:
        """The reason why the log is not read now; empty while it is."""
        return self._source.problem

    def look(self, now_ns: int, now_s: float) -> bool:
        """Read new lines; return True if the log is drained."""
        chunk = self._source.read(_MOST_LINES)
        waited_ns = now_ns - self._drained_ns if self._drained_ns is not None else None
        self._drained_ns = now_ns if chunk.is_drained else None
        refused = chunk.refused
        if chunk.lost or chunk.gaps:
            self._report_loss(chunk, now_ns)
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

    def _report_loss(self, chunk: Chunk, now_ns: int) -> None:
        self._metrics.add("out_of_bounds", LABEL, chunk.lost + chunk.gaps)
        text = f"{chunk.lost} records of the kernel log were overwritten before they were read"
        if chunk.gaps:
            text = "the kernel log was truncated, or rotated away, and lines that were not read may be lost"
        _log.warning(text)
        self._emit_event(DeviceEvent(EventKind.LOG, "", now_ns, text), now_ns)

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
            self._metrics.add("passed_over", "not from the kernel")
            return None
        message = self._nvrm.join(line.message)
        at_ns = self._times.at_ns(line, now_ns, waited_ns)
        if is_renaming(message):
            self._ports.wants_look = True
        if (result := classify(message)) is None:
            self._count_unknown(message)
            if line.at_ns is None and line.since_boot_us is None:
                self._metrics.add("passed_over", "without a time")
            return None
        if at_ns is None:
            if waited_ns is None:
                raise Reject("a line without a time")
            at_ns = now_ns
        if at_ns < self._not_before_ns:
            self._metrics.add("passed_over", "older than the first start's limit")
            return None
        return self._named(result, message, at_ns)

    def _count_unknown(self, message: str) -> None:
        """Count a line of a NIC's or GPU's driver that fits no rule, and log it at each doubling of the count."""
        if driver := unknown_driver(message):
            self._metrics.add("unknown", driver)
            count = self._metrics.value("unknown", driver)
            if count.bit_count() == 1:
                _log.warning("kernel lines fit no rule", driver=driver, lines=count, newest=message[:_DETAIL])

    def _named(self, result: Classified, message: str, at_ns: int) -> DeviceEvent | None:
        detail = message[:_DETAIL]
        if result.about in {About.GPU, About.OTHER}:
            return DeviceEvent(result.kind, result.pci if result.about is About.GPU else "", at_ns, detail, result.code)
        ports, rdma = self._ports, result.rdma
        port = ports.of_rdma(rdma, result.number) if rdma else ports.of(result.pci, result.netdev)
        if port is None:
            self._ports.wants_look |= result.about is About.NIC
            if result.kind in _LINK:
                # The port may not be this host's: a guest's function has links, too.
                self._metrics.add("unnamed", LABEL)
                return None
            return DeviceEvent(result.kind, result.pci, at_ns, detail, result.code)
        if port.role is not Role.FABRIC:
            self._metrics.add("passed_over", "not a fabric port")
            return None
        if rdma and port.port.has_ethernet_state:
            return None  # the netdev's line reports the same transition
        return DeviceEvent(result.kind, port.name, at_ns, detail, result.code)

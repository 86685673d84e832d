"""Converts the lines of one device to events: dates them, names their ports, limits and counts them."""

from collections import OrderedDict
from dataclasses import dataclass

import structlog

from collectors.core.clock import AHEAD_NS, ClockSkew
from collectors.core.context import DeviceEvent, Emitter
from collectors.core.metrics import CollectorMetrics
from collectors.core.token_bucket import TokenBucket
from collectors.host.rate_limit import RateLimitedEmitter
from collectors.syslog.lines import Line
from collectors.syslog.link_states import LinkStates
from collectors.syslog.params import Params
from collectors.syslog.port_names import PortNames, is_address, is_other, port_of
from collectors.syslog.stamps import Stamp, configured_zone
from collectors.syslog.tables import Known, classify
from streams.wire.models import EventKind

_log = structlog.get_logger("railsight.syslog")

_DETAIL = 500
_BEHIND_NS = 10_000_000_000
"""Lines that arrive within this time are dated by the device, as samples are."""
_MOST_PATHS = 256
"""Limit of remembered lines, by which the same line on another path is found."""
_LINK = (EventKind.LINK_UP, EventKind.LINK_DOWN)


@dataclass(frozen=True, slots=True)
class Arrival:
    """The arrival of a line. `is_live` is False if the line may have waited, as the lines of a file after a restart."""

    path: str
    at_ns: int
    now_s: float
    is_live: bool = True


class SyslogDevice:
    """One device; its events are published by `emitter`."""

    def __init__(
        self, name: str, zone: str, ports: PortNames, params: Params, metrics: CollectorMetrics, emitter: Emitter
    ) -> None:
        self.name = name
        self._zone = configured_zone(zone)
        self.ports = ports
        self._metrics = metrics
        self._bucket = TokenBucket(params.lines_per_s, params.lines_burst, 0.0)
        self._clock = ClockSkew()
        self._states = LinkStates()
        self._paths: OrderedDict[tuple[Stamp, str, str], str] = OrderedDict()
        self._limited = RateLimitedEmitter(
            params.events_per_s, params.events_burst, metrics, f"events of {name}",
            lambda event, at_ns: emitter.event(name, event, at_ns),
        )  # fmt: skip
        self._dropped = self._reported = 0
        self.newest_ns = 0
        """The arrival of the newest line; 0 before the first one."""
        self.unknown_lines = 0
        """The number of lines that no table knows."""

    @property
    def waits(self) -> bool:
        """True if any event waits."""
        return self._limited.waits

    def admits(self, now_s: float) -> bool:
        """Return whether one more line is within the device's limit; a refused one is counted."""
        if self._bucket.admits(now_s):
            return True
        self._dropped += 1
        self._metrics.add("throttled", self.name)
        return False

    def add(self, line: Line, arrival: Arrival) -> None:
        """Publish the events of one line."""
        self.newest_ns = arrival.at_ns
        self._metrics.add("updates", self.name, 1 + line.repeats)
        if not line.text and not line.mnemonic:
            return
        if (known := classify(line)) is None:
            self._count_unknown(line)
            return
        if known.kind is None:
            self._metrics.add("passed_over", "known, without an event")
            return
        at_ns = self._at_ns(line, arrival)
        if self._is_repeated(line, arrival.path) or (port := self._port(known)) is None:
            return
        detail = f"{line.mnemonic}: {line.text}"[:_DETAIL] if line.mnemonic else line.text[:_DETAIL]
        for kind, event_ns in self._states.events(known.kind, port, at_ns, is_protocol=known.is_protocol):
            event = DeviceEvent(kind, port, event_ns, detail, known.code)
            self._limited.emit(event, arrival.at_ns, arrival.now_s)

    def flush(self, now_ns: int, now_s: float) -> None:
        """Publish delayed events that are due, and the number of lines beyond the limit."""
        if self._limited.waits:
            self._limited.flush(now_ns, now_s)
        if self._dropped > self._reported:
            text = f"{self._dropped - self._reported} lines beyond the rate limit were not read"
            _log.warning("lines not read", device=self.name, lines=self._dropped - self._reported)
            self._reported = self._dropped
            self._limited.emit(DeviceEvent(EventKind.LOG, "", now_ns, text), now_ns, now_s)

    def end(self, now_ns: int) -> None:
        """Publish all delayed events."""
        self._limited.end(now_ns)

    def _count_unknown(self, line: Line) -> None:
        """Count a line that no table knows, and log it at each doubling of the count."""
        self._metrics.add("unknown", self.name)
        self.unknown_lines += 1
        if self.unknown_lines.bit_count() == 1:
            newest = f"{line.facility}-{line.mnemonic}: {line.text}"[:_DETAIL]
            _log.warning("no table knows these lines", device=self.name, lines=self.unknown_lines, newest=newest)

    def _at_ns(self, line: Line, arrival: Arrival) -> int:
        """Return the time of a line, which is not after its arrival.

        The clock of a device may be wrong by any amount, and a zone that is not configured is such an amount.
        """
        at_ns = None if line.stamp is None else line.stamp.at_ns(arrival.at_ns, self._zone)
        if at_ns is None:
            return arrival.at_ns
        if arrival.is_live:
            self._clock.add(at_ns, arrival.at_ns)
            offset_ns = self._clock.offset_ns
            self._metrics.set("clock_offset_seconds", offset_ns / 1e9, self.name)
            if not -_BEHIND_NS <= offset_ns <= AHEAD_NS:
                self._metrics.add("clock_replaced", self.name)
                at_ns -= offset_ns
        return min(at_ns, arrival.at_ns)

    def _is_repeated(self, line: Line, path: str) -> bool:
        """Return whether the same line arrived on another path: directly and through a relay."""
        if line.stamp is None:
            return False
        key = line.stamp, line.mnemonic, line.text
        first = self._paths.setdefault(key, path)
        if len(self._paths) > _MOST_PATHS:
            self._paths.popitem(last=False)
        if first != path:
            self._metrics.add("passed_over", "the same line on another path")
        return first != path

    def _port(self, known: Known) -> str | None:
        """Return the port of an event, empty for the device; None if it is of no port of the fabric."""
        name = known.port
        if not name or is_address(name):
            return name
        if known.kind in _LINK and port_of(name) != name:
            self._metrics.add("passed_over", "a sub-interface")
            return None
        name = port_of(name)
        if is_other(name):
            self._metrics.add("passed_over", "a logical or management port")
            return None
        if known.kind in _LINK and name[0].isalpha():
            self.ports.learn(name)
        return self.ports.resolve(name)

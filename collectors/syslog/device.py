"""Converts the lines of one device to events: dates them, names their ports, reduces, limits and counts them.

The lines of a device about one transition become one event. Devices write LINK and LINEPROTO for one transition, and a
shutdown in several forms: IOS XR only one line about the configuration, and at its end a down and an up; IOS a down
after it.
"""

from collections import OrderedDict
from dataclasses import dataclass

import structlog

from collectors.core.clock import AHEAD_NS, ClockSkew
from collectors.core.context import DeviceEvent, Emitter
from collectors.core.metrics import CollectorMetrics
from collectors.core.token_bucket import TokenBucket
from collectors.host.rate_limit import RateLimitedEmitter
from collectors.syslog.lines import Line
from collectors.syslog.params import Params
from collectors.syslog.port_names import PortNames, is_address, is_other, port_of
from collectors.syslog.stamps import Stamp, configured_zone
from collectors.syslog.tables import Known, classify
from streams.wire.models import EventKind

_TOGETHER_NS = 5_000_000_000
"""Lines of both families about one transition are this close: IOS waits a second, times may be in whole seconds."""
_SHUT_NS = 10_000_000_000
"""A down this soon after a shutdown is its effect; a later one ends it."""
_STEP_NS = 1_000
_SECOND_NS = 1_000_000_000
_MOST_PORTS = 4096
_LINK_KINDS = (EventKind.LINK_UP, EventKind.LINK_DOWN)
_ADMIN_KINDS = (EventKind.ADMIN_UP, EventKind.ADMIN_DOWN)


@dataclass(slots=True)
class _Port:
    kind: EventKind | None = None
    at_ns: int = 0
    is_protocol: bool = False
    shut_ns: int = 0
    """The time of its shutdown; 0 if it is not shut."""


class LinkStates:
    """The ports of one device, as its lines report them."""

    def __init__(self) -> None:
        self._ports: OrderedDict[str, _Port] = OrderedDict()

    def events(self, kind: EventKind, port: str, at_ns: int, *, is_protocol: bool) -> list[tuple[EventKind, int]]:
        """Return the events of one line, each with its time; none for another line about a reported transition.

        Several transitions of one port in one second get increasing times, because many lines have whole seconds.
        """
        if kind not in (*_LINK_KINDS, *_ADMIN_KINDS):
            return [(kind, at_ns)]
        own = self._port(port)
        if own.at_ns - _SECOND_NS < at_ns <= own.at_ns:
            at_ns = own.at_ns + _STEP_NS
        if kind in _ADMIN_KINDS:
            is_repeated = kind is EventKind.ADMIN_DOWN and bool(own.shut_ns) and at_ns - own.shut_ns < _TOGETHER_NS
            own.shut_ns = at_ns if kind is EventKind.ADMIN_DOWN else 0
            own.at_ns = at_ns
            return [] if is_repeated else [(kind, at_ns)]
        if own.shut_ns and kind is EventKind.LINK_DOWN and (is_protocol or at_ns - own.shut_ns < _SHUT_NS):
            return []
        is_other_family = is_protocol != own.is_protocol and abs(at_ns - own.at_ns) <= _TOGETHER_NS
        if is_other_family and (kind is own.kind or (is_protocol and own.kind is not None)):
            return []
        enabled = [(EventKind.ADMIN_UP, at_ns)] if own.shut_ns else []
        own.kind, own.at_ns, own.is_protocol, own.shut_ns = kind, at_ns, is_protocol, 0
        return [*enabled, (kind, at_ns)]

    def _port(self, name: str) -> _Port:
        own = self._ports.setdefault(name, _Port())
        self._ports.move_to_end(name)
        if len(self._ports) > _MOST_PORTS:
            self._ports.popitem(last=False)
        return own


_log = structlog.get_logger("railsight.syslog")

_DETAIL = 500
_BEHIND_NS = 10_000_000_000
"""Lines that arrive within this time are dated by the device, as samples are."""
_REPORTED_S = 60.0
_MOST_PATHS = 256
"""Limit of remembered lines, by which the same line on another path is found."""
_LINK = (EventKind.LINK_UP, EventKind.LINK_DOWN)


class LineShare:
    """The lines a second that one sender may send; others are counted, and reported for a minute."""

    def __init__(self, name: str, per_s: float, burst: float, metrics: CollectorMetrics) -> None:
        self._name, self._per_s, self._metrics = name, per_s, metrics
        self._bucket = TokenBucket(per_s, burst, 0.0)
        self._dropped_s = float("-inf")
        self.dropped = 0

    def admits(self, now_s: float) -> bool:
        """Return whether one more line is within the limit; a refused one is counted."""
        if self._bucket.admits(now_s):
            return True
        self.dropped += 1
        self._dropped_s = now_s
        self._metrics.add("throttled", self._name)
        return False

    def report(self, now_s: float, sender: str) -> str:
        """Return for the status that lines of a sender are not read; empty if none was dropped for a minute."""
        is_recent = now_s - self._dropped_s <= _REPORTED_S
        return f"read in part: {sender} sends more than {self._per_s:g} lines a second" if is_recent else ""


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
        self.share = LineShare(name, params.lines_per_s, params.lines_burst, metrics)
        self.relay: tuple[str, LineShare] | None = None
        """The name and the share of the relay that sent its newest line."""
        self._clock = ClockSkew()
        self._states = LinkStates()
        self._paths: OrderedDict[tuple[Stamp, str, str], str] = OrderedDict()
        self._limited = RateLimitedEmitter(
            params.events_per_s, params.events_burst, metrics, f"events of {name}",
            lambda event, at_ns: emitter.event(name, event, at_ns),
        )  # fmt: skip
        self._reported = 0
        self.newest_ns = 0
        """The arrival of the newest line; 0 before the first one."""
        self.unknown_lines = 0
        """The number of lines that no table knows."""

    @property
    def waits(self) -> bool:
        """True if any event waits."""
        return self._limited.waits

    def report(self, now_s: float) -> str:
        """Return for the status that lines of the device, or of the relay that sends them, are not read."""
        own = self.share.report(now_s, "it")
        return own or ("" if self.relay is None else self.relay[1].report(now_s, f"its relay {self.relay[0]}"))

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
        if fresh := self.share.dropped - self._reported:
            text = f"{fresh} lines beyond the rate limit were not read"
            _log.warning("lines not read", device=self.name, lines=fresh)
            self._reported = self.share.dropped
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

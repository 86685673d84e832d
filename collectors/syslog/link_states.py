"""Reduces the lines of a device about one transition to one event. Pure.

Devices write LINK and LINEPROTO for one transition, and a shutdown in several forms: IOS XR only one line about the
configuration, and at its end a down and an up; IOS a down after it.
"""

from collections import OrderedDict
from dataclasses import dataclass

from streams.wire.models import EventKind

_TOGETHER_NS = 5_000_000_000
"""Lines of both families about one transition are this close: IOS waits a second, times may be in whole seconds."""
_SHUT_NS = 10_000_000_000
"""A down this soon after a shutdown is its effect; a later one ends it."""
_STEP_NS = 1_000
_SECOND_NS = 1_000_000_000
_MOST_PORTS = 4096
_LINK = (EventKind.LINK_UP, EventKind.LINK_DOWN)
_ADMIN = (EventKind.ADMIN_UP, EventKind.ADMIN_DOWN)


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
        if kind not in (*_LINK, *_ADMIN):
            return [(kind, at_ns)]
        own = self._port(port)
        if own.at_ns - _SECOND_NS < at_ns <= own.at_ns:
            at_ns = own.at_ns + _STEP_NS
        if kind in _ADMIN:
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

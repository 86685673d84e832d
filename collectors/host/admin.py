"""Detects administrative shutdowns of ports: compares IFF_UP of rtnetlink with the last reported state. Pure.

Link ups and downs are not reported here: the kernel log has them with its own times and is read again after a
restart; a second reporter would count each down twice.

The kernel closes a netdev before it removes it, whether its driver is unloaded, its card fell off the bus or it moves
to a container: it reports the netdev down, then removed. This is no administrative shutdown, and no report would ever
enable the port again. Therefore a down is reported only if the netdev still exists `HOLD_S` later.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from collectors.core.context import DeviceEvent
from streams.wire.errors import Reject
from streams.wire.models import EventKind

HOLD_S = 2.0
"""Delay of a down. Between down and removal the kernel takes 0.1 ms for a veth, some ms on busy CPUs."""

_HEADS = struct.Struct("=IHHIIBxHiII")
"""`struct nlmsghdr` and `struct ifinfomsg`; the attributes that follow are not needed."""
LINK_BYTES = _HEADS.size
_NEWLINK, _DELLINK = 16, 17
_UNSPEC = 0
"""The family of messages about the netdev itself; a bridge sends removals of its ports with its own family."""
_IFF_UP = 0x1


@dataclass(frozen=True, slots=True)
class Link:
    """The content of a message about a netdev; the index survives a rename."""

    index: int
    is_enabled: bool
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class Netdev:
    """The netdev of a fabric port, and its state."""

    port: str
    name: str
    is_enabled: bool


def link_of(data: bytes) -> Link | None:
    """Parse the first bytes of a message; None for other messages. Raises Reject."""
    if len(data) < LINK_BYTES:
        raise Reject(f"a message of {len(data)} bytes")
    length, kind, _, _, _, family, _, index, flags, _ = _HEADS.unpack_from(data)
    if kind not in {_NEWLINK, _DELLINK} or family != _UNSPEC:
        return None
    if length < LINK_BYTES or index <= 0:
        raise Reject(f"a link of {length} bytes with the index {index}")
    return Link(index, bool(flags & _IFF_UP), kind == _DELLINK)


def ports_of(netdevs: Any) -> tuple[str, ...] | None:
    """Parse a JSON list of ports; None if it is invalid."""
    is_list = isinstance(netdevs, list) and all(isinstance(port, str) for port in netdevs)
    return tuple(netdevs) if is_list else None


class AdminStates:
    """Administrative states of the fabric ports. `disabled` has those last reported so; `now_s` is a monotonic clock.

    For a removed netdev only this state is retained; a difference is reported when it returns.
    """

    def __init__(self, disabled: Iterable[str] = ()) -> None:
        self.disabled = frozenset(disabled)
        self._netdevs: dict[int, Netdev] = {}
        self._pending: dict[str, tuple[float, DeviceEvent]] = {}

    def refresh(self, found: Mapping[int, Netdev], now_ns: int, now_s: float) -> list[DeviceEvent]:
        """Take all netdevs as found in sysfs, by index; a difference has the time of this comparison."""
        self._netdevs = dict(found)
        ports = {netdev.port for netdev in found.values()}
        self._pending = {port: active for port, active in self._pending.items() if port in ports}
        return [
            happening
            for netdev in found.values()
            for happening in self._stands(netdev, netdev.is_enabled, "was found", now_ns, now_s)
        ]

    def on_message(self, link: Link, now_ns: int, now_s: float) -> list[DeviceEvent]:
        """Return the events of a message; none for a netdev without a fabric port."""
        netdev = self._netdevs.get(link.index)
        if netdev is None:
            return []
        if link.is_gone:
            del self._netdevs[link.index]
            self._pending.pop(netdev.port, None)
            return []
        return list(self._stands(netdev, link.is_enabled, "is", now_ns, now_s))

    def due(self, now_s: float) -> list[DeviceEvent]:
        """Return the downs whose delay is over."""
        return [
            happening
            for port, (since_s, _) in list(self._pending.items())
            if now_s - since_s >= HOLD_S
            for happening in self._release(port)
        ]

    def rest(self) -> list[DeviceEvent]:
        """Return all delayed downs, at the end."""
        return [happening for port in list(self._pending) for happening in self._release(port)]

    def _stands(self, netdev: Netdev, is_enabled: bool, how: str, now_ns: int, now_s: float) -> Iterator[DeviceEvent]:
        port = netdev.port
        if is_enabled == (port not in self.disabled and port not in self._pending):
            return
        if not is_enabled:
            result = DeviceEvent(EventKind.ADMIN_DOWN, port, now_ns, f"{netdev.name} {how} disabled")
            self._pending[port] = now_s, result
            return
        yield from self._release(port)
        self.disabled -= {port}
        yield DeviceEvent(EventKind.ADMIN_UP, port, now_ns, f"{netdev.name} {how} enabled")

    def _release(self, port: str) -> Iterator[DeviceEvent]:
        active = self._pending.pop(port, None)
        if active is not None:
            self.disabled |= {port}
            yield active[1]

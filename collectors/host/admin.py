"""That a person shut a port or enabled it: what rtnetlink says of IFF_UP, against what was told last. Pure.

Of links nothing is told here: the kernel log does, which dates them itself and is read on after a restart, and two
tellers of one down would make two downs of it.

A netdev that is taken away is closed first, whether its driver is unloaded, its card fell off the bus or it moves to a
container: the kernel says that it is down, and then that it is gone. No person shut that port, and nobody would tell
of it that it is enabled again. So a down is said only when the netdev is still there some time later.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from collectors.core.emitter import DeviceEvent
from streams.wire.errors import Reject
from streams.wire.models import EventKind

HOLD_S = 2.0
"""How long a down waits. From down to gone the kernel takes 0.1 ms for a veth, and ms where other CPUs have work."""

_HEADS = struct.Struct("=IHHIIBxHiII")
"""`struct nlmsghdr` and `struct ifinfomsg`; no attribute of what follows is needed."""
LINK_BYTES = _HEADS.size
_NEWLINK, _DELLINK = 16, 17
_UNSPEC = 0
"""The family of what concerns the netdev itself; a bridge says `gone` of a port that leaves it, with its own."""
_IFF_UP = 0x1


@dataclass(frozen=True, slots=True)
class Link:
    """What a message says of a netdev; its index outlives its name."""

    index: int
    is_enabled: bool
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class Netdev:
    """That of a port of the fabric, and how it was found."""

    port: str
    name: str
    is_enabled: bool


def link_of(data: bytes) -> Link | None:
    """What the first bytes of a message say; None where it is about something else. Raises Reject."""
    if len(data) < LINK_BYTES:
        raise Reject(f"a message of {len(data)} bytes")
    length, kind, _, _, _, family, _, index, flags, _ = _HEADS.unpack_from(data)
    if kind not in {_NEWLINK, _DELLINK} or family != _UNSPEC:
        return None
    if length < LINK_BYTES or index <= 0:
        raise Reject(f"a link of {length} bytes with the index {index}")
    return Link(index, bool(flags & _IFF_UP), kind == _DELLINK)


def ports_of(netdevs: Any) -> tuple[str, ...] | None:
    """The ports of a list that was written as JSON; None where it makes no sense."""
    is_list = isinstance(netdevs, list) and all(isinstance(port, str) for port in netdevs)
    return tuple(netdevs) if is_list else None


class AdminStates:
    """Of the ports of the fabric. `disabled` are those that were told to be so last; `now_s` is of a clock that grows.

    Of a netdev that goes only that is kept: it is told what differs once it is back.
    """

    def __init__(self, disabled: Iterable[str] = ()) -> None:
        self.disabled = frozenset(disabled)
        self._netdevs: dict[int, Netdev] = {}
        self._held: dict[str, tuple[float, DeviceEvent]] = {}

    def refresh(self, found: Mapping[int, Netdev], now_ns: int, now_s: float) -> list[DeviceEvent]:
        """All netdevs as they are found, by index; when those turned that differ from what was told, nobody saw."""
        self._netdevs = dict(found)
        ports = {netdev.port for netdev in found.values()}
        self._held = {port: held for port, held in self._held.items() if port in ports}
        return [
            happening
            for netdev in found.values()
            for happening in self._stands(netdev, netdev.is_enabled, "was found", now_ns, now_s)
        ]

    def on_message(self, link: Link, now_ns: int, now_s: float) -> list[DeviceEvent]:
        """What a message makes of it; of a netdev that is no port of the fabric, nothing."""
        netdev = self._netdevs.get(link.index)
        if netdev is None:
            return []
        if link.is_gone:
            del self._netdevs[link.index]
            self._held.pop(netdev.port, None)
            return []
        return list(self._stands(netdev, link.is_enabled, "is", now_ns, now_s))

    def due(self, now_s: float) -> list[DeviceEvent]:
        """The downs that have waited."""
        return [
            happening
            for port, (since_s, _) in list(self._held.items())
            if now_s - since_s >= HOLD_S
            for happening in self._release(port)
        ]

    def rest(self) -> list[DeviceEvent]:
        """All that waits, at the end."""
        return [happening for port in list(self._held) for happening in self._release(port)]

    def _stands(self, netdev: Netdev, is_enabled: bool, how: str, now_ns: int, now_s: float) -> Iterator[DeviceEvent]:
        port = netdev.port
        if is_enabled == (port not in self.disabled and port not in self._held):
            return
        if not is_enabled:
            said = DeviceEvent(EventKind.ADMIN_DOWN, port, now_ns, f"{netdev.name} {how} disabled")
            self._held[port] = now_s, said
            return
        yield from self._release(port)
        self.disabled -= {port}
        yield DeviceEvent(EventKind.ADMIN_UP, port, now_ns, f"{netdev.name} {how} enabled")

    def _release(self, port: str) -> Iterator[DeviceEvent]:
        held = self._held.pop(port, None)
        if held is not None:
            self.disabled |= {port}
            yield held[1]

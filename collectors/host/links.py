"""Detects administrative shutdowns of ports: compares IFF_UP of rtnetlink with the last reported state.

Link ups and downs are not reported here: the kernel log has them with their times and is read again after a restart; a
second reporter would count each down twice.

The kernel closes a netdev before it removes it: when its driver is unloaded, its card fell off the bus, or it moves to
a container. It reports the netdev down, then removed. This is no administrative shutdown, and no later report would
enable the port again. Therefore a down is reported only if the netdev still exists `HOLD_S` later.

The socket only receives. An rtnetlink request waits for a lock that a driver may hold for as long as its firmware
sleeps; reading `flags` in sysfs does not take the lock. It is a plain socket, because pyroute2's asyncio socket does
not open on uvloop, and decodes each message completely in 0.2 ms although its first 32 bytes are enough.
"""

import asyncio
import errno
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from collectors.core.context import CollectorContext, DeviceEvent
from collectors.host.rate_limit import RateLimitedEmitter
from collectors.kernel.ports import KnownPort, KnownPorts, Role
from collectors.kernel.tree import Tree
from collectors.kernel.values import is_enabled
from streams.wire.errors import Reject
from streams.wire.models import EventKind

HOLD_S = 2.0
"""Delay of a down. The kernel takes 0.1 ms between down and removal of a veth, some ms on busy CPUs."""

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
    """The administrative states of the fabric ports. `disabled` has the ports last reported as disabled.

    A removed netdev retains only this state; a difference is reported when it returns. `now_s` is a monotonic clock.
    """

    def __init__(self, disabled: Iterable[str] = ()) -> None:
        self.disabled = frozenset(disabled)
        self._netdevs: dict[int, Netdev] = {}
        self._pending: dict[str, tuple[float, DeviceEvent]] = {}

    def refresh(self, found: Mapping[int, Netdev], now_ns: int, now_s: float) -> list[DeviceEvent]:
        """Compare with all netdevs found in sysfs, by index; a difference gets the time of this comparison."""
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
        """Return the downs whose delay has ended."""
        return [
            happening
            for port, (since_s, _) in list(self._pending.items())
            if now_s - since_s >= HOLD_S
            for happening in self._release(port)
        ]

    def rest(self) -> list[DeviceEvent]:
        """Return all delayed downs at the end."""
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


_log = structlog.get_logger("railsight.host")

LABEL = "links"
_RTMGRP_LINK = 1
_BUFFER_BYTES = 1 << 20
"""Requested buffer size; the kernel grants up to `net.core.rmem_max`. If it overflows, sysfs is compared instead."""
_MOST_MESSAGES = 500
"""Limit of messages per read; the rest of a flood is read after other tasks have run."""


class Listener(Protocol):
    """The socket interface: one message per call."""

    def message(self) -> bytes:
        """Return the first bytes of the next message, none if another process sent it; raises OSError."""
        ...

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class Rtnetlink:
    """The real socket, which needs no privilege; raises OSError if it cannot be opened."""

    def __init__(self) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            self._socket.bind((0, _RTMGRP_LINK))
        except OSError:
            self._socket.close()
            raise

    def message(self) -> bytes:
        data, (sender, _) = self._socket.recvfrom(LINK_BYTES)
        return b"" if sender else data  # other processes may also write to this socket; the kernel's id is 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


class Links:
    """Follows the links of one host."""

    def __init__(
        self, tree: Tree, ports: KnownPorts, states: AdminStates, limited: RateLimitedEmitter,
        context: CollectorContext, opened: Callable[[], Listener] = Rtnetlink,
    ) -> None:  # fmt: skip
        self._net = f"{tree.sys}/class/net"
        self._tree = tree
        self._ports = ports
        self._states = states
        self._metrics = context.metrics
        self._clock = context.clock
        self._limited = limited
        self._opened = opened
        self._listener: Listener | None = None
        self._looked_at: tuple[KnownPort, ...] | None = None
        self._has_warned = False

    @property
    def disabled(self) -> tuple[str, ...] | None:
        """Return the ports last reported as disabled; None while such an event is delayed."""
        return None if self._limited.waits else tuple(sorted(self._states.disabled))

    def refresh(self, now_ns: int, now_s: float) -> None:
        """Compare with sysfs after port changes and lost messages, and send due events; called periodically."""
        if self._on_link(now_ns, now_s) and self._looked_at is not self._ports.ports:
            self._open()
            self._looked_at = self._ports.ports
            self._emit(self._states.refresh(self._found(), now_ns, now_s), now_ns, now_s)
        self._emit(self._states.due(now_s), now_ns, now_s)
        self._limited.flush(now_ns, now_s)

    def close(self, now_ns: int, now_s: float) -> None:
        """Send delayed events, and close the socket."""
        self._emit(self._states.rest(), now_ns, now_s)
        self._limited.end(now_ns)
        self._drop()

    def _open(self) -> None:
        if self._listener is not None:
            return
        try:
            self._listener = self._opened()
        except OSError as error:
            self._warn(error)
            return
        loop = asyncio.get_running_loop()
        loop.add_reader(self._listener.fileno(), lambda: self._on_link(self._clock.now_ns(), loop.time()))

    def _on_link(self, now_ns: int, now_s: float) -> bool:
        """Read the available messages; return True if the socket is drained."""
        for _ in range(_MOST_MESSAGES):
            if self._listener is None:
                return True
            try:
                link = link_of(self._listener.message())
            except Reject:
                self._metrics.add("unreadable", LABEL)
            except BlockingIOError:
                return True
            except OSError as error:
                self._looked_at = None
                if error.errno == errno.ENOBUFS:  # later messages are ignored until the socket is drained
                    self._metrics.add("out_of_bounds", LABEL)
                else:
                    self._warn(error)
                    self._drop()
            else:
                self._emit(self._states.on_message(link, now_ns, now_s) if link is not None else (), now_ns, now_s)
        return False

    def _found(self) -> dict[int, Netdev]:
        """Return the netdevs of the fabric ports by index, without IPoIB netdevs, whose state is not their port's."""
        found = {}
        for known in self._ports.ports:
            name = known.port.netdev
            if known.role is not Role.FABRIC or not known.port.has_ethernet_state:
                continue
            index, flags = (self._tree.read_proc(f"{self._net}/{name}/{what}") for what in ("ifindex", "flags"))
            try:
                if index.isdecimal() and flags:
                    found[int(index)] = Netdev(known.name, name, bool(is_enabled(flags)))
            except Reject:
                self._metrics.add("unreadable", LABEL)
        return found

    def _emit(self, happenings: Iterable[DeviceEvent], now_ns: int, now_s: float) -> None:
        for happening in happenings:
            self._limited.emit(happening, now_ns, now_s)

    def _warn(self, error: OSError) -> None:
        """Log the warning once."""
        if not self._has_warned:
            self._has_warned = True
            _log.warning("rtnetlink is not listened to: who shuts a port is seen late", why=error.strerror)

    def _drop(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None

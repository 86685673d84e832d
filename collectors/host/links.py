"""Listens to what rtnetlink says of links, and looks at those of which it cannot have heard. I/O around AdminStates.

The socket only listens. Who asks rtnetlink waits for its lock, which a driver may hold for as long as its firmware
sleeps; `flags` of sysfs the kernel answers by itself. It is a bare socket, because pyroute2's asyncio face does not
open on uvloop, and decodes each message whole in 0.2 ms where 32 bytes of it are enough.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable
from typing import Protocol

import structlog

from collectors.core.context import CollectorContext
from collectors.core.emitter import DeviceEvent
from collectors.host.admin import LINK_BYTES, AdminStates, Netdev, link_of
from collectors.host.ports import KnownPort, KnownPorts
from collectors.host.rate_limit import RateLimiter
from collectors.host.rate_limited_emitter import RateLimitedEmitter
from collectors.kernel.ports import Role
from collectors.kernel.tree import Tree
from collectors.kernel.values import is_enabled
from streams.wire.errors import Reject

_log = structlog.get_logger("railsight.host")

LABEL = "links"
_RTMGRP_LINK = 1
_BUFFER_BYTES = 1 << 20
"""Asked for; the kernel gives what `net.core.rmem_max` allows. Past it messages are lost, and all is looked at."""
_MOST_MESSAGES = 500
"""At once; a flood of more is read on after others had their turn."""


class Listener(Protocol):
    """What is listened to: one message a call."""

    def message(self) -> bytes:
        """The first bytes of the next one, none where it is not the kernel's; raises OSError as that does."""
        ...

    def fileno(self) -> int:
        """What tells that there is one."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Rtnetlink:
    """The Listener that is one; raises OSError where it may not be opened. It wants no privilege."""

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
        return b"" if sender else data  # another process may write to this socket, too; the kernel is 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


class Links:
    """One for a host. `say` takes an event and the time at which it was read."""

    def __init__(
        self, tree: Tree, ports: KnownPorts, states: AdminStates, bound: RateLimiter, context: CollectorContext,
        say: Callable[[DeviceEvent, int], None], opened: Callable[[], Listener] = Rtnetlink,
    ) -> None:  # fmt: skip
        self._net = f"{tree.sys}/class/net"
        self._tree = tree
        self._ports = ports
        self._states = states
        self._metrics = context.metrics
        self._clock = context.clock
        self._saying = RateLimitedEmitter(bound, context.metrics, LABEL, say)
        self._opened = opened
        self._listener: Listener | None = None
        self._looked_at: tuple[KnownPort, ...] | None = None
        self._has_warned = False

    @property
    def disabled(self) -> tuple[str, ...] | None:
        """The ports that were told to be disabled last; None while something of it is not said yet."""
        return None if self._saying.waits else tuple(sorted(self._states.disabled))

    def refresh(self, now_ns: int, now_s: float) -> None:
        """Again and again: look where ports are others than before or messages were lost, and say what has waited."""
        if self._on_link(now_ns, now_s) and self._looked_at is not self._ports.ports:
            self._open()
            self._looked_at = self._ports.ports
            self._emit(self._states.refresh(self._found(), now_ns, now_s), now_ns, now_s)
        self._emit(self._states.due(now_s), now_ns, now_s)
        self._saying.flush(now_ns, now_s)

    def close(self, now_ns: int, now_s: float) -> None:
        """Say what waits, and let go of the socket."""
        self._emit(self._states.rest(), now_ns, now_s)
        self._saying.end(now_ns)
        self._drop()

    def _open(self) -> None:
        if self._listener is not None:
            return
        try:
            self._listener = self._opened()
        except OSError as error:
            self._warn(error)
            return
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._on_message)

    def _on_message(self) -> None:
        self._on_link(self._clock.now_ns(), asyncio.get_running_loop().time())

    def _on_link(self, now_ns: int, now_s: float) -> bool:
        """Take what is there; answers whether that was all of it."""
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
                if error.errno == errno.ENOBUFS:  # and what comes is left out until all that waits is read
                    self._metrics.add("out_of_bounds", LABEL)
                else:
                    self._warn(error)
                    self._drop()
            else:
                self._emit(self._states.on_message(link, now_ns, now_s) if link is not None else (), now_ns, now_s)
        return False

    def _found(self) -> dict[int, Netdev]:
        """Those of the fabric's ports, by index. That an IPoIB netdev is disabled says nothing of its port."""
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
            self._saying.emit(happening, now_ns, now_s)

    def _warn(self, error: OSError) -> None:
        """Once."""
        if not self._has_warned:
            self._has_warned = True
            _log.warning("rtnetlink is not listened to: who shuts a port is seen late", why=error.strerror)

    def _drop(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None

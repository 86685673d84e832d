"""rtnetlink messages become events of the fabric's ports; missed changes are found in sysfs."""

import errno
import os
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from collectors.core.context import CollectorContext, DeviceEvent
from collectors.core.metrics import CollectorMetrics
from collectors.host.links import HOLD_S, LINK_BYTES, AdminStates, Links
from collectors.host.rate_limit import RateLimitedEmitter
from collectors.kernel.ports import KnownPorts, Port
from collectors.kernel.tree import Tree
from streams.wire.models import EventKind
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.netlink_messages import message
from tests.fixtures.nic_tree import SetClock, write

UP, DOWN = EventKind.ADMIN_UP, EventKind.ADMIN_DOWN
PORTS = (
    Port(rdma="mlx5_0", number=1, netdev="ens1np0", node_guid="g0"),
    Port(rdma="mlx5_1", number=1, netdev="ens2np0", node_guid="g1"),
    Port(rdma="mlx5_2", number=1, netdev="ib0", node_guid="g2", link_layer="InfiniBand"),
    Port(netdev="eno1", mac="02:00:00:00:00:01"),
)
NETDEVS = {"ens1np0": 2, "ens2np0": 3, "ib0": 4, "eno1": 5}
_MOST_LOOKS = 1000


class FakeRtnetlink:
    """Gives what it was given, or raises it."""

    def __init__(self) -> None:
        self.waiting: deque[bytes | OSError] = deque()
        self._ends = os.pipe()
        self.is_closed = False

    def send(self, name: str, *, is_enabled: bool) -> None:
        """A message of a netdev."""
        self.waiting.append(message(NETDEVS[name], int(is_enabled)))

    def message(self) -> bytes:
        if not self.waiting:
            raise BlockingIOError(errno.EAGAIN, "nothing to read")
        result = self.waiting.popleft()
        if isinstance(result, OSError):
            raise result
        return result

    def fileno(self) -> int:
        return self._ends[0]

    def close(self) -> None:
        self.is_closed = True
        for end in self._ends:
            os.close(end)


class Host:
    """One host with four netdevs, and its events."""

    def __init__(self, root: Path, disabled: tuple[str, ...] = ()) -> None:
        self.root, self.metrics, self.events = root, CollectorMetrics(), list[DeviceEvent]()
        for name in NETDEVS:
            self.stand(name, is_enabled=True)
        self.ports = KnownPorts("rdma")
        self.ports.adopt(PORTS)
        self.sockets: list[FakeRtnetlink] = []
        self.refusal: OSError | None = None
        self.now_s = 0.0
        self.links = Links(
            Tree(root), self.ports, AdminStates(disabled),
            RateLimitedEmitter(1.0, 20, self.metrics, "links", lambda happening, _: self.events.append(happening)),
            CollectorContext(RecordingPublisher(), "test", self.metrics, clock=SetClock()), self._opened,
        )  # fmt: skip

    def _opened(self) -> FakeRtnetlink:
        if self.refusal is not None:
            raise self.refusal
        self.sockets.append(FakeRtnetlink())
        return self.sockets[-1]

    def stand(self, name: str, *, is_enabled: bool) -> None:
        """Set the flags in sysfs."""
        flags = "0x1003" if is_enabled else "0x1002"
        write(self.root, {f"sys/class/net/{name}/{what}": text
                          for what, text in (("ifindex", str(NETDEVS[name])), ("flags", flags))})  # fmt: skip

    def look(self, after_s: float = 0.0) -> list[tuple[EventKind, str]]:
        """Compare some time later; return the events since the last comparison."""
        self.events.clear()
        self.now_s += after_s
        self.links.refresh(round(self.now_s * 1e9), self.now_s)
        return [(happening.kind, happening.port) for happening in self.events]


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    """One that was looked at."""
    made = Host(tmp_path)
    assert made.look() == []
    yield made
    made.links.close(0, 0.0)


async def test_only_the_fabrics_ports_are_reported_of(host: Host) -> None:
    """By the names of everything else; that an IPoIB netdev or a management port is shut is nothing to the fabric."""
    for name in NETDEVS:
        host.sockets[0].send(name, is_enabled=False)
    host.look()
    assert host.look(HOLD_S) == [(DOWN, "mlx5_0"), (DOWN, "mlx5_1")]
    assert host.links.disabled == ("mlx5_0", "mlx5_1")
    host.sockets[0].send("ens1np0", is_enabled=True)
    assert host.look() == [(UP, "mlx5_0")]


async def test_lost_messages_are_made_up_for_by_a_look(host: Host) -> None:
    """Once all that was left is read: until then the kernel leaves out what comes."""
    host.sockets[0].waiting.append(OSError(errno.ENOBUFS, "no buffer space"))
    for _ in range(_MOST_LOOKS):
        host.sockets[0].send("ens1np0", is_enabled=True)
    host.stand("ens1np0", is_enabled=False)
    host.look()
    assert host.sockets[0].waiting
    while host.sockets[0].waiting:
        host.look()
    assert host.look(HOLD_S) == [(DOWN, "mlx5_0")]
    assert host.metrics.value("out_of_bounds", "links") == 1 and len(host.sockets) == 1


async def test_a_socket_that_is_lost_is_opened_again(host: Host) -> None:
    host.sockets[0].waiting.append(OSError(errno.EBADF, "bad"))
    host.stand("ens2np0", is_enabled=False)
    host.look()
    assert len(host.sockets) == 2 and host.sockets[0].is_closed
    assert host.look(HOLD_S) == [(DOWN, "mlx5_1")]


async def test_where_no_socket_may_be_opened_ports_are_looked_at_all_the_same(tmp_path: Path) -> None:
    """With each search for ports, late; and the next may open it."""
    host = Host(tmp_path)
    host.refusal = PermissionError(errno.EPERM, "not permitted")
    assert host.look() == []
    host.stand("ens1np0", is_enabled=False)
    assert host.look() == host.look(HOLD_S) == []
    host.refusal = None
    host.ports.adopt(PORTS)
    host.look()
    assert host.look(HOLD_S) == [(DOWN, "mlx5_0")] and len(host.sockets) == 1
    host.links.close(0, 0.0)


async def test_ports_that_are_found_later_or_have_another_name_are_reported_of(host: Host) -> None:
    host.ports.adopt(())
    host.look()
    host.sockets[0].send("ens1np0", is_enabled=False)
    host.stand("ens1np0", is_enabled=False)
    assert host.look() == host.look(HOLD_S) == []
    host.ports.adopt(PORTS)
    host.look()
    assert host.look(HOLD_S) == [(DOWN, "mlx5_0")]


async def test_messages_that_make_no_sense_are_counted_and_the_next_is_read(host: Host) -> None:
    """As is a tree whose files do not."""
    host.sockets[0].waiting += [b"", b"\xff" * LINK_BYTES, b"\x00" * LINK_BYTES, message()[:9]]
    host.sockets[0].send("ens1np0", is_enabled=False)
    host.look()
    assert host.metrics.value("unreadable", "links") == 2  # the others are of a kind that is nothing to us
    write(host.root, {"sys/class/net/ens2np0/flags": "nonsense", "sys/class/net/ens1np0/flags": "0x1002"})
    host.ports.adopt(PORTS)
    host.look()
    assert host.metrics.value("unreadable", "links") == 3
    assert host.look(HOLD_S) == [(DOWN, "mlx5_0")]


async def test_a_port_that_is_shut_and_enabled_without_end_does_not_flood(host: Host) -> None:
    """The last state is sent, and omitted events are counted; until then no position is stored."""
    for turn in range(1000):
        host.sockets[0].send("ens1np0", is_enabled=bool(turn % 2))
    emitted: list[DeviceEvent] = []
    while host.sockets[0].waiting:
        host.look()
        emitted += host.events
    assert len(emitted) == 20 and host.links.disabled is None
    assert host.look(1.0) == [(UP, "mlx5_0")]
    assert host.metrics.value("throttled", "links") == 1000 - 21 and host.links.disabled == ()


async def test_the_end_reports_what_waits(host: Host) -> None:
    host.sockets[0].send("ens1np0", is_enabled=False)
    assert host.look() == []
    host.links.close(1, 1.0)
    assert [happening.kind for happening in host.events] == [DOWN] and host.sockets[0].is_closed
    assert host.links.disabled == ("mlx5_0",)

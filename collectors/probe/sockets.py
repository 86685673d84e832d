"""UDP sockets with the kernel's timestamps and the ICMP errors of their packets (Linux: socket(7), ip(7)).

A socket also works without these options; then `sent` and `arrived` are None.
"""

import contextlib
import ctypes
import errno
import select
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import IPv4Network, collapse_addresses
from typing import NamedTuple

from collectors.probe.packet import LENGTH, MAGIC

SO_TIMESTAMPING = 37
_SO_ATTACH_FILTER = 26
_SO_RXQ_OVFL = 40
_IP_RECVERR = 11
_MSG_ERRQUEUE = 0x2000
# linux/net_tstamp.h: RX_SOFTWARE, SOFTWARE; TX_SOFTWARE, OPT_ID, OPT_TSONLY.
_RECEIVE_TIMES = 1 << 3 | 1 << 4
_SEND_TIMES = 1 << 1 | 1 << 7 | 1 << 11
_ORIGIN_ICMP, _ORIGIN_TIMESTAMPING = 2, 4
_ICMP_UNREACHABLE, _ICMP_TIME_EXCEEDED = 3, 11
_PORT_UNREACHABLE = 3
_NS = 1_000_000_000
_RECEIVE_BYTES = 1 << 20
"""Buffer for requests and replies that wait while the process stalls: 1,300 packets, 768 bytes each in the kernel."""
_ANCILLARY_BYTES = 512
_MAX_PREFIXES = 1000
"""A filter has at most 4,096 instructions, and two for each prefix."""

SocketFactory = Callable[[], socket.socket]


def new_udp_socket() -> socket.socket:
    """Return a UDP socket in this process's own network namespace."""
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


class Received(NamedTuple):
    """One packet, with the kernel's time of its arrival and the number of packets dropped so far."""

    data: bytes
    source: tuple[str, int]
    arrived_ns: int | None
    dropped: int


class SendTime(NamedTuple):
    """The kernel's send time of a packet; `number` counts the socket's packets from 0."""

    number: int
    sent_ns: int


class IcmpError(NamedTuple):
    """An ICMP error for a packet of this socket; `quoted` may be shorter than the packet, or empty."""

    quoted: bytes
    destination: tuple[str, int]
    offender: str
    is_time_exceeded: bool
    is_port_unreachable: bool

    @property
    def offender_bytes(self) -> bytes:
        """Return the address of the error's sender, in network byte order."""
        return socket.inet_aton(self.offender)


class ProbeSocket:
    """A bound, non-blocking UDP socket; `send_times` reports the kernel's time of each packet, at one more call."""

    def __init__(
        self,
        address: str,
        port: int,
        dscp: int,
        new_socket: SocketFactory = new_udp_socket,
        *,
        send_times: bool = False,
    ) -> None:
        self.address = address
        self._socket = new_socket()
        try:
            self._set_options(dscp, _RECEIVE_TIMES | (_SEND_TIMES if send_times else 0))
            self._socket.bind((address, port))
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self._sent = 0

    def _set_options(self, dscp: int, timestamps: int) -> None:
        own = self._socket
        own.setblocking(False)
        own.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        for level, option, value in (
            (socket.SOL_SOCKET, SO_TIMESTAMPING, timestamps),
            (socket.SOL_SOCKET, _SO_RXQ_OVFL, 1),
            (socket.IPPROTO_IP, _IP_RECVERR, 1),
        ):
            with contextlib.suppress(OSError):
                own.setsockopt(level, option, value)

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def accept_only(self, addresses: Iterable[str]) -> None:
        """Let the kernel drop packets that are not probe packets, or not from the networks of these addresses."""
        program = filter_program(prefixes(addresses))
        instructions = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
        option = struct.pack("HP", len(program), ctypes.addressof(instructions))
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, option)

    def send(self, data: bytes, to: tuple[str, int], ttl: int = 0) -> int | None:
        """Send a packet; return its number on this socket, None if the kernel refused it.

        A pending ICMP error fails the next call, which also clears the error: then the call is repeated.
        """
        ancillary = [(socket.IPPROTO_IP, socket.IP_TTL, struct.pack("i", ttl))] if ttl else []
        for _ in range(3):
            try:
                self._socket.sendmsg([data], ancillary, 0, to)
            except BlockingIOError:
                return None
            except OSError as error:
                if error.errno not in (errno.EHOSTUNREACH, errno.ECONNREFUSED, errno.ENETUNREACH, errno.EPROTO):
                    return None
                continue
            number, self._sent = self._sent, self._sent + 1
            return number
        return None

    def receive(self) -> Received | None:
        """Return the next packet; None if none is waiting."""
        while True:
            try:
                data, ancillary, _, source = self._socket.recvmsg(LENGTH + 1, _ANCILLARY_BYTES)
            except BlockingIOError:
                return None
            except OSError:
                continue  # a pending ICMP error, which this call has cleared
            arrived_ns, dropped = None, 0
            for level, kind, value in ancillary:
                if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPING:
                    arrived_ns = _time_ns(value)
                elif level == socket.SOL_SOCKET and kind == _SO_RXQ_OVFL:
                    (dropped,) = struct.unpack_from("I", value)
            return Received(data, source[:2], arrived_ns, dropped)

    def next_error(self) -> SendTime | IcmpError | None:
        """Return the next usable entry of the error queue; None if none is waiting."""
        while True:
            try:
                data, ancillary, _, destination = self._socket.recvmsg(LENGTH + 1, _ANCILLARY_BYTES, _MSG_ERRQUEUE)
            except OSError:
                return None
            entry = _error_of(data, ancillary, destination)
            if entry is not None:
                return entry


class ProbeSockets:
    """Reads several sockets together."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._by_descriptor: dict[int, ProbeSocket] = {}

    def __iter__(self) -> Iterator[ProbeSocket]:
        return iter(self._by_descriptor.values())

    def add(self, own: ProbeSocket) -> None:
        """Start to read a socket."""
        self._poll.register(own.fileno(), select.EPOLLIN | select.EPOLLERR)
        self._by_descriptor[own.fileno()] = own

    def remove(self, own: ProbeSocket) -> None:
        """Close a socket."""
        self._poll.unregister(own.fileno())
        del self._by_descriptor[own.fileno()]
        own.close()

    def close(self) -> None:
        """Close all sockets."""
        for own in list(self):
            self.remove(own)
        self._poll.close()

    def read(
        self,
        at_most: int,
        on_error: Callable[[ProbeSocket, SendTime | IcmpError], None],
        on_packet: Callable[[ProbeSocket, Received], None],
    ) -> None:
        """Read up to `at_most` waiting packets of each socket, in turns of one packet per socket."""
        for _ in range(at_most):
            waiting = self._poll.poll(0)
            if not waiting:
                break
            for descriptor, events in waiting:
                own = self._by_descriptor[descriptor]
                error = own.next_error() if events & select.EPOLLERR else None
                if error is not None:
                    on_error(own, error)
                elif (received := own.receive()) is not None:
                    on_packet(own, received)


def _time_ns(value: bytes) -> int | None:
    seconds, nanos = struct.unpack_from("qq", value)
    return int(seconds * _NS + nanos) or None


def _error_of(
    data: bytes, ancillary: Sequence[tuple[int, int, bytes]], destination: tuple[str, int]
) -> SendTime | IcmpError | None:
    sent_ns, extended = None, b""
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPING:
            sent_ns = _time_ns(value)
        elif level == socket.IPPROTO_IP and kind == _IP_RECVERR:
            extended = value
    if len(extended) < 16:  # struct sock_extended_err
        return None
    _, origin, icmp_type, code, _, _, number = struct.unpack_from("IBBBBII", extended)
    if origin == _ORIGIN_TIMESTAMPING:
        return None if sent_ns is None else SendTime(number, sent_ns)
    if origin != _ORIGIN_ICMP or len(extended) < 24:
        return None
    return IcmpError(
        data, destination[:2] if destination else ("", 0), socket.inet_ntoa(extended[20:24]),
        icmp_type == _ICMP_TIME_EXCEEDED, icmp_type == _ICMP_UNREACHABLE and code == _PORT_UNREACHABLE,
    )  # fmt: skip


def prefixes(addresses: Iterable[str]) -> list[IPv4Network]:
    """Return at most 1,000 networks of one prefix length that contain these addresses, as narrow as possible."""
    hosts = list(addresses)
    for length in range(32, -1, -1):
        found = {IPv4Network(f"{address}/{length}", strict=False) for address in hosts}
        if len(found) <= _MAX_PREFIXES:
            return list(collapse_addresses(found))
    return []


def filter_program(networks: Sequence[IPv4Network]) -> list[tuple[int, int, int, int]]:
    """Return a classic BPF program that accepts UDP payloads of LENGTH bytes, beginning with MAGIC, from networks.

    Offset 0 is the UDP header; SKF_NET_OFF is the offset of the IP header (linux/filter.h).
    """
    load_word, load_byte, load_length, and_with, jump_equal, ret = 0x20, 0x30, 0x80, 0x54, 0x15, 0x06
    accept, drop = (ret, 0, 0, 0xFFFFFFFF), (ret, 0, 0, 0)
    program = [
        (load_length, 0, 0, 0), (jump_equal, 1, 0, LENGTH + 8), drop,
        (load_word, 0, 0, 8), (jump_equal, 1, 0, int.from_bytes(MAGIC[:4], "big")), drop,
        (load_byte, 0, 0, 12), (jump_equal, 1, 0, MAGIC[4]), drop,
    ]  # fmt: skip
    for network in networks:
        program += [
            (load_word, 0, 0, 0x100000000 - 0x100000 + 12), (and_with, 0, 0, int(network.netmask)),
            (jump_equal, 0, 1, int(network.network_address)), accept,
        ]  # fmt: skip
    return [*program, drop]

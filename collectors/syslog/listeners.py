"""Listens for syslog on UDP, TCP and TLS; limits what each sender can occupy.

An address that may not send gets no connection, and its datagrams are counted. The kernel drops what a flood sends
faster than this process reads; it reports their number with the next datagram. A TCP stream has lines with a count of
octets or ended by LF (RFC 6587); the first byte of a connection decides: a digit begins a count, `<` a line.
"""

import asyncio
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import structlog

from collectors.core.context import CollectorContext
from collectors.dialout.params import Target, certificate_names, plain
from collectors.host.lines import MOST_BYTES
from collectors.syslog.device import Arrival
from collectors.syslog.params import Input, Params
from collectors.syslog.receiver import Receiver
from streams.wire.errors import Misconfigured, Reject

_LONGEST_COUNT = 5


class Framing:
    """Divides the stream of one TCP connection into lines."""

    def __init__(self) -> None:
        self._data = b""
        self._is_counted: bool | None = None
        self._skips = False
        """True inside a line beyond the maximum size."""
        self.refused = 0
        """Lines beyond the maximum size."""

    @property
    def is_incomplete(self) -> bool:
        """True if a line has begun, or none was received."""
        return bool(self._data) or self._skips or self._is_counted is None

    def add(self, data: bytes) -> Iterator[bytes]:
        """Yield the complete lines; raises Reject for a stream that is no syslog."""
        self._data += data
        if self._is_counted is None and self._data:
            first = self._data[:1]
            if first not in b"123456789<":
                raise Reject(f"a stream that begins with {first!r}")
            self._is_counted = first != b"<"
        yield from self._counted() if self._is_counted else self._ended()

    def _counted(self) -> Iterator[bytes]:
        start, data = 0, self._data
        while start < len(data):
            space = data.find(b" ", start, start + _LONGEST_COUNT + 1)
            digits = data[start : space if space >= 0 else start + _LONGEST_COUNT + 1]
            if not digits.isdigit() or digits[:1] == b"0" or len(digits) > _LONGEST_COUNT:
                raise Reject(f"no count of octets: {digits!r}")
            if space < 0:
                break
            if int(digits) > MOST_BYTES:
                raise Reject(f"a line of {int(digits)} bytes")
            end = space + 1 + int(digits)
            if end > len(data):
                break
            yield data[space + 1 : end]
            start = end
        self._data = data[start:]

    def _ended(self) -> Iterator[bytes]:
        *lines, rest = self._data.split(b"\n")
        self._data = rest
        for line in lines:
            if self._skips:
                self._skips = False
            elif len(line) > MOST_BYTES:
                self.refused += 1
            elif line.strip(b"\r\0 "):
                yield line
        if len(rest) > MOST_BYTES:
            self.refused += not self._skips
            self._skips, self._data = True, b""


_log = structlog.get_logger("railsight.syslog")

_SO_RXQ_OVFL = 40
"""Reports the datagrams that the kernel dropped (asm-generic/socket.h); Python has no name for it."""
_BUFFER = 8 << 20
_AT_ONCE = 256
"""Limit of datagrams that are read before other tasks run."""
_BLOCK = 1 << 16
_BACKLOG = 128
_RETRY_S = 0.2
_HANDSHAKE_S = 5.0
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""A connection whose peer has vanished is closed after 90 s."""


class Listener:
    """One address."""

    def __init__(self, own: Input, params: Params, receiver: Receiver, context: CollectorContext) -> None:
        self._own, self._params, self._receiver = own, params, receiver
        self._context = context
        self._metrics = context.metrics
        self._name = f"{own.form}://{own.place}"
        self._socket = _bound(own)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        """The address, whose port differs from the configured one if that is 0."""
        self._lost = 0
        self._connections: Counter[str] = Counter()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    async def run(self) -> None:
        """Receive until cancelled."""
        loop = asyncio.get_running_loop()
        _log.info("listening", address=self._name, port=self.address[1])
        try:
            if self._own.form == "udp":
                loop.add_reader(self._socket, self._read_datagrams)
                try:
                    await loop.create_future()
                finally:
                    loop.remove_reader(self._socket)
            else:
                await self._accept(self._params.file_context("syslog") if self._own.form == "tls" else None)
        finally:
            self.close()

    def _read_datagrams(self) -> None:
        arrived = Arrival(self._name, self._context.clock.now_ns(), asyncio.get_running_loop().time())
        for _ in range(_AT_ONCE):
            try:
                data, extra, flags, peer = self._socket.recvmsg(MOST_BYTES, 64)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                _log.warning("datagram not read", why=str(error))
                return
            for level, kind, value in extra:
                if level == socket.SOL_SOCKET and kind == _SO_RXQ_OVFL:
                    self._count_lost(struct.unpack("=I", value[:4])[0])
            sender = self._receiver.sender(plain(peer[0]))
            if sender is None:
                self._receiver.refuse(f"{peer[0]} at {self._name}")
            elif flags & socket.MSG_TRUNC:
                self._metrics.add("unreadable", sender.name)
            else:
                self._receiver.receive(data, sender, arrived)

    def _count_lost(self, lost: int) -> None:
        """Count datagrams that the kernel dropped; the counter has 32 bits."""
        if fresh := (lost - self._lost) & 0xFFFFFFFF:
            self._lost = lost
            self._metrics.add("throttled", self._name, fresh)

    async def _accept(self, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    connection, peer = await loop.sock_accept(self._socket)
                except OSError as error:  # no file descriptor is left
                    self._metrics.add("not_admitted", self._name)
                    _log.warning("connection not accepted", address=self._name, why=str(error))
                    await asyncio.sleep(_RETRY_S)
                    continue
                address = plain(peer[0])
                if (context is None or self._params.client_ca_file is None) and self._receiver.sender(address) is None:
                    self._receiver.refuse(f"{address} at {self._name}")
                    connection.close()
                elif not self._has_room(address):
                    self._metrics.add("not_admitted", self._name)
                    connection.close()
                else:
                    self._connections[address] += 1
                    tasks.create_task(self._serve(connection, address, context))

    def _has_room(self, address: str) -> bool:
        total, own = self._connections.total(), self._connections[address]
        return total < self._params.max_connections and own < self._params.max_connections_of_one

    async def _serve(self, connection: socket.socket, address: str, context: ssl.SSLContext | None) -> None:
        """Read one connection until it ends; no content of it raises."""
        writer: asyncio.StreamWriter | None = None
        try:
            for option, value in _KEEPALIVE:
                connection.setsockopt(socket.IPPROTO_TCP, option, value)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            reader, writer = await _streams(connection, context)
            sender = self._receiver.sender(address, certificate_names(writer.get_extra_info("peercert") or {}))
            if sender is None:
                self._receiver.refuse(f"{address} at {self._name}")
                return
            await self._read(reader, sender)
        except Reject as error:
            self._metrics.add("unreadable", self._name)
            _log.warning("connection closed", peer=address, address=self._name, why=str(error))
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            self._metrics.add("not_admitted" if writer is None else "reconnects", self._name)
            _log.info("connection ended", peer=address, address=self._name, why=str(error) or "incomplete for too long")
        finally:
            self._connections[address] -= 1
            self._connections += Counter()  # removes zeros
            connection.close() if writer is None else writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader, sender: Target) -> None:
        framing, refused = Framing(), 0
        loop = asyncio.get_running_loop()
        since_s = loop.time()
        while True:
            limit_s = since_s + self._params.incomplete_s if framing.is_incomplete else None
            async with asyncio.timeout_at(limit_s):
                data = await reader.read(_BLOCK)
            if not data:
                return
            arrival = Arrival(self._name, self._context.clock.now_ns(), loop.time())
            for line in framing.add(data):
                since_s = loop.time()
                self._receiver.receive(line, sender, arrival)
            if not framing.is_incomplete:
                since_s = loop.time()
            if framing.refused > refused:
                self._metrics.add("unreadable", sender.name, framing.refused - refused)
                refused = framing.refused
            await asyncio.sleep(0)  # a sender that never pauses lets others be read


async def _streams(
    connection: socket.socket, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_BLOCK)
    protocol = asyncio.StreamReaderProtocol(reader)
    options: dict[str, Any] = {} if context is None else {"ssl": context, "ssl_handshake_timeout": _HANDSHAKE_S}
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, **options)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def _bound(own: Input) -> socket.socket:
    """Return a socket that is bound to an address; raises Misconfigured."""
    host, port = own.address
    kind = socket.SOCK_DGRAM if own.form == "udp" else socket.SOCK_STREAM
    made: socket.socket | None = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host or "::", port, type=kind, flags=socket.AI_PASSIVE)[0]
        made = socket.socket(family, kind)
        made.setblocking(False)
        if kind == socket.SOCK_DGRAM:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            made.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
        else:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        if kind == socket.SOCK_STREAM:
            made.listen(_BACKLOG)
    except OSError as error:
        if made is not None:
            made.close()
        raise Misconfigured(f"collect.syslog: cannot listen on {own.form}://{own.place}: {error.strerror}") from error
    return made


OnListening = Callable[[list[tuple[str, int]]], None]

"""Runs the responder of a host: selects the requests to answer, and builds the answers.

It answers only addresses of the inventory, each request with at most one packet of the same length to its sender, never
to the port of a responder, and within a rate for each source and for all sources.

Requests are not read on arrival: they wait in their sockets with the kernel's time, as replies do in prober.py. A
wake-up for each request would cost more than the answer. The wait is part of the responder's time, not the network's.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Container
from typing import Generic, NamedTuple, TypeVar

from collectors.core.token_bucket import TokenBucket
from collectors.probe.mesh import Rail
from collectors.probe.packet import REQUESTS, Kind, Packet, decode, encode
from collectors.probe.params import Params
from collectors.probe.sockets import (
    IcmpError,
    ProbeSocket,
    ProbeSockets,
    Received,
    SendTime,
    SocketFactory,
    new_udp_socket,
)

Key = TypeVar("Key")


class KeyedBuckets(Generic[Key]):
    """Holds one bucket per key; beyond `max_keys` the least recently used one is dropped."""

    def __init__(self, rate_s: float, burst: float, max_keys: int) -> None:
        self._rate_s, self._burst, self._max_keys = rate_s, burst, max_keys
        self._buckets: OrderedDict[Key, TokenBucket] = OrderedDict()

    def admits(self, key: Key, now_s: float) -> bool:
        """Return True and count one more event of a key if it is within its rate."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self._rate_s, self._burst, now_s)
            if len(self._buckets) > self._max_keys:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
        return bucket.admits(now_s)


Address = tuple[str, int]

_MAX_FLOWS = 65_536
"""Limit of flows whose probes are counted. At the largest fabric about 104 flows end at a host."""
_MAX_SOURCES = 16_384
_MIN_PORT = 1024


class Answer(NamedTuple):
    """A packet to send; `ttl` 0 means the default."""

    data: bytes
    to: Address
    ttl: int = 0


class Responder:
    """Decides on the requests of one host, with its counts and limits."""

    def __init__(self, params: Params, sources: Container[str], run: bytes, key: bytes, now_s: float) -> None:
        self._params = params
        self.sources = sources
        """The addresses that are answered: the inventory's hosts."""
        self._run, self._key = run, key
        self._per_source: KeyedBuckets[str] = KeyedBuckets(
            params.answers_per_source_s, 2 * params.answers_per_source_s, _MAX_SOURCES
        )
        self._all = TokenBucket(params.answers_per_s, params.answers_per_s, now_s)
        self._counts: OrderedDict[tuple[Address, int, int], int] = OrderedDict()
        """The number of probes that arrived, by source, epoch and flow."""
        self.refused: Counter[str] = Counter()
        """Requests without an answer, by reason."""

    def answer(
        self, data: bytes, source: Address, received_ns: int, replied_ns: int, dropped: int, now_s: float
    ) -> Answer | None:
        """Return the answer to a request, or None; `dropped` is the number of requests that its socket dropped."""
        packet = self._admitted(data, source, now_s)
        if packet is None:
            return None
        if packet.kind is Kind.TRACE_BACK:
            if not (
                _MIN_PORT <= packet.number < 65_536 and packet.number != self._params.port and 0 < packet.value < 256
            ):
                self.refused["malformed"] += 1
                return None
            back = packet._replace(kind=Kind.BACK, number=source[1])
            return Answer(encode(back, self._key), (source[0], packet.number), packet.value)
        if packet.kind is Kind.TRACE:
            return Answer(encode(packet._replace(kind=Kind.TRACE_REPLY), self._key), source)
        reply = packet._replace(
            kind=Kind.REPLY, value=dropped % 65_536, received_ns=received_ns, replied_ns=replied_ns,
            number=self._count(packet, source), mark=self._run,
        )  # fmt: skip
        return Answer(encode(reply, self._key), source)

    def hop(self, quoted: bytes, source: str, offender: bytes, now_s: float) -> Answer | None:
        """Return the packet that reports a hop of the way back; `quoted` is the ICMP error's quote of a BACK."""
        packet = decode(quoted, self._key)
        if packet is None or packet.kind is not Kind.BACK or source not in self.sources:
            return None
        if not (_MIN_PORT <= packet.number < 65_536 and packet.number != self._params.port):
            return None
        if not (self._per_source.admits(source, now_s) and self._all.admits(now_s)):
            return None
        hop = packet._replace(kind=Kind.HOP, mark=offender)
        return Answer(encode(hop, self._key), (source, packet.number))

    def _admitted(self, data: bytes, source: Address, now_s: float) -> Packet | None:
        """Return the request if it is to be answered. The cheap checks come first, so that a flood costs little."""
        reason = ""
        packet = None
        if source[0] not in self.sources:
            reason = "unknown source"
        elif not self._all.admits(now_s):
            reason = "rate of all sources"
        elif not self._per_source.admits(source[0], now_s):
            reason = "rate of the source"
        elif (packet := decode(data, self._key)) is None:
            reason = "malformed"
        elif packet.kind not in REQUESTS:
            reason = "no request"
        elif source[1] == self._params.port or source[1] < _MIN_PORT:
            reason = "port of a service"
        if reason:
            self.refused[reason] += 1
            return None
        return packet

    def _count(self, packet: Packet, source: Address) -> int:
        key = (source, packet.epoch, packet.flow)
        count = self._counts.pop(key, 0) + 1
        self._counts[key] = count
        if len(self._counts) > _MAX_FLOWS:
            self._counts.popitem(last=False)
        return count % 2**32


_BATCH = 1024
"""Limit of packets that one tick reads from a socket, about the size of its queue: a flood does not stop the prober."""


class ResponderSockets:
    """The sockets that receive requests."""

    def __init__(self, responder: Responder, dscp: int, port: int, new_socket: SocketFactory = new_udp_socket) -> None:
        self._responder, self._dscp, self._port, self._new_socket = responder, dscp, port, new_socket
        self._sockets: dict[str, ProbeSocket] = {}
        self._reading = ProbeSockets()
        self.failed: dict[str, str] = {}
        """Addresses that could not be bound, with the reason."""

    def open(self, rails: tuple[Rail, ...]) -> None:
        """Answer at the addresses of these rails only; retry addresses that could not be bound."""
        wanted = {rail.address for rail in rails}
        for address in self._sockets.keys() - wanted:
            self._reading.remove(self._sockets.pop(address))
        self.failed.clear()
        for address in sorted(wanted):
            try:
                if address not in self._sockets:
                    own = ProbeSocket(address, self._port, self._dscp, self._new_socket)
                    self._reading.add(own)
                    self._sockets[address] = own
            except OSError as error:
                self.failed[address] = str(error)
                continue
            self._sockets[address].accept_only(self._responder.sources)  # type: ignore[arg-type]

    def close(self) -> None:
        """Close all sockets."""
        self._sockets.clear()
        self._reading.close()

    def answer(self) -> None:
        """Answer the waiting requests."""
        self._reading.read(_BATCH, self._report_hop, self._answer)

    def _answer(self, own: ProbeSocket, request: Received) -> None:
        now_ns = time.time_ns()
        arrived_ns = now_ns if request.arrived_ns is None else request.arrived_ns
        answer = self._responder.answer(
            request.data, request.source, arrived_ns, now_ns, request.dropped, time.monotonic()
        )
        if answer is not None:
            own.send(*answer)

    def _report_hop(self, own: ProbeSocket, error: SendTime | IcmpError) -> None:
        """Report the switch that discarded a packet of a trace back."""
        if isinstance(error, IcmpError) and error.is_time_exceeded:
            hop = self._responder.hop(error.quoted, error.destination[0], error.offender_bytes, time.monotonic())
            if hop is not None:
                own.send(*hop)

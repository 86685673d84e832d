"""Decides which requests are answered, and with which packet. Pure: sockets.py receives and sends.

Answers only addresses of the inventory, each request with at most one packet of the same length to its sender, never
to the port of a responder, and within a rate for each source and for all of them.
"""

from collections import Counter, OrderedDict
from collections.abc import Container
from typing import NamedTuple

from collectors.probe.packet import REQUESTS, Kind, Packet, decode, encode
from collectors.probe.params import Params
from collectors.probe.rate_limit import KeyedBuckets, TokenBucket

Address = tuple[str, int]

_MAX_FLOWS = 65_536
"""Flows whose probes are counted. At the largest fabric about as many flows end at a host as begin there: 104."""
_MAX_SOURCES = 16_384
_MIN_PORT = 1024


class Answer(NamedTuple):
    """A packet to send; `ttl` 0 means the default."""

    data: bytes
    to: Address
    ttl: int = 0


class Responder:
    """The counts and limits of one host's responder."""

    def __init__(self, params: Params, sources: Container[str], run: bytes, key: bytes, now_s: float) -> None:
        self._params = params
        self.sources = sources
        """The addresses that are answered: those of the inventory's hosts."""
        self._run, self._key = run, key
        self._per_source: KeyedBuckets[str] = KeyedBuckets(
            params.answers_per_source_s, 2 * params.answers_per_source_s, _MAX_SOURCES
        )
        self._all = TokenBucket(params.answers_per_s, params.answers_per_s, now_s)
        self._counts: OrderedDict[tuple[Address, int, int], int] = OrderedDict()
        """By source, epoch and flow, the probes that arrived."""
        self.refused: Counter[str] = Counter()
        """Requests without an answer, by reason."""

    def answer(
        self, data: bytes, source: Address, received_ns: int, replied_ns: int, dropped: int, now_s: float
    ) -> Answer | None:
        """Return the answer to a request, None if it gets none; `dropped` are the requests that its socket dropped."""
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
        """Return the packet that reports a hop of the way back; `quoted` is what the ICMP error quotes of a BACK."""
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
        """Return the request if it is answered. The cheap checks come first, so that a flood costs little."""
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

"""Runs the responder of a host: one socket for each rail.

Requests are not read as they arrive: they wait in their sockets with the kernel's time, as replies do in prober.py. A
wake-up for each of them cost more than the answer, and the wait is part of the responder's time, not of the network's.
"""

import select
import time

from collectors.probe.mesh import Rail
from collectors.probe.responder import Responder
from collectors.probe.sockets import IcmpError, ProbeSocket, Received, SendTime, SocketFactory, new_udp_socket

_BATCH = 1024
"""Packets that one tick reads from a socket, about what its queue holds: a flood does not stop the prober."""


class ResponderSockets:
    """The sockets at which requests arrive."""

    def __init__(self, responder: Responder, dscp: int, port: int, new_socket: SocketFactory = new_udp_socket) -> None:
        self._responder, self._dscp, self._port, self._new_socket = responder, dscp, port, new_socket
        self._sockets: dict[str, ProbeSocket] = {}
        self._by_descriptor: dict[int, ProbeSocket] = {}
        self._poll = select.epoll()
        self.failed: dict[str, str] = {}
        """Addresses that could not be bound, with the reason."""

    def open(self, rails: tuple[Rail, ...]) -> None:
        """Answer at the addresses of these rails, and at no others; tries again those that failed."""
        wanted = {rail.address for rail in rails}
        for address in self._sockets.keys() - wanted:
            self._close(address)
        self.failed.clear()
        for address in sorted(wanted):
            try:
                if address not in self._sockets:
                    self._open(address)
            except OSError as error:
                self.failed[address] = str(error)
                continue
            self._sockets[address].accept_only(self._responder.sources)  # type: ignore[arg-type]

    def close(self) -> None:
        """Close all sockets."""
        for address in list(self._sockets):
            self._close(address)
        self._poll.close()

    def _open(self, address: str) -> None:
        one = self._sockets[address] = ProbeSocket(address, self._port, self._dscp, self._new_socket)
        self._by_descriptor[one.fileno()] = one
        self._poll.register(one.fileno(), select.EPOLLIN | select.EPOLLERR)

    def _close(self, address: str) -> None:
        one = self._sockets.pop(address)
        del self._by_descriptor[one.fileno()]
        self._poll.unregister(one.fileno())
        one.close()

    def answer(self) -> None:
        """Answer the requests that wait: of each socket that has something, one packet at a time."""
        for _ in range(_BATCH):
            waiting = self._poll.poll(0)
            if not waiting:
                break
            for descriptor, events in waiting:
                own = self._by_descriptor[descriptor]
                error = own.next_error() if events & select.EPOLLERR else None
                if error is not None:
                    self._report_hop(own, error)
                elif (request := own.receive()) is not None:
                    self._answer(own, request)

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

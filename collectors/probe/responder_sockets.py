"""Runs the responder of a host: one socket for each rail.

Requests are not read as they arrive: they wait in their sockets with the kernel's time, as replies do in prober.py. A
wake-up for each of them cost more than the answer, and the wait is part of the responder's time, not of the network's.
"""

import time

from collectors.probe.mesh import Rail
from collectors.probe.responder import Responder
from collectors.probe.sockets import (
    IcmpError,
    ProbeSocket,
    ProbeSockets,
    Received,
    SendTime,
    SocketFactory,
    new_udp_socket,
)

_BATCH = 1024
"""Packets that one tick reads from a socket, about what its queue holds: a flood does not stop the prober."""


class ResponderSockets:
    """The sockets at which requests arrive."""

    def __init__(self, responder: Responder, dscp: int, port: int, new_socket: SocketFactory = new_udp_socket) -> None:
        self._responder, self._dscp, self._port, self._new_socket = responder, dscp, port, new_socket
        self._sockets: dict[str, ProbeSocket] = {}
        self._reading = ProbeSockets()
        self.failed: dict[str, str] = {}
        """Addresses that could not be bound, with the reason."""

    def open(self, rails: tuple[Rail, ...]) -> None:
        """Answer at the addresses of these rails, and at no others; tries again those that failed."""
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
        """Answer the requests that wait."""
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

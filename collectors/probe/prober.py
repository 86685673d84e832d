"""Sends the probes of one host at each tick, reads replies and errors, and evaluates windows.

Replies are not read on arrival: they wait in their sockets with the kernel's time, because a wake-up of the process
costs more than a probe.
"""

import socket
import time
from collections.abc import Sequence
from typing import NamedTuple

from collectors.core.context import draw_run
from collectors.probe.flow_window import FlowProbes, FlowWindow, Reply
from collectors.probe.mesh import FlowKey
from collectors.probe.packet import Kind, Packet, decode, encode
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
from collectors.probe.trace import FlowTrace, TracedPath, next_turns

_BATCH = 4096
"""Limit of packets that one tick reads from a socket, so that a flood does not stop the process."""
_TRACE_SEQUENCE = 0xFFFF_FFFF


class MeasuredFlow(NamedTuple):
    """One flow in one window, with its paths."""

    key: FlowKey
    window: FlowWindow
    forward: TracedPath
    back: TracedPath


class _Flow:
    """A flow, its probes and its traces."""

    def __init__(self, number: int, key: FlowKey, own: ProbeSocket, control: ProbeSocket) -> None:
        self.number, self.key, self.socket, self.control = number, key, own, control
        self.probes = FlowProbes()
        self.trace = FlowTrace()
        self.due_s = 0.0
        self.boundary = 0
        """The first probe after the last window that ended."""


class Prober:
    """Probes the flows of one host. Times in seconds are by the monotonic clock."""

    def __init__(self, params: Params, key: bytes = b"", new_socket: SocketFactory = new_udp_socket) -> None:
        self._params, self._key, self._new_socket = params, key, new_socket
        self.epoch = draw_run()
        self._flows: dict[FlowKey, _Flow] = {}
        self._by_number: dict[int, _Flow] = {}
        self._reading = ProbeSockets()
        self._sockets: dict[tuple[str, int], ProbeSocket] = {}
        self._controls: dict[str, ProbeSocket] = {}
        self._sent: dict[tuple[int, int], tuple[_Flow, int]] = {}
        """Maps a socket and the number of its packet to the probe whose send time the kernel reports."""
        self._traces_due_s = 0.0
        self._numbers = 0
        self._tick_s: float | None = None
        self.stalls = 0
        self.forged = 0
        """Packets that match no probe of this process."""
        self.failed: dict[str, str] = {}
        """Addresses that could not be bound, with the reason."""

    @property
    def flow_keys(self) -> list[FlowKey]:
        """Return the flows."""
        return list(self._flows)

    def set_flows(self, keys: Sequence[FlowKey], now_s: float) -> None:
        """Probe these flows; flows that are already probed keep their state."""
        wanted = set(keys)
        for key in self._flows.keys() - wanted:
            del self._by_number[self._flows.pop(key).number]
        self.failed.clear()
        for place, key in enumerate(keys):
            if key not in self._flows:
                try:
                    self._add(key, now_s + self._params.interval_s * place / len(keys))
                except OSError as error:
                    self.failed[key.rail.address] = str(error)
        self._close_unused()

    def _add(self, key: FlowKey, due_s: float) -> None:
        address = key.rail.address
        own = self._sockets.get((address, key.source_port)) or self._open(address, key.source_port)
        self._sockets[address, key.source_port] = own
        self._controls[address] = control = self._controls.get(address) or self._open(address, 0)
        flow = _Flow(self._numbers, key, own, control)
        flow.due_s = due_s
        self._numbers += 1
        self._flows[key] = self._by_number[flow.number] = flow

    def _open(self, address: str, port: int) -> ProbeSocket:
        is_control = port == 0  # only for traces, which need no time
        own = ProbeSocket(address, port, self._params.dscp, self._new_socket, send_times=not is_control)
        self._reading.add(own)
        return own

    def _close_unused(self) -> None:
        used = {flow.socket for flow in self._flows.values()} | {flow.control for flow in self._flows.values()}
        for own in set(self._reading) - used:
            self._close(own)
        self._sockets = {key: own for key, own in self._sockets.items() if own in used}
        self._controls = {key: own for key, own in self._controls.items() if own in used}

    def _close(self, own: ProbeSocket) -> None:
        self._sent = {key: sent for key, sent in self._sent.items() if key[0] != own.fileno()}
        self._reading.remove(own)

    def close(self) -> None:
        """Close all sockets."""
        self._reading.close()

    def tick(self, now_s: float) -> None:
        """Read replies and errors, then send due probes; a late tick is a stall."""
        self.read()
        late_s = 0.0 if self._tick_s is None else now_s - self._tick_s - self._params.tick_s
        if late_s > self._params.stall_s:
            self.stalls += 1
            since_ns = time.time_ns() - int((late_s + self._params.tick_s + self._params.timeout_s) * 1e9)
            for flow in self._flows.values():
                flow.probes.discard(since_ns)
        self._tick_s = now_s
        for flow in self._flows.values():
            if flow.due_s <= now_s:
                self._probe(flow)
                flow.due_s = max(flow.due_s + self._params.interval_s, now_s)
        if now_s >= self._traces_due_s:
            self._trace(now_s)
            self._traces_due_s = max(self._traces_due_s + 1 / self._params.traces_per_s, now_s)

    def _probe(self, flow: _Flow) -> None:
        now_ns = time.time_ns()
        sequence = flow.probes.sent(now_ns)
        packet = Packet(Kind.PROBE, self.epoch, flow.number, sequence, sent_ns=now_ns)
        number = flow.socket.send(encode(packet, self._key), (flow.key.target.address, self._params.port))
        if number is None:
            flow.probes.discard()
            return
        self._sent[flow.socket.fileno(), number] = flow, sequence

    def _trace(self, now_s: float) -> None:
        params = self._params
        for flow in self._flows.values():
            flow.trace.end_if_over(now_s, params.trace_every_s)
            if flow.probes.missing_run > params.trace_after_losses + params.timeout_s / params.interval_s:
                if flow.trace.forward.reach is None:
                    flow.trace.request_urgent(now_s)
            elif flow.trace.forward.reach is not None and flow.probes.missing_run == 0:
                flow.trace.recovered()
        turns = next_turns(((flow.number, flow.key.rail.address, flow.trace) for flow in self._flows.values()), now_s)
        for number in turns:
            self._begin_trace(self._by_number[number], now_s)

    def _begin_trace(self, flow: _Flow, now_s: float) -> None:
        flow.trace.begin(now_s)
        to = flow.key.target.address, self._params.port
        for ttl in range(1, self._params.max_hops + 2):
            forward = Packet(Kind.TRACE, self.epoch, flow.number, _TRACE_SEQUENCE, ttl)
            back = Packet(Kind.TRACE_BACK, self.epoch, flow.number, _TRACE_SEQUENCE, ttl, number=flow.socket.port)
            flow.socket.send(encode(forward, self._key), to, ttl)
            flow.control.send(encode(back, self._key), to)

    def read(self) -> None:
        """Read all waiting replies and errors."""
        self._reading.read(_BATCH, self._on_error, self._on_packet)

    def _on_error(self, own: ProbeSocket, error: SendTime | IcmpError) -> None:
        if isinstance(error, SendTime):
            flow, sequence = self._sent.pop((own.fileno(), error.number), (None, 0))
            if flow is not None and (probe := flow.probes.probes.get(sequence)) is not None:
                probe.sent_ns = error.sent_ns
            return
        packet = decode(error.quoted, self._key)
        flow = None if packet is None or packet.epoch != self.epoch else self._by_number.get(packet.flow)
        if packet is None or flow is None or error.destination[0] != flow.key.target.address:
            return
        if error.is_port_unreachable:
            flow.probes.discard()  # the host answers, but no responder runs on it
        elif error.is_time_exceeded and packet.kind is Kind.TRACE and flow.trace.begun_s is not None:
            flow.trace.forward.answered(packet.value, error.offender)

    def _on_packet(self, own: ProbeSocket, received: Received) -> None:
        arrived_ns = time.time_ns() if received.arrived_ns is None else received.arrived_ns
        packet = decode(received.data, self._key)
        flow = None if packet is None or packet.epoch != self.epoch else self._by_number.get(packet.flow)
        if (
            packet is None
            or flow is None
            or received.source != (flow.key.target.address, self._params.port)
            or own is not (flow.control if packet.kind is Kind.HOP else flow.socket)
        ):
            self.forged += 1
            return
        is_tracing = flow.trace.begun_s is not None
        if packet.kind is Kind.REPLY:
            reply = Reply(
                packet.number, packet.mark, packet.value, packet.received_ns, packet.replied_ns, arrived_ns
            )  # fmt: skip
            self.forged += not flow.probes.replied(packet.sequence, reply)
        elif packet.kind is Kind.TRACE_REPLY and is_tracing:
            flow.trace.forward.arrived(packet.value)
        elif packet.kind is Kind.BACK and is_tracing:
            flow.trace.back.arrived(packet.value)
        elif packet.kind is Kind.HOP and is_tracing:
            flow.trace.back.answered(packet.value, socket.inet_ntoa(packet.mark))

    def end_window(self) -> None:
        """Record the end of a window: later probes belong to the next window."""
        for flow in self._flows.values():
            flow.boundary = flow.probes.next_sequence

    def evaluate(self) -> list[MeasuredFlow]:
        """Return the flows of the window that ended last; call it after the replies' timeout."""
        self.read()
        oldest = {flow.number: flow.boundary for flow in self._flows.values()}
        found = [
            MeasuredFlow(flow.key, flow.probes.evaluate(flow.boundary), flow.trace.forward, flow.trace.back)
            for flow in self._flows.values()
        ]
        self._sent = {key: sent for key, sent in self._sent.items() if sent[1] >= oldest.get(sent[0].number, 1 << 62)}
        return found

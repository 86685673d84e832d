"""Runs a gNMI target for measurements: one switch that sends its values as fast as a client reads them.

python -m lab.bench.gnmi_target ROUNDS

The switch has 64 interfaces of 24 counters, and sends a PROTO Notification with a prefix for each interface. A round is
one sample of all, 10 s after the previous one. All rounds are encoded before the port is printed on standard output. It
runs in its own process, so that its CPU is not counted.

HTTP/2 is implemented here, as far as one client needs it. A server of grpc.aio sends at most 20,000 messages a second,
so that a client would wake for each, and its waiting would be measured.
"""

import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator

from collectors.gnmi.paths import from_text, to_message
from collectors.gnmi.v1 import gnmi_pb2

PORTS, CADENCE_NS = 64, 10_000_000_000
COUNTERS = (
    "in-octets", "out-octets", "in-pkts", "out-pkts", "in-discards", "out-discards", "in-errors", "out-errors",
    "in-fcs-errors", "link-transitions", "interface-transitions", "carrier-transitions", "in-unicast-pkts",
    "out-unicast-pkts", "in-multicast-pkts", "out-multicast-pkts", "in-broadcast-pkts", "out-broadcast-pkts",
)  # fmt: skip
ETHERNET = (
    "in-crc-errors", "in-symbol-error", "in-mac-pause-frames", "out-mac-pause-frames", "fec-corrected-blocks",
    "fec-uncorrectable-blocks",
)  # fmt: skip
LEAVES = (*(f"state/counters/{name}" for name in COUNTERS), *(f"ethernet/state/counters/{name}" for name in ETHERNET))
UPDATES = PORTS * len(LEAVES)
"""The number of updates of one round."""
_PATHS = tuple(to_message(from_text(leaf)) for leaf in LEAVES)


def notification(port: int, at_ns: int, number: int) -> bytes:
    """Return the encoded notification of one interface at one time."""
    response = gnmi_pb2.SubscribeResponse()
    response.update.timestamp = at_ns
    response.update.prefix.CopyFrom(to_message(from_text(f"/interfaces/interface[name=Ethernet{port}/1]")))
    for place, path in enumerate(_PATHS):
        update = response.update.update.add()
        update.path.CopyFrom(path)
        # Traffic counters are large, error counters small.
        update.val.uint_val = (10**12 + number * 10**9 + port) * (place + 1) if place < 4 else place * (number // 100)
    return response.SerializeToString()


def rounds(count: int, last_ns: int) -> list[bytes]:
    """Return this many samples of the whole switch, the last one at this time."""
    first_ns = last_ns - count * CADENCE_NS
    return [
        notification(port, first_ns + number * CADENCE_NS, number) for number in range(count) for port in range(PORTS)
    ]


_PREFACE = 24
_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 4, 6, 8
_ACK = _END_STREAM = 1
_END_HEADERS = 4
_FIRST_WINDOW, _INITIAL_WINDOW_SIZE = 65535, 4
_FRAME = 16384
_ONCE = gnmi_pb2.SubscriptionList.ONCE


def _literal(name: bytes, value: bytes) -> bytes:
    """Encode a header as HPACK does without a table (RFC 7541 6.2.2)."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


_ANSWER = b"\x88" + _literal(b"content-type", b"application/grpc")  # :status 200


def _trailers(status: int) -> bytes:
    return _literal(b"grpc-status", str(status).encode())


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


class _Connection:
    """One client: one thread reads its requests, another writes the responses as its windows allow."""

    def __init__(self, client: socket.socket, data: bytes) -> None:
        self._client = client
        self._data = data
        self._writing = threading.Lock()
        self._lock = threading.Condition()
        self._first_window = _FIRST_WINDOW
        self._windows: dict[int, int] = {0: _FIRST_WINDOW}
        self._requests: dict[int, bytes] = {}

    def run(self) -> None:
        """Answer until the client disconnects."""
        try:
            self._exactly(_PREFACE)
            self._send(_frame(_SETTINGS, 0, 0, b""))
            for kind, flags, stream, payload in self._frames():
                self._take(kind, flags, stream, payload)
        except OSError:
            pass  # the client disconnected
        finally:
            self._client.close()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self._client.recv(size - len(data))
            if not chunk:
                raise ConnectionError
            data += chunk
        return data

    def _frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        while True:
            head = self._exactly(9)
            size = int.from_bytes(head[:3], "big")
            yield head[3], head[4], int.from_bytes(head[5:9], "big") & 0x7FFFFFFF, self._exactly(size)

    def _send(self, data: bytes) -> None:
        with self._writing:
            self._client.sendall(data)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        match kind:
            case 4 if not flags & _ACK:
                self._settle(payload)
            case 6 if not flags & _ACK:
                self._send(_frame(_PING, _ACK, 0, payload))
            case 8:
                self._widen(stream, int.from_bytes(payload, "big"))
            case 0:
                request = self._requests[stream] = self._requests.get(stream, b"") + payload
                if len(request) >= 5 and len(request) >= 5 + int.from_bytes(request[1:5], "big"):
                    self._answer(stream, request[5:])

    def _settle(self, payload: bytes) -> None:
        for at in range(0, len(payload), 6):
            number, value = struct.unpack_from(">HI", payload, at)
            if number == _INITIAL_WINDOW_SIZE:
                with self._lock:
                    for stream in self._windows.keys() - {0}:
                        self._windows[stream] += value - self._first_window
                    self._first_window = value
                    self._lock.notify_all()
        self._send(_frame(_SETTINGS, _ACK, 0, b""))

    def _widen(self, stream: int, by: int) -> None:
        with self._lock:
            self._windows[stream] = self._windows.get(stream, self._first_window) + by
            self._lock.notify_all()

    def _answer(self, stream: int, message: bytes) -> None:
        """Answer Capabilities (an empty message) as not implemented, ONCE without values, a stream with all values."""
        self._requests[stream] = b""
        if not message:
            headers = _ANSWER + _trailers(12)
            self._send(_frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, headers))
        elif gnmi_pb2.SubscribeRequest.FromString(message).subscribe.mode == _ONCE:
            self._send(_frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, _ANSWER + _trailers(0)))
        else:
            self._send(_frame(_HEADERS, _END_HEADERS, stream, _ANSWER))
            threading.Thread(target=self._send_all, args=(stream,), daemon=True).start()

    def _send_all(self, stream: int) -> None:
        at, data = 0, self._data
        with self._lock:
            self._windows.setdefault(stream, self._first_window)
        try:
            while at < len(data):
                with self._lock:
                    self._lock.wait_for(lambda: self._windows[0] > 0 and self._windows[stream] > 0)
                    room = min(self._windows[0], self._windows[stream], 16 * _FRAME, len(data) - at)
                    self._windows[0] -= room
                    self._windows[stream] -= room
                parts = (data[begin : min(begin + _FRAME, at + room)] for begin in range(at, at + room, _FRAME))
                frames = b"".join(_frame(_DATA, 0, stream, part) for part in parts)
                self._send(frames)
                at += room
        except OSError:
            pass  # the client has read all that it needs


def serve(count: int) -> None:
    """Serve until killed."""
    data = b"".join(b"\0" + struct.pack(">I", len(one)) + one for one in rounds(count, time.time_ns()))
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)  # noqa: T201 — the parent reads the port
        while True:
            client, _ = server.accept()
            threading.Thread(target=_Connection(client, data).run, daemon=True).start()


if __name__ == "__main__":
    serve(int(sys.argv[1]))

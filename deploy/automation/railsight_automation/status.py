"""Serves metrics, liveness and readiness over HTTP from its own thread, so that it answers even if the loop is blocked.

`/livez` and `/readyz` answer 200 with `ok`, or 503 with one line; every other path returns the metrics.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
    make_wsgi_app,
)

from railsight_automation.errors import Misconfigured

PROBE_S = 5.0
_ANSWER_S = 10.0
_REQUEST_S = 10.0
_MAX_CONNECTIONS = 64
"""The most open connections, each with a thread; Prometheus and service managers use a few."""
_TEXT = ("Content-Type", "text/plain; charset=utf-8")


@dataclass(frozen=True)
class StatusParams:
    """Settings of `[status]`."""

    port: float = 9100
    host: str = "127.0.0.1"
    stuck_s: float = 60.0
    """Not live after this time with a blocked loop, or without a read while records wait and the brokers answer."""


class Offsets(Protocol):
    """The methods of aiokafka's consumer that the probe uses."""

    def assignment(self) -> set[Any]: ...

    async def end_offsets(self, partitions: Any) -> dict[Any, int]: ...


class Status:
    """Collects the metrics and the health of this process."""

    def __init__(self, now_s: Callable[[], float], stuck_s: float = 60.0) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._stuck_s, self._now_s = stuck_s, now_s

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"railsight_automation_{name}", text, labels, registry=self.registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"railsight_automation_{name}", text, registry=self.registry)

        self.records = counter("records", "Records of remediations that were read.")
        self.unreadable = counter("unreadable", "Records that could not be read, and were skipped.")
        self.lost = counter("input_lost_records", "Records that were deleted before they were read.")
        self.answers = counter("answers", "Results that Kafka has acknowledged, by outcome.", "outcome")
        self.retries = counter("send_retries", "Attempts to send a result that failed and were repeated.")
        self.open = gauge("open", "Remediations that are accepted and not answered yet.")
        self._lag = gauge("lag_records", "Records of remediations that are not read yet.")
        self._is_caught_up = False
        self._turned_s = self._moved_s = now_s()
        self._answered_s: float | None = None
        self._position = 0

    def caught_up(self) -> None:
        """Record that the topic was read to its end once; from now on remediations are carried out."""
        self._is_caught_up = True

    def read(self, positions: Iterable[int]) -> None:
        """Record a pass of the loop, with the positions up to which it has read."""
        self._turned_s = self._now_s()
        if (position := sum(positions)) != self._position:
            self._position, self._moved_s = position, self._turned_s

    def answered(self, end: int) -> None:
        """Record that the brokers answered, with the sum of the ends of the topic's partitions."""
        lag = max(0, end - self._position)
        self._answered_s = self._now_s()
        self._lag.set(lag)
        if not lag:
            self._moved_s = self._answered_s

    async def watch(self, consumer: Offsets) -> None:
        """Request the end of the topic from the brokers until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_ANSWER_S):
                    self.answered(sum((await consumer.end_offsets(consumer.assignment())).values()))
            except Exception:  # noqa: BLE001 — of any kind: without an answer it is not ready, which has a line
                pass
            await asyncio.sleep(PROBE_S)

    def liveness_problem(self) -> str:
        """Return why the process needs a restart; empty if it is live, as during the start and without brokers."""
        now_s = self._now_s()
        if not self._is_caught_up:
            return ""
        if (since_s := now_s - self._turned_s) > self._stuck_s:
            return f"loop: has not turned for {since_s:.0f} s"
        if not self._brokers_problem() and (since_s := now_s - self._moved_s) > self._stuck_s:
            return f"input: processed no record for {since_s:.0f} s though records wait"
        return ""

    def readiness_problem(self) -> str:
        """Return why the process is not working now; empty if it is ready."""
        starting = "" if self._is_caught_up else "start: the remediations are not read to their end"
        return self.liveness_problem() or starting or self._brokers_problem()

    def _brokers_problem(self) -> str:
        if self._answered_s is None:
            return "brokers: no answer yet"
        since_s = self._now_s() - self._answered_s
        return f"brokers: no answer for {since_s:.0f} s" if since_s > PROBE_S + _ANSWER_S else ""


class _Server(ThreadingMixIn, WSGIServer):
    """A server with one thread for each connection; closes stalled connections and those beyond the maximum."""

    daemon_threads = True
    request_queue_size = 2 * _MAX_CONNECTIONS

    def __init__(self, family: socket.AddressFamily, address: tuple[str, int], request_s: float) -> None:
        self.address_family = family
        self._request_s = request_s
        self._slots = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # The socket's own timeout restarts with each byte.
        deadline = threading.Timer(self._request_s, _shut_down, (request,))
        deadline.daemon = True
        deadline.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            deadline.cancel()
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: the client or the deadline closed the connection."""


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — its name in the standard library
        """Log nothing."""


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def serve(status: Status, params: StatusParams, request_s: float = _REQUEST_S) -> Callable[[], None]:
    """Start serving and return a function that stops it; raise Misconfigured if the address is not usable.

    `request_s` limits the time of each connection for request and response.
    """
    metrics = make_wsgi_app(status.registry)
    problems = {"/livez": status.liveness_problem, "/readyz": status.readiness_problem}

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if (problem_of := problems.get(environ["PATH_INFO"])) is None:
            found: Iterable[bytes] = metrics(environ, start_response)
            return found
        problem = problem_of()
        start_response("503 Service Unavailable" if problem else "200 OK", [_TEXT])
        return [f"{problem or 'ok'}\n".encode()]

    try:
        family, _, _, _, address = socket.getaddrinfo(params.host, int(params.port), type=socket.SOCK_STREAM)[0]
        server = _Server(family, (str(address[0]), int(params.port)), request_s)
    except OSError as error:
        raise Misconfigured(
            f"status: cannot listen on {params.host}:{params.port:g}: {error.strerror}; choose another port"
        ) from error
    server.set_app(application)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop

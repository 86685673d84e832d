"""Serves metrics, liveness and readiness of a process over HTTP from a separate thread, and reports them to systemd.

`/livez` and `/readyz` answer 200 with `ok`, or 503 with one line: the name of the failing check and its problem. Every
other path serves the metrics. systemd's protocol is one datagram of `NAME=value` lines to the socket in NOTIFY_SOCKET
(sd_notify(3)). One library for it wraps libsystemd and needs a compiler; another has forty lines and no release since
2017.
"""

import asyncio
import os
import socket
import threading
import typing
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import prometheus_client
from prometheus_client import CollectorRegistry, make_wsgi_app

from streams.health.health import Health
from streams.instrument.metrics import HELP, Counter, Gauge
from streams.wire.errors import Misconfigured

_STOP_S = 5.0
_REQUEST_S = 10.0
_MAX_CONNECTIONS = 64
"""The most open connections. Prometheus, service managers and people use a few; each takes a thread."""
_TEXT = ("Content-Type", "text/plain; charset=utf-8")


class _Server(ThreadingMixIn, WSGIServer):
    """A server with one thread for each connection; closes stalled connections and those beyond the maximum."""

    daemon_threads = True
    request_queue_size = 2 * _MAX_CONNECTIONS

    def __init__(self, family: socket.AddressFamily, address: tuple[str, int], request_s: float) -> None:
        self.address_family = family
        self.request_s = request_s
        self._slots = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # The socket's own timeout restarts with each byte.
        deadline = threading.Timer(self.request_s, _shut_down, (request,))
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


class StatusServer:
    """Serves until closed; port 0 chooses a free port. Raises Misconfigured if it cannot listen.

    `request_s` limits the time of each connection for request and response.
    """

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, health: Health, request_s: float = _REQUEST_S
    ) -> None:
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._server = _Server(family, (str(address[0]), port), request_s)
        except OSError as error:
            raise Misconfigured(
                f"self-metrics: cannot listen on {host}:{port}: {error.strerror}; choose another port"
            ) from error
        self._server.set_app(_application(registry, health))
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving, and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_STOP_S)


def _application(registry: CollectorRegistry, health: Health) -> Callable[..., Iterable[bytes]]:
    metrics: Callable[..., Iterable[bytes]] = make_wsgi_app(registry)
    problems = {"/livez": health.liveness_problem, "/readyz": health.readiness_problem}

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if (problem_of := problems.get(environ["PATH_INFO"])) is None:
            return metrics(environ, start_response)
        problem = problem_of()
        start_response("503 Service Unavailable" if problem else "200 OK", [_TEXT])
        return [f"{problem or 'ok'}\n".encode()]

    return answer


_LABELS = ("stage", "partition", "topic")


class PrometheusMetrics:
    """Serves the metrics to Prometheus over HTTP."""

    def __init__(self, host: str, port: int, health: Health) -> None:
        """Port 0 chooses a free port; raises Misconfigured if the port is unavailable."""
        registry = CollectorRegistry()
        # It would add a series for each counter that no dashboard reads.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._counters = {
            name: prometheus_client.Counter(name, HELP[name], _LABELS, registry=registry)
            for name in typing.get_args(Counter)
        }
        self._gauges = {
            name: prometheus_client.Gauge(name, HELP[name], _LABELS[:2], registry=registry)
            for name in typing.get_args(Gauge)
        }
        self._server = StatusServer(host, port, registry, health)
        self.port = self._server.port

    def count(self, name: Counter, stage: str, partition: int, *, topic: str = "", by: float = 1) -> None:
        """Add to a counter."""
        self._counters[name].labels(stage, partition, topic).inc(by)

    def set(self, name: Gauge, stage: str, partition: int, value: float) -> None:
        """Set a gauge."""
        self._gauges[name].labels(stage, partition).set(value)

    def close(self) -> None:
        """Stop serving, and free the port."""
        self._server.close()


BEAT_S = 1.0
_STATUS_CHARACTERS = 200


def notify(*lines: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Send these lines to systemd; return False if that fails, for example while the socket is full."""
    if not (path := environ.get("NOTIFY_SOCKET")):
        return True
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.setblocking(False)
        out.sendto("\n".join(lines).encode(), address)
        return True
    return False


def stop_of(health: Health, environ: Mapping[str, str] = os.environ) -> None:
    """Report that the process stops; call it before stopping begins."""
    health.stopping()
    notify("STOPPING=1", "STATUS=stopping", environ=environ)


@asynccontextmanager
async def supervised(health: Health, environ: Mapping[str, str] = os.environ) -> AsyncIterator[None]:
    """Evaluate and report the health within the context."""
    task = asyncio.create_task(_report(health, environ), name="health")
    try:
        yield
    finally:
        task.cancel()


async def _report(health: Health, environ: Mapping[str, str]) -> None:
    was_ready = False
    while True:
        health.beat()
        if not health.liveness_problem():
            problem = health.readiness_problem()
            lines = ["WATCHDOG=1", f"STATUS={problem[:_STATUS_CHARACTERS] or 'ready'}"]
            if not was_ready:
                # A process that waits for its brokers has not failed to start; a stuck process sends nothing.
                limit_us = round(health.params.stuck_s * 1e6)
                lines.append(f"EXTEND_TIMEOUT_USEC={limit_us}" if problem else "READY=1")
            is_sent = notify(*lines, environ=environ)
            was_ready = was_ready or (is_sent and not problem)
        await asyncio.sleep(BEAT_S)

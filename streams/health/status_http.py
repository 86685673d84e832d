"""Serves metrics, liveness and readiness over HTTP from its own thread, so that it answers even if the loop is blocked.

`/livez` and `/readyz` answer 200 with `ok`, or 503 with one line; every other path serves the metrics.
deploy/automation serves its health by it as well, so it imports nothing of the pipeline.
"""

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.client import LineTooLong
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from streams.health.http_names import HEADER_BYTES, is_rebound

REQUEST_S = 10.0
_STOP_S = 5.0
_MAX_CONNECTIONS = 64
"""The most open connections. Prometheus, service managers and people use a few; each takes a thread."""
_TEXT = ("Content-Type", "text/plain; charset=utf-8")

Problem = Callable[[], str]
"""Returns the name of the failing check and its problem; empty without one."""


class _Server(ThreadingMixIn, WSGIServer):
    """A server with one thread for each connection; closes stalled connections, and beyond the maximum the oldest.

    Connections that only wait would otherwise let a probe of `/livez` fail, so that a service manager restarts it.
    """

    daemon_threads = True
    request_queue_size = 2 * _MAX_CONNECTIONS

    def __init__(self, family: socket.AddressFamily, address: tuple[str, int], request_s: float) -> None:
        self.address_family = family
        self.request_s = request_s
        self._open: dict[Any, None] = {}
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._open) >= _MAX_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                _shut_down(oldest)
            self._open[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # The socket's own timeout restarts with each byte.
        deadline = threading.Timer(self.request_s, _shut_down, (request,))
        deadline.daemon = True
        deadline.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            deadline.cancel()
            with self._lock:
                self._open.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: the client or the deadline closed the connection."""


class _Head:
    """The bytes of a request up to the limit of its head; raises LineTooLong beyond it, which is answered with 431."""

    def __init__(self, file: Any) -> None:
        self._file, self._left = file, HEADER_BYTES
        self.close = file.close

    def readline(self, _size: int) -> bytes:
        line: bytes = self._file.readline(self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("head")
        return line


class _Handler(WSGIRequestHandler):
    def setup(self) -> None:
        """Bound the head of the request: the standard library accepts a hundred headers of 64 KiB each."""
        super().setup()
        self.rfile: Any = _Head(self.rfile)

    def get_environ(self) -> dict[str, Any]:
        """Return the environment with the address to which the client has connected."""
        return super().get_environ() | {"LOCAL_ADDR": self.connection.getsockname()[0]}

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — its name in the standard library
        """Log nothing."""


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class StatusHttp:
    """Serves until closed; port 0 chooses a free port. Raises OSError if it cannot listen.

    `request_s` limits the time of each connection for request and response.
    """

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, live: Problem, ready: Problem, request_s: float
    ) -> None:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self._server = _Server(family, (str(address[0]), port), request_s)
        self._server.set_app(_application(registry, {"/livez": live, "/readyz": ready}))
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving, and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_STOP_S)


def _application(registry: CollectorRegistry, problems: dict[str, Problem]) -> Callable[..., Iterable[bytes]]:
    metrics: Callable[..., Iterable[bytes]] = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if is_rebound(environ["LOCAL_ADDR"], environ.get("HTTP_HOST")):
            start_response("421 Misdirected Request", [_TEXT])
            return [b"Host is not a name of this machine\n"]
        if (problem_of := problems.get(environ["PATH_INFO"])) is None:
            return metrics(environ, start_response)
        problem = problem_of()
        start_response("503 Service Unavailable" if problem else "200 OK", [_TEXT])
        return [f"{problem or 'ok'}\n".encode()]

    return answer

"""Serves metrics, liveness and readiness of a process over HTTP, from a thread of its own.

`/livez` and `/readyz` answer 200 with `ok`, or 503 with one line: the name of the check that fails, and its problem.
Every other path is the metrics.
"""

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server

from streams.health.health import Health
from streams.wire.errors import Misconfigured

_STOP_S = 5.0
_TEXT = ("Content-Type", "text/plain; charset=utf-8")


class StatusServer:
    """The server; port 0 chooses a free one. Raises Misconfigured if it cannot listen there."""

    def __init__(self, host: str, port: int, registry: CollectorRegistry, health: Health) -> None:
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            raise Misconfigured(
                f"self-metrics: cannot listen on {host}:{port}: {error.strerror}; choose another port"
            ) from error
        self._server.set_app(_application(registry, health))
        self.port = self._server.server_port

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

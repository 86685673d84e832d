"""Serves metrics, liveness and readiness of a process (status_http.py), and reports them to systemd.

systemd's protocol is one datagram of `NAME=value` lines to the socket in NOTIFY_SOCKET
(sd_notify(3)). One library for it wraps libsystemd and needs a compiler; another has forty lines and no release since
2017.
"""

import asyncio
import os
import socket
import typing
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

import prometheus_client
from prometheus_client import CollectorRegistry

from streams.health.health import Health
from streams.health.metrics_export import MetricsExport, Sender
from streams.health.status_http import REQUEST_S, StatusHttp
from streams.instrument.metrics import HELP, UNIT, Counter, Gauge, Metrics, NullMetrics
from streams.wire.errors import Misconfigured


class StatusServer(StatusHttp):
    """Serves the health of a process until closed; raises Misconfigured if it cannot listen."""

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, health: Health, request_s: float = REQUEST_S
    ) -> None:
        try:
            super().__init__(host, port, registry, health.liveness_problem, health.readiness_problem, request_s)
        except OSError as error:
            raise Misconfigured(
                f"self-metrics: cannot listen on {host}:{port}: {error.strerror}; choose another port"
            ) from error


_LABELS = ("stage", "partition", "topic")


def process_metrics(host: str, port: int | None, health: Health, sender: Sender | None) -> Metrics:
    """Return the metrics of a process, which discard everything if they are neither served nor sent."""
    if port is None and (sender is None or not sender.params.metrics):
        return NullMetrics()
    return PrometheusMetrics(host, port, health, sender)


class PrometheusMetrics:
    """Serves the metrics to Prometheus over HTTP, and sends them by OTLP."""

    def __init__(self, host: str, port: int | None, health: Health, sender: Sender | None = None) -> None:
        """Port 0 chooses a free port, and without a port they are not served.

        Raises Misconfigured if the port is unavailable, or the files of TLS are unusable.
        """
        registry = CollectorRegistry()
        units: dict[str, str] = {str(name): unit for name, unit in UNIT.items()}
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
        self._server = None if port is None else StatusServer(host, port, registry, health)
        self.port = 0 if self._server is None else self._server.port
        self._export = exported(sender, registry, lambda name: units[name])

    def count(self, name: Counter, stage: str, partition: int, *, topic: str = "", by: float = 1) -> None:
        """Add to a counter."""
        self._counters[name].labels(stage, partition, topic).inc(by)

    def set(self, name: Gauge, stage: str, partition: int, value: float) -> None:
        """Set a gauge."""
        self._gauges[name].labels(stage, partition).set(value)

    def close(self) -> None:
        """Stop serving and sending, and free the port."""
        if self._server is not None:
            self._server.close()
        if self._export is not None:
            self._export.close()


def exported(sender: Sender | None, registry: CollectorRegistry, units: Callable[[str], str]) -> MetricsExport | None:
    """Start sending the metrics of a registry; return None if the settings have no receiver of metrics."""
    if sender is None or not sender.params.metrics:
        return None
    return MetricsExport(sender, registry, units)


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

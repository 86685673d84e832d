"""The counts of a worker as Prometheus reads them, on a port with its health."""

import typing

import prometheus_client
from prometheus_client import CollectorRegistry

from streams.health.health import Health
from streams.health.status_server import StatusServer
from streams.instrument.metrics import HELP, Counter, Gauge

_LABELS = ("stage", "partition", "topic")


class PrometheusMetrics:
    """Metrics behind an HTTP face."""

    def __init__(self, host: str, port: int, health: Health) -> None:
        """Port 0 chooses a free one; raises Misconfigured where the port cannot be had."""
        registry = CollectorRegistry()
        # One series more for every counter, which no dashboard reads.
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

"""The counts of a worker as Prometheus reads them, on a port of their own."""

import typing

import prometheus_client
from prometheus_client import CollectorRegistry

from streams.instrument.metrics import HELP, Counter, Gauge
from streams.wire.errors import Misconfigured

_LABELS = ("stage", "partition", "topic")


class PrometheusMetrics:
    """Metrics behind an HTTP face."""

    def __init__(self, host: str, port: int) -> None:
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
        try:
            self._server, self._thread = prometheus_client.start_http_server(port, host, registry)
        except OSError as error:
            raise Misconfigured(f"metrics: cannot listen on {host}:{port}: {error.strerror}") from error
        self.port = self._server.server_port

    def count(self, name: Counter, stage: str, partition: int, *, topic: str = "", by: float = 1) -> None:
        """Add to a counter."""
        self._counters[name].labels(stage, partition, topic).inc(by)

    def set(self, name: Gauge, stage: str, partition: int, value: float) -> None:
        """Set a gauge."""
        self._gauges[name].labels(stage, partition).set(value)

    def close(self) -> None:
        """Stop serving, and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

"""Serves a collector's self-metrics to Prometheus, on loopback."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from collectors.core.metrics import CollectorMetrics
from streams.wire.errors import Misconfigured

_STOP_S = 5.0


def serve_metrics(counts: CollectorMetrics, port: int) -> Callable[[], None]:
    """Begin to serve; answers what ends it. Raises Misconfigured where the port is taken."""
    registry = CollectorRegistry()
    registry.register(_AsCollector(counts))
    try:
        server, thread = start_http_server(port, "127.0.0.1", registry)
    except OSError as error:
        raise Misconfigured(f"self-metrics: port {port}: {error.strerror}") from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join(_STOP_S)

    return stop


class _AsCollector(Collector):
    """What Prometheus registers; it asks a Counts."""

    def __init__(self, counts: CollectorMetrics) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        return self._counts.collect()

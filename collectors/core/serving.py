"""Serves a collector's self-metrics to Prometheus."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from collectors.core.metrics import CollectorMetrics
from streams.wire.errors import Misconfigured

_STOP_S = 5.0


def serve_metrics(metrics: CollectorMetrics, host: str, port: int) -> Callable[[], None]:
    """Start the server and return the function that stops it; raises Misconfigured if it cannot listen there."""
    registry = CollectorRegistry()
    registry.register(AsCollector(metrics))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise Misconfigured(f"self-metrics: port {port} of {host}: {error.strerror}; choose another port") from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join(_STOP_S)

    return stop


class AsCollector(Collector):
    """Adapts CollectorMetrics to prometheus_client's registry."""

    def __init__(self, metrics: CollectorMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return self._metrics.collect()

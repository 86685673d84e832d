"""Serves a collector's self-metrics and health over HTTP."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from collectors.core.metrics import CollectorMetrics
from streams.health.health import Health
from streams.health.status_server import StatusServer


def serve_metrics(metrics: CollectorMetrics, host: str, port: int, health: Health) -> StatusServer:
    """Start and return the server; raises Misconfigured if it cannot listen there."""
    registry = CollectorRegistry()
    registry.register(AsCollector(metrics))
    return StatusServer(host, port, registry, health)


class AsCollector(Collector):
    """Adapts CollectorMetrics to prometheus_client's registry."""

    def __init__(self, metrics: CollectorMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return self._metrics.collect()

"""`railsight persist`: writes every topic to ClickHouse until Ctrl-C or SIGTERM."""

import time
from typing import TYPE_CHECKING

from streams.cli.options import Bootstrap, Config, settings_of
from streams.cli.process import MetricsPort
from streams.wire.access import PERSIST

if TYPE_CHECKING:
    from streams.instrument.metrics import Metrics


def persist(config: Config = None, bootstrap: Bootstrap = None, metrics_port: MetricsPort = None) -> None:
    """Store the records of Kafka, each row once; several instances share the partitions.

    Example: `railsight persist --config railsight.toml --metrics-port 9102`.
    """
    from streams.health.health import Health
    from streams.health.status_server import PrometheusMetrics
    from streams.instrument.metrics import NullMetrics
    from streams.store.persist.serve import run

    settings = settings_of(config, bootstrap, PERSIST)
    health = Health(settings.health, time.monotonic)
    metrics: Metrics = NullMetrics()
    if metrics_port is not None:
        metrics = PrometheusMetrics(settings.runtime.metrics_host, metrics_port, health)
    run(settings.store, settings.kafka.client_options(), settings.persist, health, metrics)

"""`railsight tickets`: sends remediations that need a person's hands to a ticket system until Ctrl-C or SIGTERM."""

import asyncio
import time
from typing import TYPE_CHECKING

from streams.cli.options import Bootstrap, Config, settings_of
from streams.cli.process import MetricsPort
from streams.wire.access import TICKETS

if TYPE_CHECKING:
    from streams.instrument.metrics import Metrics


def tickets(config: Config = None, bootstrap: Bootstrap = None, metrics_port: MetricsPort = None) -> None:
    """Open, update and close tickets of repairs and escalations; several instances elect one that delivers.

    Example: `railsight tickets --config railsight.toml`.
    """
    from streams.cli.notify import params_of, run_until_stopped
    from streams.health.health import Health
    from streams.health.status_server import PrometheusMetrics
    from streams.instrument.metrics import NullMetrics
    from streams.notify.tickets.service import TicketService
    from streams.runtime.wall_clock import WallClock
    from streams.wire.errors import Misconfigured

    settings = settings_of(config, bootstrap, TICKETS)
    if settings.tickets is None:
        raise Misconfigured("tickets.url: required and not set; set it in [tickets] or as RAILSIGHT__TICKETS__URL")
    health = Health(settings.health, time.monotonic)
    port = settings.runtime.metrics_port if metrics_port is None else metrics_port
    metrics: Metrics = NullMetrics() if port is None else PrometheusMetrics(settings.runtime.metrics_host, port, health)
    service = TicketService(
        settings.tickets, params_of(settings), settings.kafka.client_options(), WallClock(), metrics
    )
    asyncio.run(run_until_stopped(service, settings, health))

"""`railsight process`, `persist`, `notify` and `tickets`: each runs one part of the pipeline until a signal."""

import asyncio
import logging
import signal
import time
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.options import Bootstrap, Config, settings_of
from streams.config.settings import Settings
from streams.health.health import Health
from streams.health.status_server import stop_of, supervised
from streams.notify.params import NotifyParams
from streams.wire.errors import Retry
from streams.wire.retry import Backoff, Failure, retry
from streams.wire.topics import NOTIFY, PERSIST, PROCESS, TICKETS

if TYPE_CHECKING:
    from streams.instrument.metrics import Metrics
    from streams.notify.elected_health import ElectedService


MetricsPort = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Serve metrics and health on this loopback port; 0: a free one.")
]


def process(
    stage: Annotated[
        str | None, typer.Argument(help="measure, correlate, attribute or decide; default: all of them.")
    ] = None,
    config: Config = None,
    bootstrap: Bootstrap = None,
    metrics_port: MetricsPort = None,
    instance: Annotated[
        str | None,
        typer.Option(help="Unique name of this worker: with it, it gets its partitions back at once after a kill."),
    ] = None,
) -> None:
    """Run one stage, or all of them; several workers of one stage share its partitions.

    Examples: `railsight process --config railsight.toml`, `railsight process measure --metrics-port 9101`.
    """
    from streams.config.stages import stage_factory
    from streams.runtime.serve import run_stages
    from streams.wire.topics import STAGES

    settings = settings_of(config, bootstrap, PROCESS if stage is None else stage)
    given = {"metrics_port": metrics_port, "instance": instance}
    runtime = settings.runtime.model_copy(update={name: value for name, value in given.items() if value is not None})
    names = STAGES if stage is None else (stage,)
    stages = {name: stage_factory(name, settings) for name in names}
    run_stages(stages, settings.kafka, runtime, health=settings.health)


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


log = logging.getLogger(__name__)

_START_RETRY_S = 2.0


class _WallClock:
    def now_ns(self) -> int:
        return time.time_ns()


def notify(config: Config = None, bootstrap: Bootstrap = None, metrics_port: MetricsPort = None) -> None:
    """Post findings to Alertmanager, page for root causes that need an operator, and resolve closed findings.

    Example: `railsight notify --config railsight.toml --metrics-port 9103`.
    """
    from streams.health.status_server import PrometheusMetrics
    from streams.notify.service import NotifyService

    settings = settings_of(config, bootstrap, NOTIFY)
    health = Health(settings.health, time.monotonic)
    metrics = None
    if metrics_port is not None:
        metrics = PrometheusMetrics(settings.runtime.metrics_host, metrics_port, health)
    service = NotifyService(params_of(settings), settings.kafka.client_options(), _WallClock(), metrics)
    asyncio.run(run_until_stopped(service, settings, health))


def params_of(settings: Settings) -> NotifyParams:
    """Return the notifier's settings, with the fabric's name as default cluster."""
    return settings.notify.model_copy(update={"cluster": settings.notify.cluster or settings.kafka.cluster})


async def run_until_stopped(service: "ElectedService", settings: Settings, health: Health) -> None:
    """Run the service until SIGINT or SIGTERM; the next instance continues its work.

    Waits for Kafka and the topics at the start, with a line for each reason.
    """
    from streams.notify.elected_health import add_checks

    brokers = asyncio.ensure_future(add_checks(service, settings.kafka.client_options(), health).run())
    running = asyncio.ensure_future(_run_when_possible(service))

    def stop() -> None:
        stop_of(health)
        running.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        async with supervised(health):
            await running
    except asyncio.CancelledError:
        if not running.cancelled():
            raise
    finally:
        brokers.cancel()


async def _run_when_possible(service: "ElectedService") -> None:
    logged = ""

    def warn(failure: Failure) -> None:
        nonlocal logged
        if (reason := str(failure.error)) != logged:
            log.warning("waiting: %s", reason)
        logged = reason

    await retry(lambda _: service.run(), Retry, Backoff.constant(_START_RETRY_S), before_wait=warn)


def tickets(config: Config = None, bootstrap: Bootstrap = None, metrics_port: MetricsPort = None) -> None:
    """Open, update and close tickets of repairs and escalations; several instances elect one that delivers.

    Example: `railsight tickets --config railsight.toml`.
    """
    from streams.cli.parts import params_of, run_until_stopped
    from streams.health.health import Health
    from streams.health.status_server import PrometheusMetrics
    from streams.instrument.metrics import NullMetrics
    from streams.notify.tickets.service import TicketService
    from streams.runtime.foreground import WallClock
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

"""Defines `railsight process`, `persist`, `notify` and `tickets`, which run one part of the pipeline until a signal."""

import asyncio
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.options import Bootstrap, Config, settings_of
from streams.wire.topics import NOTIFY, PERSIST, PROCESS, TICKETS

if TYPE_CHECKING:
    from streams.config.settings import Settings
    from streams.health.health import Health
    from streams.health.metrics_export import Sender
    from streams.instrument.metrics import Metrics
    from streams.notify.params import NotifyParams

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
    run_stages(
        stages,
        settings.kafka,
        runtime,
        health=settings.health,
        identity=settings.identity,
        sender=sender_of(settings, PROCESS if stage is None else stage),
    )


def persist(config: Config = None, bootstrap: Bootstrap = None, metrics_port: MetricsPort = None) -> None:
    """Store the records of Kafka, each row once; several instances share the partitions.

    Example: `railsight persist --config railsight.toml --metrics-port 9102`.
    """
    from streams.store.persist.serve import run

    settings = settings_of(config, bootstrap, PERSIST)
    health, metrics = _served(settings, PERSIST, metrics_port)
    verifier = settings.identity.verifier()
    run(
        settings.store,
        settings.kafka.client_options(),
        settings.persist,
        health,
        metrics,
        verifier,
        settings.runtime.instance,
    )


def sender_of(settings: "Settings", part: str) -> "Sender":
    """Return the sender of a part's self-metrics."""
    from streams.health.metrics_export import Sender, resource

    return Sender(settings.otlp, resource(part, settings.kafka.cluster, settings.runtime.instance), time.time_ns)


def _served(settings: "Settings", part: str, port: int | None) -> tuple["Health", "Metrics"]:
    """Return the health and the metrics of a part, served on a port if it is set."""
    from streams.health.health import Health
    from streams.health.status_server import process_metrics

    health = Health(settings.health, time.monotonic)
    return health, process_metrics(settings.runtime.metrics_host, port, health, sender_of(settings, part))


class NotifyTarget(StrEnum):
    """The receivers of findings."""

    ALERTMANAGER = "alertmanager"
    OTLP = "otlp"


def notify(
    target: Annotated[
        NotifyTarget | None, typer.Argument(help="Default: Alertmanager, and OTLP if otlp.logs is set.")
    ] = None,
    config: Config = None,
    bootstrap: Bootstrap = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Post findings to Alertmanager, page for root causes that need an operator, and resolve closed findings.

    Sends all revisions of findings and remediations as log records, if `[otlp] logs` names a receiver of OTLP.
    Examples: `railsight notify --config railsight.toml --metrics-port 9103`, `railsight notify otlp`.
    """
    from streams.notify.election import ElectedService, run_until_stopped
    from streams.notify.service import NotifyService
    from streams.runtime.foreground import WallClock

    settings = settings_of(config, bootstrap, NOTIFY)
    health, metrics = _served(settings, NOTIFY, metrics_port)
    kafka = settings.kafka.client_options()
    services: dict[str, ElectedService] = {}
    if target is not NotifyTarget.OTLP:
        services[""] = NotifyService(_notify_params(settings), kafka, WallClock(), metrics)
    if target is NotifyTarget.OTLP or (target is None and settings.otlp.logs):
        from streams.notify.log_export import LogExport

        services["otlp-"] = LogExport(settings.otlp, sender_of(settings, NOTIFY).resource, kafka, WallClock(), metrics)
    asyncio.run(run_until_stopped(services, kafka, health))


def _notify_params(settings: "Settings") -> "NotifyParams":
    """Return the notifier's settings, with the fabric's name as default cluster."""
    return settings.notify.model_copy(update={"cluster": settings.notify.cluster or settings.kafka.cluster})


def tickets(config: Config = None, bootstrap: Bootstrap = None, metrics_port: MetricsPort = None) -> None:
    """Open, update and close tickets of repairs and escalations; several instances elect one that delivers.

    Example: `railsight tickets --config railsight.toml`.
    """
    from streams.notify.election import run_until_stopped
    from streams.notify.tickets.service import TicketService
    from streams.runtime.foreground import WallClock
    from streams.wire.errors import Misconfigured

    settings = settings_of(config, bootstrap, TICKETS)
    if settings.tickets is None:
        raise Misconfigured("tickets.url: required and not set; set it in [tickets] or as RAILSIGHT__TICKETS__URL")
    port = settings.runtime.metrics_port if metrics_port is None else metrics_port
    health, metrics = _served(settings, TICKETS, port)
    kafka = settings.kafka.client_options()
    service = TicketService(settings.tickets, _notify_params(settings), kafka, WallClock(), metrics)
    asyncio.run(run_until_stopped({"": service}, kafka, health))

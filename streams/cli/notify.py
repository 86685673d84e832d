"""`railsight notify`: sends open findings to Alertmanager until Ctrl-C or SIGTERM."""

import asyncio
import logging
import signal
import time
from typing import TYPE_CHECKING

from streams.cli.options import Bootstrap, Config, settings_of
from streams.cli.process import MetricsPort
from streams.config.settings import Settings
from streams.health.health import Health
from streams.health.supervision import stop_of, supervised
from streams.notify.params import NotifyParams
from streams.wire.access import NOTIFY
from streams.wire.errors import Retry
from streams.wire.retry import Backoff, Failure, retry

if TYPE_CHECKING:
    from streams.notify.elected_health import ElectedService

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

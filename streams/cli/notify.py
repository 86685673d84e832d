"""`railsight notify`: sends open findings to Alertmanager until Ctrl-C or SIGTERM."""

import asyncio
import signal
import time
from typing import Protocol

from streams.cli.options import Bootstrap, Config, settings_of
from streams.config.settings import Settings
from streams.notify.params import NotifyParams


class Service(Protocol):
    """A service that runs until it is cancelled."""

    async def run(self) -> None:
        """Run until cancelled."""
        ...


class _WallClock:
    def now_ns(self) -> int:
        return time.time_ns()


def notify(config: Config = None, bootstrap: Bootstrap = None) -> None:
    """Post findings to Alertmanager, page for root causes that need an operator, and resolve closed findings."""
    from streams.notify.service import NotifyService

    settings = settings_of(config, bootstrap)
    service = NotifyService(params_of(settings), settings.kafka.client_options(), _WallClock())
    asyncio.run(run_until_stopped(service))


def params_of(settings: Settings) -> NotifyParams:
    """Return the notifier's settings, with the fabric's name as default cluster."""
    return settings.notify.model_copy(update={"cluster": settings.notify.cluster or settings.kafka.cluster})


async def run_until_stopped(service: Service) -> None:
    """Run the service until SIGINT or SIGTERM; the next instance continues its work."""
    running = asyncio.ensure_future(service.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        if not running.cancelled():
            raise

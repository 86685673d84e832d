"""`railsight notify`: keep Alertmanager told of what is open, until Ctrl-C or SIGTERM."""

import asyncio
import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from streams.config.settings import Settings, load
from streams.notify.consume import NotifyService
from streams.notify.params import NotifyParams


class _WallClock:
    def now_ns(self) -> int:
        return time.time_ns()


def notify(
    config: Annotated[Path | None, typer.Option(help="Configuration file; default: defaults and environment.")] = None,
) -> None:
    """Post findings to Alertmanager, page for the causes that need a person, and resolve what is over."""
    settings = load(config)
    service = NotifyService(params_of(settings), settings.kafka.client_options(), _WallClock())
    asyncio.run(run_until_stopped(service))


def params_of(settings: Settings) -> NotifyParams:
    """The notifier's own part, with the fabric's name where it has none."""
    return settings.notify.model_copy(update={"cluster": settings.notify.cluster or settings.kafka.cluster})


async def run_until_stopped(service: NotifyService) -> None:
    """Run the service until SIGINT or SIGTERM; standing alerts stay, for a successor to take over."""
    running = asyncio.ensure_future(service.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        if not running.cancelled():
            raise

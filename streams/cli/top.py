"""`railsight top`: the running pipeline on a terminal: fabric, findings, links and jobs, driven by the keyboard."""

import asyncio
import sys
from pathlib import Path

from streams.cli.options import Bootstrap, Config, settings_of
from streams.config.settings import Settings
from streams.report.source_status import read_statuses
from streams.report.top.app import TopApp, actions, run_until_cancelled
from streams.report.top.state import TopState, follow_state
from streams.wire.errors import Misconfigured
from streams.wire.topics import READER


def top(config: Config = None, bootstrap: Bootstrap = None) -> None:
    """Show the fabric, the open findings, links and jobs, and follow them.

    Keys: f, o, l, j select a view; the arrows a row; Enter or e explains it, a acknowledges it; / searches; q quits.

    Example: `railsight top`, on the machine of `railsight up`; `railsight top --config FILE` elsewhere, also over ssh.
    """
    run_top(config, bootstrap, "fabric-tab")


def run_top(config: Path | None, bootstrap: str | None, first_tab: str) -> None:
    """Run the program until a person quits; raise Misconfigured without a terminal, Retry if Kafka does not answer."""
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise Misconfigured("this needs a terminal; use `railsight findings` and `railsight status` in a pipe")
    asyncio.run(_run(settings_of(config, bootstrap, READER), first_tab))


async def _run(settings: Settings, first_tab: str) -> None:
    state = TopState()
    # Before the screen, so that brokers that do not answer are one line.
    await read_statuses(settings.kafka)
    following = asyncio.ensure_future(follow_state(settings.kafka, state))
    try:
        await run_until_cancelled(TopApp(state, actions(lambda: settings), first_tab=first_tab))
    finally:
        following.cancel()
        await asyncio.wait([following])

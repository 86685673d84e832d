"""What a collector is told anew while it runs: its configuration, or a file that it names, changed; or SIGHUP came.

What is refused is told and counted, and what was in force stays. Where Kafka is, the spool and the group are taken up
at the start only.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import structlog

from collectors.core.metrics import CollectorMetrics
from collectors.core.params import CollectorParams
from collectors.core.spec import Core
from streams.wire.errors import Misconfigured

_log = structlog.get_logger("railsight.reload")

LOOK_S = 1.0

Params = TypeVar("Params", bound=CollectorParams)
Stamp = tuple[tuple[int, int] | None, ...]


async def reloads(
    params: Params,
    core: Core,
    counts: CollectorMetrics,
    take: Callable[[Params], None],
    check_interval_s: float = LOOK_S,
) -> None:
    """Hand changed settings to `take`, which raises Misconfigured where it refuses them; until cancelled."""
    with _hangup() as hangup:
        before = _fingerprint(core, params)
        while True:
            await _waited(hangup, check_interval_s)
            now = _fingerprint(core, params)
            if now == before and not hangup.is_set():
                continue
            hangup.clear()
            try:
                fresh = params if core.again is None else core.again()
                assert isinstance(fresh, type(params))
                take(fresh)
            except Misconfigured as error:
                counts.add("reload_refused")
                _log.error("the new configuration is refused; the old one stays", why=str(error))
                before = now
                continue
            params = fresh
            before = _fingerprint(core, params)
            counts.add("reloads")
            _log.info("configuration read again")


async def _waited(hangup: asyncio.Event, look_s: float) -> None:
    try:
        async with asyncio.timeout(look_s):
            await hangup.wait()
    except TimeoutError:
        return


def _fingerprint(core: Core, params: CollectorParams) -> Stamp:
    """What tells whether a file was written since; None where there is none at the moment."""
    return tuple(map(_file_fingerprint, (*core.configuration, *params.files())))


def _file_fingerprint(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


@contextmanager
def _hangup() -> Iterator[asyncio.Event]:
    """Set by each SIGHUP; not at a terminal, where it says that the terminal is gone."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    if sys.stdin is not None and sys.stdin.isatty():
        yield event
        return
    loop.add_signal_handler(signal.SIGHUP, event.set)
    try:
        yield event
    finally:
        loop.remove_signal_handler(signal.SIGHUP)

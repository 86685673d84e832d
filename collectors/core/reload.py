"""Reloads a collector's settings while it runs, on SIGHUP and when the configuration or a file that it names changes.

Invalid settings are logged and counted, and the old ones stay in force. Kafka's address, the spool and the group are
read only at the start.
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
from collectors.core.params import CollectorParams, Core
from streams.wire.errors import Misconfigured

_log = structlog.get_logger("railsight.reload")

CHECK_INTERVAL_S = 1.0

Params = TypeVar("Params", bound=CollectorParams)
Fingerprint = tuple[tuple[int, int] | None, ...]


async def reloads(
    params: Params,
    core: Core,
    metrics: CollectorMetrics,
    apply: Callable[[Params], None],
    check_interval_s: float = CHECK_INTERVAL_S,
) -> None:
    """Pass changed settings to `apply` until cancelled; `apply` raises Misconfigured to refuse them."""
    with _hangup() as hangup:
        applied = _fingerprint(core, params)
        while True:
            await _wait(hangup, check_interval_s)
            current = _fingerprint(core, params)
            if current == applied and not hangup.is_set():
                continue
            hangup.clear()
            try:
                changed = params if core.reload_settings is None else core.reload_settings()
                assert isinstance(changed, type(params))
                apply(changed)
            except Misconfigured as error:
                metrics.add("reload_refused")
                _log.error("new configuration refused, the old one stays in force", why=str(error))
                applied = current
                continue
            params = changed
            applied = _fingerprint(core, params)
            metrics.add("reloads")
            _log.info("configuration reloaded")


async def _wait(hangup: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await hangup.wait()
    except TimeoutError:
        return


def _fingerprint(core: Core, params: CollectorParams) -> Fingerprint:
    """Return a value that changes when a file is written; its part for a missing file is None."""
    return tuple(map(_file_fingerprint, (*core.configuration, *params.files())))


def _file_fingerprint(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


@contextmanager
def _hangup() -> Iterator[asyncio.Event]:
    """Yield an event that each SIGHUP sets; not at a terminal, where SIGHUP means that the terminal was closed."""
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

"""Limits the values of one device that are processed in a second, and the event loop's time for a large piece of work.

Values are charged before they are parsed, by their number or by their bytes, whichever is more.
"""

import asyncio
from collections.abc import Callable, Iterator

import structlog

from collectors.core.metrics import CollectorMetrics

_LOOP_SHARE = 0.2
"""The most of the event loop's time that one device takes while a large piece of its work is processed."""
_WINDOW_S = 1.0

_log = structlog.get_logger("railsight.collect")


class DeviceShare:
    """Counts the values of a device in windows of one second; a device above its limit is read more slowly."""

    def __init__(self, name: str, max_per_s: int, metrics: CollectorMetrics) -> None:
        self._name = name
        self._max_per_s = max_per_s
        self._metrics = metrics
        self._window_s, self._values = float("-inf"), 0
        self._is_reported = False

    def delay_s(self, values: int, now_s: float) -> float:
        """Add values; return the rest of the second if the device has exceeded its limit, else 0."""
        if not 0 <= now_s - self._window_s < _WINDOW_S:
            self._window_s, self._values = now_s, 0
        self._values += values
        if self._values <= self._max_per_s:
            return 0.0
        self.throttled()
        return _WINDOW_S - (now_s - self._window_s)

    async def charge(self, values: int) -> None:
        """Add values; return later if the device has exceeded its limit."""
        wait_s = self.delay_s(values, asyncio.get_running_loop().time())
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    def throttled(self) -> None:
        """Count that the device is read more slowly; log the first time."""
        self._metrics.add("throttled", self._name)
        if not self._is_reported:
            self._is_reported = True
            _log.warning(
                "device read more slowly", device=self._name,
                why=f"it sends more than {self._max_per_s} values a second, or messages as large",
                next="compare railsight_collector_throttled with the device's configuration",
            )  # fmt: skip


async def in_slices(slices: Iterator[object], on_large: Callable[[], None] = lambda: None) -> None:
    """Process a message; between the slices of a large one, other tasks run for the rest of the time."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for _ in slices:
        on_large()
        await asyncio.sleep((loop.time() - began_s) * (1 / _LOOP_SHARE - 1))
        began_s = loop.time()

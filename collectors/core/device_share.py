"""Limits the values of one device that are processed in a second, and the event loop's time for a large piece of work.

Values are charged before they are parsed, by their number or by their bytes, whichever is more. A message that costs
several seconds' values delays the device for as long.
"""

import asyncio
from collections.abc import Callable, Iterator

import structlog

from collectors.core.metrics import CollectorMetrics

_LOOP_SHARE = 0.2
"""The most of the event loop's time that one device takes while a large piece of its work is processed."""
_REPORTED_S = 60.0
"""The status of a device has its delay for this long: longer than most intervals of statuses."""

_log = structlog.get_logger("railsight.collect")


class DeviceShare:
    """Counts the values of a device; one above its limit is read more slowly. A second's values may come at once."""

    def __init__(self, name: str, max_per_s: int, metrics: CollectorMetrics) -> None:
        self._name = name
        self._max_per_s = max_per_s
        self._metrics = metrics
        self._updated_s = self._throttled_s = float("-inf")
        self._values = 0.0
        self._is_logged = False

    def delay_s(self, values: int, now_s: float) -> float:
        """Add values at a monotonic time; return the time until the device is within its limit again, 0 if it is."""
        rest = self._values - (now_s - self._updated_s) * self._max_per_s
        self._updated_s = now_s
        self._values = rest + values if rest > 0 else values
        if self._values <= self._max_per_s:
            return 0.0
        self.throttled(now_s)
        return self._values / self._max_per_s - 1

    async def charge(self, values: int) -> None:
        """Add values; return later if the device has exceeded its limit."""
        wait_s = self.delay_s(values, asyncio.get_running_loop().time())
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    def report(self, now_s: float) -> str:
        """Return why the device is read more slowly, for its status; empty if it has not been for a minute."""
        if now_s - self._throttled_s > _REPORTED_S:
            return ""
        return f"read more slowly: it sends more than {self._max_per_s} values a second, or messages as large"

    def throttled(self, now_s: float) -> None:
        """Count that the device is read more slowly; log the first time."""
        self._throttled_s = now_s
        self._metrics.add("throttled", self._name)
        if not self._is_logged:
            self._is_logged = True
            _log.warning(
                "device above its share", device=self._name, why=self.report(now_s),
                next="compare railsight_collector_throttled with the device's configuration",
            )  # fmt: skip


def json_elements(data: bytes) -> int:
    """Return about how many members, items and containers JSON has, without parsing it; never less."""
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


async def in_slices(slices: Iterator[object], on_large: Callable[[], None] = lambda: None) -> None:
    """Process a message; between the slices of a large one, other tasks run for the rest of the time."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for _ in slices:
        on_large()
        await asyncio.sleep((loop.time() - began_s) * (1 / _LOOP_SHARE - 1))
        began_s = loop.time()

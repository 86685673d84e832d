"""Polls one target: the schedule, the deadline, and readings that are left out.

The targets of one cadence are spread over it randomly. A reading that has not finished at its deadline is cancelled,
so that a target that hangs costs one task and no thread; the readings that it missed are left out, never caught up.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from collectors.core.metrics import CollectorMetrics
from streams.wire.errors import Reject, Retry


@dataclass(frozen=True, slots=True)
class Pace:
    """The cadence and the deadline of a reading; None if the reading has its own."""

    cadence_s: float
    deadline_s: float | None = None


def _ignore_missed(_: str) -> None:
    """Discard the reason."""


async def poll(
    name: str,
    read: Callable[[], Awaitable[object]],
    pace: Pace,
    metrics: CollectorMetrics,
    rng: random.Random,
    missed: Callable[[str], None] = _ignore_missed,
) -> None:
    """Call `read` at each scheduled time until cancelled.

    `missed` receives the reason why a reading failed: its deadline passed, or `read` raised Retry or Reject. Counted by
    `name`: `overdue` for readings cancelled at the deadline, `late` for those left out while another was running.
    """
    loop = asyncio.get_running_loop()
    due_s = loop.time() + pace.cadence_s * rng.random()
    while True:
        await asyncio.sleep(max(0.0, due_s - loop.time()))
        try:
            async with asyncio.timeout(pace.deadline_s):
                await read()
        except TimeoutError:
            metrics.add("overdue", name)
            missed("no answer in time")
        except (Retry, Reject) as error:
            missed(str(error))
        periods = max(1, math.ceil((loop.time() - due_s) / pace.cadence_s))
        if periods > 1:
            metrics.add("late", name, periods - 1)
        due_s += periods * pace.cadence_s

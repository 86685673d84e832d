"""Reads one target again and again: when, for how long at most, and what becomes of a moment that was missed.

Targets of one cadence are spread over it by chance. A reading that is not through at its deadline is cut short, so
that a target that hangs costs one task and no thread; the moments that it missed are left out, never caught up.
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
    """How often; and how long a reading may take, None where it bounds itself."""

    cadence_s: float
    deadline_s: float | None = None


def _ignore_missed(_: str) -> None:
    """Nobody wants to know why."""


async def poll(
    name: str,
    read: Callable[[], Awaitable[object]],
    pace: Pace,
    counts: CollectorMetrics,
    chance: random.Random,
    missed: Callable[[str], None] = _ignore_missed,
) -> None:
    """Call `read` at each moment until cancelled.

    `missed` is told why there is no reading: it was not through in time, or `read` raised Retry or Reject. Counted by
    `name`: `overdue` readings that were cut short, `late` moments that went by while another was read.
    """
    loop = asyncio.get_running_loop()
    due_s = loop.time() + pace.cadence_s * chance.random()
    while True:
        await asyncio.sleep(max(0.0, due_s - loop.time()))
        try:
            async with asyncio.timeout(pace.deadline_s):
                await read()
        except TimeoutError:
            counts.add("overdue", name)
            missed("no answer in time")
        except (Retry, Reject) as error:
            missed(str(error))
        moments = max(1, math.ceil((loop.time() - due_s) / pace.cadence_s))
        if moments > 1:
            counts.add("late", name, moments - 1)
        due_s += moments * pace.cadence_s

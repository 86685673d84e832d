"""Schedules the readings and the statuses of a target. Times are by a monotonic clock."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from collectors.core.metrics import CollectorMetrics
from streams.wire.errors import Reject, Retry


@dataclass(frozen=True, slots=True)
class Pace:
    """The cadence and the deadline of a reading; the deadline is None if the reading has its own."""

    cadence_s: float
    deadline_s: float | None = None


async def poll(
    name: str,
    read: Callable[[], Awaitable[object]],
    pace: Pace,
    metrics: CollectorMetrics,
    rng: random.Random,
    missed: Callable[[str], None] = lambda _: None,
) -> None:
    """Call `read` at each scheduled time until cancelled.

    The targets of one cadence are spread over it randomly. A reading that has not finished at its deadline is
    cancelled, so that a target that hangs costs one task and no thread; the readings that it missed are skipped.

    `missed` receives the reason why a reading failed: its deadline passed, or `read` raised Retry or Reject. Counted by
    `name`: `overdue` for readings cancelled at the deadline, `late` for those skipped while another ran.
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


EVERY_S = 60.0
"""The longest interval; a target is covered while its newest status is at most two to three intervals old."""

_MISSING_CADENCES = 1.5
"""A late sample is not missing. `measure` reports a silent source after three cadences or more: a running collector has
sent a status within the last one by then; a dead one's status is more than half of that old."""
_REPEAT_CADENCES = 0.5
"""Less than one cadence, because the caller checks about once per cadence, and some checks are slightly early."""


class StatusSchedule:
    """Schedules the statuses of one target: at each change, while samples are missing, and rarely while samples arrive.

    Call `is_due` once per cadence and at each change. A due status counts as sent.
    """

    def __init__(self, device: str, cadence_s: float, every_s: float = EVERY_S) -> None:
        self._cadence_s = cadence_s
        self._every_s = every_s
        self._phase = crc32(device.encode()) / 2**32
        """Spreads the statuses of targets that became reachable at the same time."""
        self._sent: tuple[bool, str] | None = None
        self._sent_s = self._next_s = self._sampled_s = float("-inf")

    def sampled(self, now_s: float) -> None:
        """Record that a sample of the target was sent, which implies that it is reachable."""
        self._sampled_s = now_s

    def is_due(self, now_s: float, *, reachable: bool, error: str = "") -> bool:
        """Return True if a status must be sent now."""
        status = reachable, error
        is_first = self._sent is None
        changed = status != self._sent
        is_missing = not reachable or now_s - self._sampled_s > _MISSING_CADENCES * self._cadence_s
        is_repeated = is_missing and now_s - self._sent_s >= _REPEAT_CADENCES * self._cadence_s
        if not (changed or is_repeated or now_s >= self._next_s):
            return False
        if is_first:
            self._next_s = now_s + self._every_s * self._phase
        elif now_s >= self._next_s:
            self._next_s += self._every_s * (1 + (now_s - self._next_s) // self._every_s)
        self._sent, self._sent_s = status, now_s
        return True


def log_reachability(log: Any, device: str, was_reachable: bool, *, reachable: bool, error: str) -> None:
    """Log a change of a target's reachability, or a new error of an unreachable target, also if it was never reachable.

    The caller calls this only at a change, so that a target that stays unreachable for one reason is one line.
    """
    if reachable:
        log.info("reached", device=device)
    else:
        log.warning("lost" if was_reachable else "not reached, retrying", device=device, why=error)

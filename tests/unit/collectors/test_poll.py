"""The poll loop: schedule, deadline, and readings that are left out."""

import asyncio
import random

import pytest

from collectors.core.metrics import CollectorMetrics
from collectors.core.poll import Pace, poll
from streams.wire.errors import Retry
from tests.fakes import loop

FIRST_S = random.Random(1).random()
"""The offset of a target within its first cadence, from the random numbers of this test."""


class Target:
    """A target with given durations of its readings; the last one repeats."""

    def __init__(self, *takes_s: float, fails: bool = False) -> None:
        self.takes_s = list(takes_s)
        self.fails = fails
        self.began_s: list[float] = []
        self.why: list[str] = []
        self.metrics = CollectorMetrics()

    async def read(self) -> None:
        self.began_s.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.takes_s.pop(0) if len(self.takes_s) > 1 else self.takes_s[0])
        if self.fails:
            raise Retry("refused")

    def polled(self, pace: Pace, for_s: float) -> list[float]:
        """Return the start times of its readings, in cadences after the first."""

        async def work() -> None:
            polling = poll("leaf1", self.read, pace, self.metrics, random.Random(1), self.why.append)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(polling, for_s)

        loop.run(work())
        return [round((at_s - self.began_s[0]) / pace.cadence_s, 6) for at_s in self.began_s]


def test_a_target_is_read_at_each_cadence_from_a_random_offset() -> None:
    """The first reading is within one cadence, randomly; the others one cadence apart, however long a reading takes."""
    target = Target(2.0, 9.0, 0.5)
    assert target.polled(Pace(10.0), 10 * (FIRST_S + 3.5)) == [0, 1, 2, 3]
    assert target.began_s[0] == pytest.approx(10 * FIRST_S)
    assert (target.metrics.value("late"), target.metrics.value("overdue"), target.why) == (0, 0, [])


def test_a_target_that_hangs_is_cancelled_and_read_again() -> None:
    """Its deadline passes, which is counted and reported; it is read again at the next scheduled time."""
    target = Target(600.0, 0.0)
    assert target.polled(Pace(10.0, deadline_s=5.0), 10 * (FIRST_S + 2.5)) == [0, 1, 2]
    assert target.why == ["no answer in time"]
    assert target.metrics.by_label("overdue") == {"leaf1": 1}


def test_missed_readings_are_counted_and_never_caught_up() -> None:
    """A reading of three and a half cadences misses three; the schedule then continues as before."""
    target = Target(35.0, 0.0)
    assert target.polled(Pace(10.0), 10 * (FIRST_S + 5.5)) == [0, 4, 5]
    assert target.metrics.by_label("late") == {"leaf1": 3}


def test_a_target_that_refuses_is_read_again() -> None:
    """Its reason is reported, and the loop continues."""
    target = Target(0.0, fails=True)
    assert target.polled(Pace(10.0), 10 * (FIRST_S + 2.5)) == [0, 1, 2]
    assert target.why == ["refused"] * 3

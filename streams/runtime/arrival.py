"""Dates messages of telemetry by the time at which the brokers appended their records (LogAppendTime).

A time in a message is what its sender writes; a sender whose clock is wrong must not set the clock of others.
"""

from collections.abc import Callable
from dataclasses import replace

from streams.wire.models import IDLE_NS, CollectorStatus, Event, Facts, Message, ProbeReport, Progress, Samples

_MS = 1_000_000
TOLERANCE_NS = 1_000_000_000
"""Clocks of brokers and workers differ by less where both have NTP."""
FUTURE_NS = 60 * TOLERANCE_NS
"""Event time that is further ahead of the clock is an error; less passes by itself within that time."""


class ArrivalClock:
    """The time of arrival in one input, which never goes back.

    The clock of a partition's leader may step, or another leader's may differ. A step back is added to what follows,
    and a step ahead is refused if it is later than the time of this process, which is only read at a step, so that the
    same records have the same times wherever they are read.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._newest_ns = 0
        self._behind_ns = 0
        self.refused = 0
        """Records that were appended later than the time of this process."""

    def arrived_ns(self, timestamp_ms: int) -> int:
        """Return the time of arrival of the next record."""
        at_ns, newest_ns = timestamp_ms * _MS, self._newest_ns
        if self._behind_ns or not newest_ns - TOLERANCE_NS <= at_ns <= newest_ns + FUTURE_NS:
            at_ns = self._after_step(at_ns, newest_ns)
        if at_ns > newest_ns:
            self._newest_ns = at_ns
        return self._newest_ns

    def _after_step(self, appended_ns: int, newest_ns: int) -> int:
        """Return the time of a record after a step of its leader's clock."""
        now_ns, step_ns = self._now_ns(), newest_ns - appended_ns
        behind_ns, self._behind_ns = max(self._behind_ns, step_ns) if step_ns > TOLERANCE_NS else 0, 0
        self.refused += appended_ns > now_ns + TOLERANCE_NS
        if appended_ns + behind_ns > now_ns + TOLERANCE_NS:
            return min(appended_ns, now_ns)
        self._behind_ns = behind_ns
        return appended_ns + behind_ns


def within_arrival(progress: Progress, arrived_ns: int) -> Progress:
    """Return a Progress that is not ahead of its arrival: nothing was observed later."""
    if not arrived_ns + FUTURE_NS < progress.watermark_ns < IDLE_NS:
        return progress
    return replace(progress, watermark_ns=arrived_ns)


def dated_by_arrival(message: Message, arrived_ns: int) -> Message:
    """Return a message of telemetry with its time of arrival in place of what its sender wrote."""
    if isinstance(message, Samples | ProbeReport):
        message.received_at_ns = arrived_ns
        return message
    match message:
        case Event():
            return replace(message, received_at_ns=arrived_ns)
        case CollectorStatus(at_ns=at):
            return replace(message, at_ns=arrived_ns, sent_at_ns=at)
        case Facts(observed_at_ns=at) if at > arrived_ns:
            return replace(message, observed_at_ns=arrived_ns)
        case Progress(watermark_ns=at) if arrived_ns < at != IDLE_NS:
            return replace(message, watermark_ns=arrived_ns)
        case _:
            return message

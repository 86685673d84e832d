"""Computes the times of messages: arrival time, event time, and the watermark of the previous stage.

Telemetry gets the time at which the brokers appended its records (LogAppendTime), so that a sender's wrong clock does
not affect other senders. This module has no I/O; partition_processor.py reads messages and calls the stage.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from streams.wire import models as m

_MS = 1_000_000
TOLERANCE_NS = 1_000_000_000
"""The clocks of brokers and workers differ by less than this with NTP."""
FUTURE_NS = 60 * TOLERANCE_NS
"""An event time further ahead of the clock is an error; a smaller lead ends by itself within this time."""


class ArrivalClock:
    """Computes the arrival times of one input, which never decrease.

    The clock of a partition's leader may step, or a new leader's clock may differ. After a step back, the step is added
    to later times. A step ahead is refused if it is later than this process's time. The process's time is read only at
    a step, so that equal records have equal times in every process.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._newest_ns = 0
        self._behind_ns = 0
        self.refused = 0
        """Records with a time of append after the time of this process."""

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


def within_arrival(progress: m.Progress, arrived_ns: int) -> m.Progress:
    """Limit the watermark of a Progress to its arrival, because nothing was observed later."""
    if not arrived_ns + FUTURE_NS < progress.watermark_ns < m.IDLE_NS:
        return progress
    return replace(progress, watermark_ns=arrived_ns)


def dated_by_arrival(message: m.Message, arrived_ns: int) -> m.Message:
    """Return a message of telemetry with its time of arrival in place of the sender's time."""
    if isinstance(message, m.Samples | m.ProbeReport):
        message.received_at_ns = arrived_ns
        return message
    match message:
        case m.Event():
            return replace(message, received_at_ns=arrived_ns)
        case m.CollectorStatus(at_ns=at):
            return replace(message, at_ns=arrived_ns, sent_at_ns=at)
        case m.Facts(observed_at_ns=at) if at > arrived_ns:
            return replace(message, observed_at_ns=arrived_ns)
        case m.Progress(watermark_ns=at) if arrived_ns < at != m.IDLE_NS:
            return replace(message, watermark_ns=arrived_ns)
        case _:
            return message


_TIMES: Mapping[type, Callable[[Any], int | None]] = {
    **dict.fromkeys((m.CollectorStatus, m.Symptom, m.CablingReport, m.VersionCensus), attrgetter("at_ns")),
    **dict.fromkeys((m.StateTransfer, m.ProbeWindow, m.Control, m.RemediationResult), attrgetter("at_ns")),
    **dict.fromkeys((m.Window, m.PeerWindow, m.RailProbes, m.RailDelays, m.HostRates), attrgetter("end_ns")),
    **dict.fromkeys((m.Facts, m.Finding), attrgetter("observed_at_ns")),
    m.Episode: attrgetter("finding.observed_at_ns"),
    m.SymptomsReplaced: attrgetter("since_ns"),
    m.PortStates: attrgetter("changed_ns"),
    m.PortModules: attrgetter("observed_ns"),
    m.ReadingsHeartbeat: attrgetter("watermark_ns"),
}


def event_time_ns(message: m.Message) -> int | None:
    """Return the event time of a message, which selects the version of the inventory; None without one."""
    match message:
        case m.Samples(sampled_at_ns=at, received_at_ns=received) | m.Event(at_ns=at, received_at_ns=received):
            # A device's clock may be ahead, but a message cannot be newer than its reception (DESIGN 2.1).
            return min(at, received) if received else at
        case m.ProbeReport(end_ns=at, received_at_ns=received):
            return min(at, received) if received else at
        case m.PortQuality(readings=readings):
            return max((one.end_ns for one in readings), default=None)
        case m.Progress(watermark_ns=at):
            return None if at == m.IDLE_NS else at
        case _:
            return time_of(message) if (time_of := _TIMES.get(type(message))) else None


@dataclass(frozen=True, slots=True)
class _Watermark:
    epoch: int
    watermark_ns: int


class UpstreamWatermarks:
    """Computes the watermark of a stage: the lowest of all upstream partitions, each by its newest owner's Progress.

    Its state is the newest Progress of every upstream partition in every topic.
    """

    def __init__(self, stage: str, partitions: int, topics: tuple[str, ...], barrier: str = "") -> None:
        self.stage = stage
        self._expected = {(topic, partition) for topic in topics for partition in range(partitions)}
        self._newest: dict[tuple[str, int], _Watermark] = {}
        self._barrier = barrier
        self._waiting: list[tuple[str, m.Progress]] = []
        self.ignored = 0
        """Ignored Progress of replaced owners since the start."""

    def update(self, topic: str, progress: m.Progress, barrier_offset: int = 0) -> None:
        """Apply a Progress from `topic`; ignore Progress of another stage or a replaced owner.

        With a barrier, a Progress is valid only after the barrier topic was read up to the covered offset; before,
        it waits for `reached`. `barrier_offset` is the offset up to which the barrier topic was read.
        """
        if progress.stage != self.stage or (topic, progress.partition) not in self._expected:
            return
        if self._barrier and barrier_offset < progress.after_offset:
            self._waiting.append((topic, progress))
            return
        key = topic, progress.partition
        known = self._newest.get(key)
        # The newest watermark counts, not the highest: a partition that was idle resumes with a real time.
        if known is None or progress.epoch >= known.epoch:
            self._newest[key] = _Watermark(progress.epoch, progress.watermark_ns)
        else:
            self.ignored += 1

    def reached(self, barrier_offset: int) -> None:
        """Apply waiting Progress after the barrier topic was read up to `barrier_offset`."""
        waiting, self._waiting = self._waiting, []
        for topic, progress in waiting:
            self.update(topic, progress, barrier_offset)

    @property
    def watermark_ns(self) -> int | None:
        """The lowest watermark of all partitions; None while one is unknown or all are idle."""
        if len(self._newest) < len(self._expected):
            return None
        least = min(newest.watermark_ns for newest in self._newest.values())
        return None if least == m.IDLE_NS else least

    def snapshot(self) -> dict[str, int]:
        """Return the state: "topic/stage/partition/epoch" -> watermark; Progress that waits is read again."""
        return {
            f"{topic}/{self.stage}/{partition}/{newest.epoch}": newest.watermark_ns
            for (topic, partition), newest in self._newest.items()
        }

    def restore(self, stored: dict[str, int], limit_ns: int = m.IDLE_NS) -> None:
        """Restore the state with times limited to `limit_ns`; ignore unexpected partitions."""
        for name, watermark_ns in stored.items():
            topic, stage, partition, epoch = name.rsplit("/", 3)
            if stage == self.stage and (topic, int(partition)) in self._expected:
                bounded_ns = watermark_ns if watermark_ns == m.IDLE_NS else min(watermark_ns, limit_ns)
                self._newest[topic, int(partition)] = _Watermark(int(epoch), bounded_ns)

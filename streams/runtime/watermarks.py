"""The watermark of a stage: the least of all upstream partitions, each as its newest owner reports it.

Pure; who reads Progress and calls the stage is partition_processor.py.
"""

from dataclasses import dataclass

from streams.wire.models import IDLE_NS, Progress


@dataclass(frozen=True, slots=True)
class _Watermark:
    epoch: int
    watermark_ns: int


class UpstreamWatermarks:
    """The newest Progress of every upstream partition, in every topic in which it comes."""

    def __init__(self, stage: str, partitions: int, topics: tuple[str, ...], barrier: str = "") -> None:
        self.stage = stage
        self._expected = {(topic, partition) for topic in topics for partition in range(partitions)}
        self._newest: dict[tuple[str, int], _Watermark] = {}
        self._barrier = barrier
        self._waiting: list[tuple[str, Progress]] = []
        self.ignored = 0
        """Progress of replaced owners, since the start."""

    def update(self, topic: str, progress: Progress, barrier_offset: int = 0) -> None:
        """Take a Progress that came in `topic`; one of another stage, or of a replaced owner, changes nothing.

        Where there is a barrier, it holds only once `barrier_offset`, to which the barrier topic has been read,
        reaches what it covers; until then it waits for `reached`.
        """
        if progress.stage != self.stage or (topic, progress.partition) not in self._expected:
            return
        if self._barrier and barrier_offset < progress.after_offset:
            self._waiting.append((topic, progress))
            return
        key = topic, progress.partition
        known = self._newest.get(key)
        # Newest, not highest: a partition that was idle comes back with a real time.
        if known is None or progress.epoch >= known.epoch:
            self._newest[key] = _Watermark(progress.epoch, progress.watermark_ns)
        else:
            self.ignored += 1

    def reached(self, barrier_offset: int) -> None:
        """Apply what waited for the barrier topic to be read up to here."""
        waiting, self._waiting = self._waiting, []
        for topic, progress in waiting:
            self.update(topic, progress, barrier_offset)

    @property
    def watermark_ns(self) -> int | None:
        """The least over all partitions; None while one is unknown, or while all are idle."""
        if len(self._newest) < len(self._expected):
            return None
        least = min(newest.watermark_ns for newest in self._newest.values())
        return None if least == IDLE_NS else least

    def snapshot(self) -> dict[str, int]:
        """Return the state: "topic/stage/partition/epoch" and the watermark. What waits at the barrier comes again."""
        return {
            f"{topic}/{self.stage}/{partition}/{newest.epoch}": newest.watermark_ns
            for (topic, partition), newest in self._newest.items()
        }

    def restore(self, stored: dict[str, int], limit_ns: int = IDLE_NS) -> None:
        """Take over what was stored, but no time after `limit_ns`; partitions that are not expected are left out."""
        for name, watermark_ns in stored.items():
            topic, stage, partition, epoch = name.rsplit("/", 3)
            if stage == self.stage and (topic, int(partition)) in self._expected:
                bounded_ns = watermark_ns if watermark_ns == IDLE_NS else min(watermark_ns, limit_ns)
                self._newest[topic, int(partition)] = _Watermark(int(epoch), bounded_ns)

"""The versions of the inventory by effective time, with the jobs as they are known now, and the one of a stage.

Pure; who reads the topics is inventory_reader.py. A version is never taken back, so that all stages agree on it; but
of those that are past only the data are retained, since one of the largest fabric is 250 MB once it is put together.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from weakref import ReferenceType, ref

from streams.fabric.inventory import Inventory
from streams.fabric.inventory import Job as JobRow
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import IDLE_NS, Job
from streams.wire.stage import Output, Stage

log = logging.getLogger(__name__)


def _at(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns / 1e9, UTC)


@dataclass(slots=True, eq=False)
class Version:
    """One version; `make` puts it together, which takes seconds for a large one."""

    effective_ns: int
    digest: str
    make: Callable[[], Topology]
    _loaded: Topology | None = None
    _used: "ReferenceType[Topology] | None" = field(default=None)

    @property
    def topology(self) -> Topology:
        """The one that is loaded, or that a stage still uses; else it is made again."""
        found = self._loaded or (None if self._used is None else self._used())
        if found is None:
            found = self.make()
            self._used = ref(found)
        return found

    def acquire(self) -> None:
        """Have it at hand from now on; raises what `make` raises.

        With its arrays: the first finding would make them, and of the largest fabric wait 0.3 s for them, with all
        others behind it.
        """
        self._loaded = self.topology
        _ = self._loaded.graph

    def release(self) -> None:
        """Drop it: a stage that works with it still has it; afterwards it is made again on demand."""
        self._loaded = None


class Versions:
    """Every version that was published, by its effective time."""

    def __init__(self) -> None:
        self._sorted: list[Version] = []
        self._jobs: dict[str, JobRow] = {}
        self.changes = 0
        """Grows with every version, `job_changes` with every job: an owner sees at a glance if there is news."""
        self.job_changes = 0
        self._joined: dict[str, Topology] = {}
        self._joined_at = (0, 0)

    def add(self, effective_ns: int, topology: Topology) -> None:
        """Add a version that is put together already."""
        self.put(Version(effective_ns, topology.digest, lambda: topology))

    def put(self, version: Version) -> None:
        """Add a version; of two with one effective time, the one that came later holds."""
        others = [known for known in self._sorted if known.digest != version.digest]
        others.insert(bisect_right([known.effective_ns for known in others], version.effective_ns), version)
        self._sorted = others
        self.changes += 1

    def needed(self, fresh: Iterable[Version], now_ns: int) -> list[Version]:
        """Of those that are known and these, the one in effect now and all that take effect later."""
        ordered = sorted((*self._sorted, *fresh), key=lambda version: version.effective_ns)
        return ordered[max(0, bisect_right([version.effective_ns for version in ordered], now_ns) - 1) :]

    def release_except(self, needed: Iterable[Version]) -> None:
        """Hold no others than these."""
        wanted = {id(version) for version in needed}
        for version in self._sorted:
            if id(version) not in wanted:
                version.release()

    def set_job(self, key: str, job: Job | None) -> None:
        """Set or remove a job's stay on a device; a message with the same stay is no change to any stage."""
        before = self._jobs.pop(key, None)
        row = None
        if job is not None:
            end = None if job.end_ns is None else _at(job.end_ns)
            row = self._jobs[key] = JobRow(job=job.job, device=job.device, start=_at(job.start_ns), end=end)
        if row != before:
            self.job_changes += 1

    @property
    def changes_now(self) -> tuple[int, int]:
        """Both counts."""
        return self.changes, self.job_changes

    def __bool__(self) -> bool:
        return bool(self._sorted)

    def holds(self, digest: str, effective_ns: int) -> bool:
        """Return whether this version is known, with this effective time."""
        return any(known.effective_ns == effective_ns and known.digest == digest for known in self._sorted)

    def named(self, digest: str) -> tuple[int, Topology] | None:
        """Return the version with this digest."""
        found = next((known for known in self._sorted if known.digest == digest), None)
        return None if found is None else self._made(found)

    def at(self, time_ns: int | None) -> tuple[int, Topology] | None:
        """Return the newest version in effect at a time, else the earliest there is; None where there is none."""
        while self._sorted:
            times = [known.effective_ns for known in self._sorted]
            index = len(times) if time_ns is None else bisect_right(times, time_ns)
            if (made := self._made(self._sorted[max(0, index - 1)])) is not None:
                return made
        return None

    def after(self, effective_ns: int) -> int | None:
        """Return the time at which the next version after that one takes effect."""
        return next((known.effective_ns for known in self._sorted if known.effective_ns > effective_ns), None)

    def _made(self, version: Version) -> tuple[int, Topology] | None:
        """Return the version put together; one that turns out to be unreadable is as if it had never been."""
        try:
            return version.effective_ns, self._with_jobs(version)
        except Reject as error:
            log.warning("%s", error)
            self._sorted = [known for known in self._sorted if known is not version]
            return None

    def _with_jobs(self, version: Version) -> Topology:
        """Return the same fabric with the published jobs beside its own; made once until there is news."""
        if not self._jobs:
            return version.topology
        if self._joined_at != self.changes_now:
            self._joined, self._joined_at = {}, self.changes_now
        if version.digest not in self._joined:
            topology = version.topology
            published = {(job.job, job.device) for job in self._jobs.values()}
            own = (job for job in topology.jobs if (job.job, job.device) not in published)
            self._joined[version.digest] = topology.with_jobs((*own, *self._jobs.values()))
        return self._joined[version.digest]


_NEVER = -1


class InventorySchedule:
    """The version that one stage works with, and the time at which it adopts the next.

    A version takes effect when the stage's watermark passes its effective time, so that routing and ids change
    everywhere at the same moment of event time (DESIGN 2.3).
    """

    def __init__(self, stage: Stage, versions: Versions) -> None:
        self._stage = stage
        self._versions = versions
        self._effective_ns = _NEVER
        self._begun = False
        self._first_ns: int | None = None
        self._jobs_seen = 0
        self._changes_seen = -1
        self.digest = ""

    def restore(self, digest: str) -> list[Output]:
        """Adopt the version that a snapshot was taken under, where it is still known."""
        found = self._versions.named(digest) if digest else None
        return [] if found is None else self._adopt(found)

    def begin(self, time_ns: int | None) -> list[Output]:
        """Adopt before the first message, whose event time this is: what was in effect then, else the earliest."""
        if self._begun:
            return []
        self._first_ns = time_ns
        found = self._versions.at(time_ns)
        if found is not None:
            return self._adopt(found)
        # Without an inventory a device's name serves as its pod; stages still have to learn that there is none.
        self._begun = True
        return self._stage.set_topology(Topology(Inventory()))

    def next_ns(self) -> int | None:
        """Return the time at which the next version takes effect; None where none is known."""
        return self._versions.after(self._effective_ns) if self._effective_ns != _NEVER else None

    def due(self) -> list[Output]:
        """Adopt what the stage's watermark has passed."""
        outputs: list[Output] = []
        watermark_ns = self._stage.watermark_ns
        if watermark_ns in (0, IDLE_NS):
            return outputs
        while (at := self.next_ns()) is not None and at <= watermark_ns:
            outputs += self._adopt_at(at)
        return outputs

    def refresh(self) -> list[Output]:
        """Something may have been published since: the first version of all, a version that is due, a job."""
        if not self._begun or (self._changes_seen, self._jobs_seen) == self._versions.changes_now:
            return []
        self._changes_seen = self._versions.changes
        if self._effective_ns == _NEVER:
            watermark_ns = self._stage.watermark_ns
            return self._adopt_at(self._first_ns if watermark_ns in (0, IDLE_NS) else watermark_ns)
        outputs = self.due()
        if self._jobs_seen != self._versions.job_changes:
            outputs += self._adopt_at(self._effective_ns)
        self._jobs_seen = self._versions.job_changes
        return outputs

    def _adopt_at(self, time_ns: int | None) -> list[Output]:
        found = self._versions.at(time_ns)
        return [] if found is None else self._adopt(found)

    def _adopt(self, found: tuple[int, Topology]) -> list[Output]:
        self._effective_ns, topology = found
        self._begun = True
        self._jobs_seen = self._versions.job_changes
        self.digest = topology.digest
        return self._stage.set_topology(topology)

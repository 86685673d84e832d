"""The version of the inventory that is in effect at a time, with the jobs as they are known now.

Pure; who reads the topics is inventory_reader.py. A version is never taken back, so that all stages agree on it; but
of those that are past only the data are kept, since one of the largest fabric is 250 MB once it is put together.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from weakref import ReferenceType, ref

from streams.fabric.inventory import Job as JobRow
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import Job

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

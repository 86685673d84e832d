"""Which version of the inventory is in effect at a time, with the jobs as they are known now.

Pure; who reads the topics is inventory_reader.py. A version is never taken back, so that all stages agree on it.
"""

from bisect import bisect_right
from datetime import UTC, datetime

from streams.fabric.inventory import Job as JobRow
from streams.fabric.topology import Topology
from streams.wire.models import Job


def _at(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns / 1e9, UTC)


class Versions:
    """Every version that was published, by its effective time."""

    def __init__(self) -> None:
        self._sorted: list[tuple[int, Topology]] = []
        self._jobs: dict[str, JobRow] = {}
        self.changes = 0
        """Grows with every version, `job_changes` with every job: an owner sees at a glance if there is news."""
        self.job_changes = 0
        self._joined: dict[str, Topology] = {}
        self._joined_at = (0, 0)

    def add(self, effective_ns: int, topology: Topology) -> None:
        """A version; of two with one effective time, the one that came later holds."""
        kept = [(at, known) for at, known in self._sorted if known.digest != topology.digest]
        kept.insert(bisect_right([at for at, _ in kept], effective_ns), (effective_ns, topology))
        self._sorted = kept
        self.changes += 1

    def set_job(self, key: str, job: Job | None) -> None:
        """A job's stay on a device, or that it is to be forgotten."""
        if job is None:
            self._jobs.pop(key, None)
        else:
            end = None if job.end_ns is None else _at(job.end_ns)
            self._jobs[key] = JobRow(job=job.job, device=job.device, start=_at(job.start_ns), end=end)
        self.job_changes += 1

    @property
    def changes_now(self) -> tuple[int, int]:
        """Both counts."""
        return self.changes, self.job_changes

    def __bool__(self) -> bool:
        return bool(self._sorted)

    def holds(self, digest: str, effective_ns: int) -> bool:
        """Whether this version is known, with this effective time."""
        return any(at == effective_ns and known.digest == digest for at, known in self._sorted)

    def named(self, digest: str) -> tuple[int, Topology] | None:
        """The version with this digest."""
        found = next(((at, known) for at, known in self._sorted if known.digest == digest), None)
        return None if found is None else (found[0], self._with_jobs(found[1]))

    def at(self, time_ns: int | None) -> tuple[int, Topology] | None:
        """The newest version in effect at a time, else the earliest there is; None where there is none."""
        if not self._sorted:
            return None
        index = len(self._sorted) if time_ns is None else bisect_right([at for at, _ in self._sorted], time_ns)
        at, topology = self._sorted[max(0, index - 1)]
        return at, self._with_jobs(topology)

    def after(self, effective_ns: int) -> int | None:
        """When the next version after that one takes effect."""
        return next((at for at, _ in self._sorted if at > effective_ns), None)

    def _with_jobs(self, topology: Topology) -> Topology:
        """The same fabric with the published jobs beside its own; made once for all who ask until there is news."""
        if not self._jobs:
            return topology
        if self._joined_at != self.changes_now:
            self._joined, self._joined_at = {}, self.changes_now
        if topology.digest not in self._joined:
            jobs = {(job.job, job.device): job for job in (*topology.jobs, *self._jobs.values())}
            self._joined[topology.digest] = topology.with_jobs(tuple(jobs.values()))
        return self._joined[topology.digest]

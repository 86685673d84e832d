"""Retains the versions of the inventory by effective time, with the present jobs, and the version of each stage.

This module has no I/O; inventory_reader.py reads the topics. A version is never withdrawn, so that all stages agree on
it. Past versions retain only their data, because a built version of the largest fabric has 250 MB.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from weakref import ReferenceType, ref

from streams.fabric.inventory import Inventory
from streams.fabric.inventory import Job as JobRow
from streams.fabric.name_resolution import named_jobs
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import IDLE_NS, Job
from streams.wire.stage import Output, Stage

log = logging.getLogger(__name__)


def _at(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns / 1e9, UTC)


@dataclass(slots=True, eq=False)
class Version:
    """One version; `make` builds its topology, which takes seconds for a large fabric."""

    effective_ns: int
    digest: str
    make: Callable[[], Topology]
    _loaded: Topology | None = None
    _used: "ReferenceType[Topology] | None" = field(default=None)

    @property
    def topology(self) -> Topology:
        """The topology that is loaded or that a stage still uses; otherwise it is built again."""
        found = self._loaded or (None if self._used is None else self._used())
        if found is None:
            found = self.make()
            self._used = ref(found)
        return found

    def acquire(self) -> None:
        """Build and retain the topology; raises like `make`.

        Also builds its arrays, because otherwise the first finding would wait 0.3 s for them in the largest fabric and
        delay all others.
        """
        self._loaded = self.topology
        _ = self._loaded.graph

    def release(self) -> None:
        """Release the topology; a stage that uses it still has it, and later uses build it again."""
        self._loaded = None


class Versions:
    """All published versions, by their effective time."""

    def __init__(self) -> None:
        self._sorted: list[Version] = []
        self._jobs: dict[str, JobRow] = {}
        self.changes = 0
        """Counts new versions, as `job_changes` counts jobs, so that an owner detects changes cheaply."""
        self.job_changes = 0
        self._unknown_hosts: dict[str, set[str]] = {}
        """The unknown hosts of jobs at the last join, by the digest of the version."""
        self.positions: dict[str, int] = {}
        """The next offset of the topics of the inventory and the jobs, after their earlier records took effect."""
        self._joined: dict[str, Topology] = {}
        self._joined_at = (0, 0)

    def add(self, effective_ns: int, topology: Topology) -> None:
        """Add a version with its built topology."""
        self.put(Version(effective_ns, topology.digest, lambda: topology))

    def put(self, version: Version) -> None:
        """Add a version; it replaces an earlier one with the same effective time."""
        others = [known for known in self._sorted if known.digest != version.digest]
        others.insert(bisect_right([known.effective_ns for known in others], version.effective_ns), version)
        self._sorted = others
        self._unknown_hosts = {known.digest: self._unknown_hosts.get(known.digest, set()) for known in others}
        self.changes += 1

    def needed(self, fresh: Iterable[Version], now_ns: int) -> list[Version]:
        """Return the present version and all future ones, out of the known versions and `fresh`."""
        ordered = sorted((*self._sorted, *fresh), key=lambda version: version.effective_ns)
        return ordered[max(0, bisect_right([version.effective_ns for version in ordered], now_ns) - 1) :]

    def release_except(self, needed: Iterable[Version]) -> None:
        """Release the topologies of all other versions."""
        wanted = {id(version) for version in needed}
        for version in self._sorted:
            if id(version) not in wanted:
                version.release()

    def set_job(self, key: str, job: Job | None) -> None:
        """Set or remove a job's allocation of a device; a repeated message is no change."""
        before = self._jobs.pop(key, None)
        row = None
        if job is not None:
            end = None if job.end_ns is None else _at(job.end_ns)
            row = self._jobs[key] = JobRow(job=job.job, device=job.device, start=_at(job.start_ns), end=end)
        if row != before:
            self.job_changes += 1

    @property
    def changes_now(self) -> tuple[int, int]:
        """The counts of versions and jobs."""
        return self.changes, self.job_changes

    def __bool__(self) -> bool:
        return bool(self._sorted)

    def holds(self, digest: str, effective_ns: int) -> bool:
        """Return whether the version with this digest and effective time is known."""
        return any(known.effective_ns == effective_ns and known.digest == digest for known in self._sorted)

    def named(self, digest: str) -> tuple[int, Topology] | None:
        """Return the version with this digest, or None."""
        found = next((known for known in self._sorted if known.digest == digest), None)
        return None if found is None else self._made(found)

    def at(self, time_ns: int | None) -> tuple[int, Topology] | None:
        """Return the version in effect at a time, else the earliest; None without any version."""
        while self._sorted:
            times = [known.effective_ns for known in self._sorted]
            index = len(times) if time_ns is None else bisect_right(times, time_ns)
            if (made := self._made(self._sorted[max(0, index - 1)])) is not None:
                return made
        return None

    def after(self, effective_ns: int) -> int | None:
        """Return the effective time of the next version after `effective_ns`, or None."""
        return next((known.effective_ns for known in self._sorted if known.effective_ns > effective_ns), None)

    def _made(self, version: Version) -> tuple[int, Topology] | None:
        """Return the built version; remove an unreadable version and return None."""
        try:
            return version.effective_ns, self._with_jobs(version)
        except Reject as error:
            log.warning("%s", error)
            self._sorted = [known for known in self._sorted if known is not version]
            return None

    def _with_jobs(self, version: Version) -> Topology:
        """Return the topology with the published jobs added to its own; cached until a change."""
        if not self._jobs:
            return version.topology
        if self._joined_at != self.changes_now:
            self._joined, self._joined_at = {}, self.changes_now
        if version.digest not in self._joined:
            topology = version.topology
            jobs = named_jobs(topology, self._jobs.values())
            published = {(job.job, job.device) for job in jobs}
            own = (job for job in topology.jobs if (job.job, job.device) not in published)
            self._joined[version.digest] = topology.with_jobs((*own, *jobs))
            self._warn(version.digest, topology, jobs)
        return self._joined[version.digest]

    def _warn(self, digest: str, topology: Topology, jobs: Iterable[JobRow]) -> None:
        """Log the hosts of running jobs that a version lacks, when there are others than before."""
        unknown = {job.device for job in jobs if job.end is None and job.device not in topology.devices}
        if unknown - self._unknown_hosts.get(digest, set()):
            log.warning("jobs run on %s", unknown_hosts_text(unknown))
        self._unknown_hosts[digest] = unknown


_NAMES = 5


def unknown_hosts_text(hosts: Collection[str]) -> str:
    """Return the description of hosts of running jobs that the inventory lacks."""
    names = ", ".join(sorted(hosts)[:_NAMES]) + (", …" if len(hosts) > _NAMES else "")
    return (
        f"{len(hosts)} hosts that the inventory lacks ({names}): add them, or name them in `nodes` or `exclude` of"
        " [collect.jobs]; until then actions on any host need an approval"
    )


_NEVER = -1


class InventorySchedule:
    """Selects the version that one stage uses, and adopts the next one in time.

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
        """Adopt the version of a snapshot, if it is still known."""
        found = self._versions.named(digest) if digest else None
        return [] if found is None else self._adopt(found)

    def begin(self, time_ns: int | None) -> list[Output]:
        """Adopt the version in effect at the first message's event time, else the earliest, before processing it."""
        if self._begun:
            return []
        self._first_ns = time_ns
        found = self._versions.at(time_ns)
        if found is not None:
            return self._adopt(found)
        # Without an inventory a device's name serves as its pod; stages must still be notified that there is none.
        self._begun = True
        return self._stage.set_topology(Topology(Inventory()))

    def next_ns(self) -> int | None:
        """Return the time at which the next version takes effect; None if none is known."""
        return self._versions.after(self._effective_ns) if self._effective_ns != _NEVER else None

    def due(self) -> list[Output]:
        """Adopt the versions whose effective time the stage's watermark has passed."""
        outputs: list[Output] = []
        watermark_ns = self._stage.watermark_ns
        if watermark_ns in (0, IDLE_NS):
            return outputs
        while (at := self.next_ns()) is not None and at <= watermark_ns:
            outputs += self._adopt_at(at)
        return outputs

    def refresh(self) -> list[Output]:
        """Adopt changes since the last call: a first version, a due version, a job."""
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

"""The version of the inventory that a stage has adopted, and the time at which it adopts the next.

Pure. A version takes effect when the stage's watermark passes its effective time, so that routing and ids change
everywhere at the same moment of event time (DESIGN 2.3).
"""

from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.runtime.versions import Versions
from streams.wire.models import IDLE_NS
from streams.wire.stage import Output, Stage

_NEVER = -1


class InventorySchedule:
    """The version that one stage works with."""

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

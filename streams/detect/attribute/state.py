"""What `attribute` keeps: the cases of the fabric and what is known of devices, and questions about them."""

import itertools
from dataclasses import dataclass, field

from streams.detect.detectors.device_down.evaluate import Restart
from streams.detect.detectors.fleet_version_drift.evaluate import Fleet
from streams.detect.detectors.telemetry_stale.evaluate import Silence
from streams.detect.evidence.episodes import PublishedEpisodes, prune
from streams.detect.evidence.link_history import FOREVER
from streams.wire.models import Episode, Finding, Status


@dataclass(slots=True)
class DeviceState:
    """What is known of one device, and what its detectors have said."""

    silences: dict[str, list[Silence]] = field(default_factory=dict)
    restarts: list[Restart] = field(default_factory=list)
    down: PublishedEpisodes = ()
    stale: dict[str, PublishedEpisodes] = field(default_factory=dict)

    @property
    def has_open_episodes(self) -> bool:
        """A detector of this device has something to close."""
        said = itertools.chain(self.down, *self.stale.values())
        return any(not one.episode.finding.final for one in said)

    def prune(self, before_ns: int) -> None:
        """Drop what is over and older."""
        self.down = prune(self.down, before_ns)
        self.stale = {name: prune(said, before_ns) for name, said in self.stale.items()}
        self.restarts = [restart for restart in self.restarts if restart.at_ns >= before_ns]
        self.silences = {
            name: kept for name, own in self.silences.items() if (kept := [s for s in own if s.resumed_ns >= before_ns])
        }


@dataclass(slots=True)
class Case:
    """One episode and the finding that was last published of it."""

    episode: Episode
    published: Finding | None = None
    retracted_ns: int = 0
    """The watermark at which it was taken back."""

    @property
    def closed(self) -> bool:
        """All was said of it: its final revision, or nothing of what was taken back before it was said."""
        if self.published is None:
            return self.episode.finding.status is Status.RETRACTED
        return self.published.final


@dataclass(slots=True)
class AttributeState:
    """What a snapshot holds."""

    watermark_ns: int = 0
    cases: dict[str, Case] = field(default_factory=dict)
    devices: dict[str, DeviceState] = field(default_factory=dict)
    occurrences: dict[str, dict[str, int]] = field(default_factory=dict)
    """Condition and subject -> when each of its findings began, by id: one that is dated anew is still one."""
    changed: dict[str, None] = field(default_factory=dict)
    """Cases that changed since time last went on: what that changes for others is said then, once for all of them."""
    to_reevaluate: dict[str, None] = field(default_factory=dict)
    """Cases to be judged anew for another reason: a job came or went."""
    swept_ns: int = 0
    fleet: Fleet = field(default_factory=Fleet)

    def evict(self, before_ns: int, occurred_ns: int) -> list[Finding]:
        """Let go of what is closed, older, and the parent of nothing that is open; answers it."""
        parents = {c.published.parent_id for c in self.cases.values() if c.published is not None and not c.closed}
        gone = [
            case.episode.finding
            for identity, case in self.cases.items()
            if case.closed and case.episode.finding.observed_at_ns < before_ns and identity not in parents
        ]
        for finding in gone:
            del self.cases[finding.id]
        for device, state in list(self.devices.items()):
            state.prune(before_ns)
            if not (state.silences or state.restarts or state.down):
                del self.devices[device]
        for subject, starts in list(self.occurrences.items()):
            if all(start < occurred_ns for start in starts.values()):
                del self.occurrences[subject]
        return gone


def devices_of(finding: Finding) -> list[str]:
    """The devices at its ends."""
    return sorted({end.device for end in (finding.subject.a, finding.subject.z) if end is not None})


def corroborated_by_other(finding: Finding, device: str) -> bool:
    """Whether another device than this gave evidence."""
    return any(evidence.at is not None and evidence.at.device != device for evidence in finding.evidence)


def overlap(one: Finding, other: Finding) -> bool:
    """Whether both were so at any moment."""
    ends = [f.resolved_at_ns if f.resolved_at_ns is not None else FOREVER for f in (one, other)]
    return one.started_at_ns <= ends[1] and other.started_at_ns <= ends[0]

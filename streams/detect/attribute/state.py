"""Defines the state of `attribute` in its snapshot: the cases of the fabric and the facts of each device."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streams.detect.attribute.sides import fabric_side
from streams.detect.evidence.device_evidence import Restart, Silence, WrongClock
from streams.detect.evidence.episodes import PublishedEpisodes, evidence_of, prune
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.port_readers import ReadersByDevice
from streams.detect.fabric_side import LINK_LOSS
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.wire.models import Episode, Evidence, Finding, Status


@dataclass(slots=True)
class DeviceState:
    """The facts of one device, and the episodes that its detectors published."""

    silences: dict[str, list[Silence]] = field(default_factory=dict)
    """Silences by source."""
    restarts: list[Restart] = field(default_factory=list)
    clocks: list[WrongClock] = field(default_factory=list)
    published: dict[str, dict[str, PublishedEpisodes]] = field(default_factory=dict)
    """Detector -> part of the device that it evaluates -> published episodes."""
    due_ns: int = FOREVER
    """The next watermark at which a detector evaluates the device without new input."""

    @property
    def is_empty(self) -> bool:
        return not (self.silences or self.restarts or self.clocks or any(self.published.values()))

    def prune(self, before_ns: int) -> None:
        self.published = {slug: _pruned(by_part, before_ns) for slug, by_part in self.published.items()}
        self.restarts = [restart for restart in self.restarts if restart.at_ns >= before_ns]
        self.clocks = [clock for clock in self.clocks if clock.right_ns >= before_ns]
        recent = {
            source: [silence for silence in silences if silence.resumed_ns >= before_ns]
            for source, silences in self.silences.items()
        }
        self.silences = {source: silences for source, silences in recent.items() if silences}


def _pruned(by_part: Mapping[str, PublishedEpisodes], before_ns: int) -> dict[str, PublishedEpisodes]:
    pruned = {part: prune(episodes, before_ns) for part, episodes in by_part.items()}
    return {part: episodes for part, episodes in pruned.items() if episodes}


@dataclass(slots=True)
class Case:
    """One episode, and the finding that was last published for it."""

    episode: Episode
    published: Finding | None = None
    published_ns: int = 0
    """The watermark of the last revision."""
    retracted_ns: int = 0
    """The watermark at which the episode was retracted."""
    listed: tuple[str, ...] = ()
    """Its devices that the inventory had."""

    @property
    def is_closed(self) -> bool:
        """Return whether the final revision is published, or the episode was retracted before any publication."""
        if self.published is None:
            return self.episode.finding.status is Status.RETRACTED
        return self.published.final


@dataclass(slots=True)
class AttributeState:
    """The state that a snapshot holds."""

    watermark_ns: int = 0
    cases: dict[str, Case] = field(default_factory=dict)
    devices: dict[str, DeviceState] = field(default_factory=dict)
    occurrences: dict[str, dict[str, int]] = field(default_factory=dict)
    """Condition and subject -> finding id -> start time, so that a finding with a changed start counts once."""
    changed: dict[str, None] = field(default_factory=dict)
    """Cases that changed since the last watermark; their effect on others is evaluated once, at the next watermark."""
    to_reevaluate: dict[str, None] = field(default_factory=dict)
    """Cases to evaluate for another reason, such as a started or ended job."""
    swept_ns: int = 0
    port_readers: ReadersByDevice = field(default_factory=ReadersByDevice)
    evaluators: dict[str, Any] = field(default_factory=dict)
    """The states of the detectors that evaluate the whole fabric."""

    def evict(self, before_ns: int, occurrences_before_ns: int) -> list[Finding]:
        """Remove old closed cases that are not the parent of an open case; return their findings."""
        parents = {case.published.parent_id for case in self.cases.values() if case.published and not case.is_closed}
        evicted = [
            case.episode.finding
            for identity, case in self.cases.items()
            if case.is_closed and case.episode.finding.observed_at_ns < before_ns and identity not in parents
        ]
        for finding in evicted:
            del self.cases[finding.id]
        for device, state in list(self.devices.items()):
            state.prune(before_ns)
            if state.is_empty:
                del self.devices[device]
        for subject, starts in list(self.occurrences.items()):
            if all(start_ns < occurrences_before_ns for start_ns in starts.values()):
                del self.occurrences[subject]
        return evicted


def has_evidence_from_other(finding: Finding, device: str) -> bool:
    """Return whether a finding has evidence from a device other than this."""
    return any(evidence.at is not None and evidence.at.device != device for evidence in finding.evidence)


RETENTION_NS = ns(28 * 86_400)
"""Occurrences count over 28 days: Meta identified its lemon nodes over that time (reported)."""


def count_occurrences(occurrences: dict[str, dict[str, int]], finding: Finding) -> int:
    """Record the start of a finding; return the number of starts here within 28 days, including this one."""
    starts = occurrences.setdefault(f"{finding.condition}/{finding.subject.id}", {})
    since_ns = finding.started_at_ns - RETENTION_NS
    if finding.status is Status.RETRACTED:
        starts.pop(finding.id, None)
    elif starts.get(finding.id) != finding.started_at_ns:
        starts[finding.id] = finding.started_at_ns
        for identity in [identity for identity, start_ns in starts.items() if start_ns < since_ns]:
            del starts[identity]
    return sum(since_ns <= start_ns <= finding.started_at_ns for start_ns in starts.values())


def recurrence_evidence(params: DetectParams, finding: Finding, count: int) -> tuple[Evidence, ...]:
    """Return evidence that a link is a repeat offender, which deserves repair unlike a single flap (DETECTION 3)."""
    minimum = params.link.repeats
    if fabric_side(finding).loss not in LINK_LOSS or count < minimum:
        return ()
    statement = f"a repeat offender: {finding.condition.slug} here {count} times in 28 days"
    span = finding.started_at_ns - RETENTION_NS, finding.started_at_ns
    return (evidence_of(statement, "occurrences", finding.subject.a, span, float(count), float(minimum)),)

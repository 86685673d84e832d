"""What the demo knows of the running pipeline: a fold over findings, remediations, progress and the inventory.

Decides what the screen and the report say; reading Kafka is watch.py's, drawing is screen.py's.
"""

import itertools
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from streams.fabric.topology import Topology
from streams.wire.models import IDLE_NS, Condition, Finding, Message, Progress, Remediation, Severity, Status
from streams.wire.topics import STAGES

CHANGES_KEPT = 200
RATE_OVER_S = 5.0


@dataclass(slots=True)
class StageView:
    """One stage over all its partitions: records read, those not yet read, and how far event time has come."""

    records: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    before: dict[int, int] = field(default_factory=dict)
    lags: dict[int, int] = field(default_factory=dict)
    watermarks: dict[int, int] = field(default_factory=dict)
    seen: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=600))

    def take(self, progress: Progress, now_s: float) -> None:
        """Fold in one Progress that came at `now_s`."""
        part = progress.partition
        if progress.epoch < self.epochs.get(part, 0):
            return  # a former owner's, late
        if progress.epoch > self.epochs.get(part, 0):
            # A new owner counts from nothing; what the one before read stays counted.
            self.before[part] = self.before.get(part, 0) + self.records.get(part, 0)
            self.epochs[part] = progress.epoch
        self.records[part] = progress.records
        self.lags[part] = progress.lag
        self.watermarks[part] = progress.watermark_ns
        self.seen.append((now_s, self.total))

    @property
    def total(self) -> int:
        """Records read by all owners."""
        return sum(self.records.values()) + sum(self.before.values())

    @property
    def lag(self) -> int:
        """Records not yet read."""
        return sum(self.lags.values())

    @property
    def watermark_ns(self) -> int | None:
        """The smallest over its partitions, None before the first and where nothing is live."""
        known = [ns for ns in self.watermarks.values() if 0 < ns < IDLE_NS]
        return min(known, default=None)

    def reached(self, ns: int) -> bool:
        """Whether event time came to `ns` in every partition; one in which nothing is live says nothing of time."""
        return (known := self.watermark_ns) is not None and known >= ns

    def rate(self, now_s: float) -> float:
        """Records a second over the last seconds."""
        recent = [(at, total) for at, total in self.seen if at >= now_s - RATE_OVER_S]
        if len(recent) < 2 or recent[-1][0] <= recent[0][0]:
            return 0.0
        return (recent[-1][1] - recent[0][1]) / (recent[-1][0] - recent[0][0])


@dataclass(slots=True)
class Board:
    """Everything that was seen so far."""

    started_s: float
    topology: Topology | None = None
    findings: dict[str, Finding] = field(default_factory=dict)
    revisions: list[Finding] = field(default_factory=list)
    changes: deque[Finding] = field(default_factory=lambda: deque(maxlen=CHANGES_KEPT))
    remediations: dict[str, Remediation] = field(default_factory=dict)
    decisions: list[Remediation] = field(default_factory=list)
    stages: dict[str, StageView] = field(default_factory=lambda: {stage: StageView() for stage in STAGES})
    rows: dict[str, int] = field(default_factory=dict)
    first_finding_s: float | None = None

    def take(self, message: Message | Topology, now_s: float) -> None:
        """Fold in one thing that came at `now_s`."""
        match message:
            case Topology():
                self.topology = message
            case Progress(stage=stage) if stage in self.stages:
                self.stages[stage].take(message, now_s)
            case Finding():
                self._take_finding(message, now_s)
            case Remediation(id=identity, revision=revision):
                self.decisions.append(message)
                known = self.remediations.get(identity)
                if known is None or revision >= known.revision:
                    self.remediations[identity] = message

    def _take_finding(self, finding: Finding, now_s: float) -> None:
        self.revisions.append(finding)
        if self.first_finding_s is None:
            self.first_finding_s = now_s - self.started_s
        known = self.findings.get(finding.id)
        if known is not None and finding.revision < known.revision:
            return
        if known is None or (known.status, known.severity) != (finding.status, finding.severity):
            self.changes.append(finding)
        self.findings[finding.id] = finding

    @property
    def open(self) -> list[Finding]:
        """The findings that are open, causes first, the worst first."""
        held = [finding for finding in self.findings.values() if not finding.over]
        return sorted(held, key=lambda f: (bool(f.parent_id), -f.severity, f.started_at_ns))

    def worst_by_device(self) -> dict[str, Finding]:
        """For each device, the worst open finding at it or at a link of it."""
        worst: dict[str, Finding] = {}
        for finding in self.open:
            for end in (finding.subject.a, finding.subject.z):
                if end is not None:
                    known = worst.get(end.device)
                    if known is None or _rank(finding) > _rank(known):
                        worst[end.device] = finding
        return worst


def _rank(finding: Finding) -> tuple[int, bool]:
    """A device that is gone explains what its links show."""
    return (finding.severity, finding.condition is Condition.DEVICE_DOWN)


def double_ids(findings: Iterable[Finding]) -> list[str]:
    """Episodes that were said twice: two ids of one detector and subject that overlap in time, a line each."""
    by_subject: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.status is not Status.RETRACTED:
            by_subject.setdefault((finding.detector, finding.subject.id), []).append(finding)
    said = []
    for (detector, subject), same in by_subject.items():
        same.sort(key=lambda finding: finding.started_at_ns)
        for first, second in itertools.pairwise(same):
            if first.resolved_at_ns is None or second.started_at_ns < first.resolved_at_ns:
                said.append(f"{detector} on {subject} has the ids {first.id} and {second.id}")
    return said


SEVERITY_COLOURS = {Severity.INFO: "cyan", Severity.WARNING: "yellow", Severity.CRITICAL: "bold red"}

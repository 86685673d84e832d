"""State of the demo: a fold over findings, remediations, progress and the inventory.

Decides the content of screen and report; follow.py reads Kafka, screen.py draws.
"""

import itertools
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from streams.fabric.topology import Topology
from streams.runtime.stage_progress import StageProgress
from streams.wire.models import Condition, Finding, Message, Progress, Remediation, Severity, Status
from streams.wire.topics import STAGES

MAX_CHANGES = 200
SEVERITY_COLOURS = {Severity.INFO: "cyan", Severity.WARNING: "yellow", Severity.CRITICAL: "bold red"}


@dataclass(slots=True)
class DemoState:
    """Everything that the demo received so far."""

    started_s: float
    topology: Topology | None = None
    findings: dict[str, Finding] = field(default_factory=dict)
    revisions: list[Finding] = field(default_factory=list)
    changes: deque[Finding] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))
    remediations: dict[str, Remediation] = field(default_factory=dict)
    decisions: list[Remediation] = field(default_factory=list)
    stages: dict[str, StageProgress] = field(default_factory=lambda: {stage: StageProgress() for stage in STAGES})
    rows: dict[str, int] = field(default_factory=dict)
    first_finding_s: float | None = None

    def update(self, message: Message | Topology, now_s: float) -> None:
        """Fold in one message that arrived at `now_s`."""
        match message:
            case Topology():
                self.topology = message
            case Progress(stage=stage) if stage in self.stages:
                self.stages[stage].update(message, now_s)
            case Finding():
                self._update_finding(message, now_s)
            case Remediation(id=identity, revision=revision):
                self.decisions.append(message)
                known = self.remediations.get(identity)
                if known is None or revision >= known.revision:
                    self.remediations[identity] = message

    def _update_finding(self, finding: Finding, now_s: float) -> None:
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
    def open_findings(self) -> list[Finding]:
        """The open findings: root findings first, then by severity."""
        unresolved = [finding for finding in self.findings.values() if not finding.is_closed]
        return sorted(unresolved, key=lambda f: (bool(f.parent_id), -f.severity, f.started_at_ns))

    def worst_by_device(self) -> dict[str, Finding]:
        """Return for each device the worst open finding at it or at one of its links."""
        worst: dict[str, Finding] = {}
        for finding in self.open_findings:
            for end in (finding.subject.a, finding.subject.z):
                if end is not None:
                    known = worst.get(end.device)
                    if known is None or _rank(finding) > _rank(known):
                        worst[end.device] = finding
        return worst


def _rank(finding: Finding) -> tuple[int, bool]:
    """Return the sort key of severity; device/down ranks first because it explains findings of the device's links."""
    return (finding.severity, finding.condition is Condition.DEVICE_DOWN)


def duplicate_episodes(findings: Iterable[Finding]) -> list[str]:
    """Return a line for each episode with two ids: findings of one detector and subject that overlap in time."""
    by_subject: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.status is not Status.RETRACTED:
            by_subject.setdefault((finding.detector, finding.subject.id), []).append(finding)
    duplicates = []
    for (detector, subject), same in by_subject.items():
        same.sort(key=lambda finding: finding.started_at_ns)
        for first, second in itertools.pairwise(same):
            if first.resolved_at_ns is None or second.started_at_ns < first.resolved_at_ns:
                duplicates.append(f"{detector} on {subject} has the ids {first.id} and {second.id}")
    return duplicates

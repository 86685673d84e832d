"""Runs one trial: a simulated day of a seed through all stages in order of arrival, and its score.

The day is drawn from the seed alone, so that a trial can be repeated; nothing here depends on a detector.
"""

from collections.abc import Iterator
from dataclasses import astuple, dataclass, field, replace

from lab.bench.detection.fabrics import FABRICS, received
from lab.bench.detection.hidden_faults import without_hidden
from lab.bench.detection.outcome import Outcome
from lab.bench.detection.senders import named_senders
from lab.bench.detection.sources import without_source
from lab.bench.detection.spec import TrialSpec
from lab.world.scenario import build
from streams.config.settings import Settings
from streams.notify.notifier import Notifier
from streams.replay.driver import Driver, Stages
from streams.replay.score import Truth, score
from streams.wire.models import Finding, Message

__all__ = ["Outcome", "TrialSpec", "run"]

_S = 10**9
_NOTIFY_INTERVAL_NS = 5 * _S
"""Interval in which the notifier decides about pages."""


def run(spec: TrialSpec, settings: Settings, stages: Stages) -> Outcome:
    """Simulate the day and score its findings; raise NoRoom if the faults do not fit."""
    scenario = build(spec)
    telemetry, whole = scenario.telemetry, scenario.whole
    batches = telemetry.batches(whole.start_ns, whole.end_ns, round(spec.slice_s * _S))
    observer = _Observer(Notifier(settings.notify))
    driver = Driver(stages, scenario.topology)
    fabric = FABRICS[spec.fabric]
    arriving = received(fabric, without_source(batches, spec.without, scenario.within.start_ns))
    observer.follow(driver, arriving)
    findings = list(observer.findings.values())
    injections = [
        spec.with_tolerances(
            replace(fault, ground_truths=tuple(known.at_reported_device(findings) for known in fault.ground_truths))
        )
        for fault in scenario.faults
    ]
    truths = [(injection, Truth(*astuple(own))) for injection in injections for own in injection.truths]
    scored = score(observer.revisions, [truth for _, truth in truths], settings.notify.hold_s)
    result = without_hidden(scored, truths, fabric, scenario.topology, scenario.shut_ports)
    return Outcome(
        spec, injections, result.score, observer.findings,
        observer.first_published_ns, observer.pages, telemetry.report_delays_ns, telemetry.counts,
        (whole.end_ns - whole.start_ns) / 3.6e12, scenario.negative_cases, result.counts,
        result.hidden, result.shut, result.effects,
        named_senders(injections, findings, scenario.topology.devices),
    )  # fmt: skip


@dataclass(slots=True)
class _Observer:
    """Collects the findings, and decides about pages by the arrival clock."""

    notifier: Notifier
    revisions: list[Finding] = field(default_factory=list)
    findings: dict[str, Finding] = field(default_factory=dict)
    first_published_ns: dict[str, int] = field(default_factory=dict)
    pages: dict[str, int] = field(default_factory=dict)

    def follow(self, driver: Driver, batches: Iterator[tuple[int, list[Message]]]) -> None:
        """Process all batches."""
        notified_ns = 0
        for at_ns, batch in batches:
            for message in driver.process(batch) if batch else ():
                if isinstance(message, Finding):
                    self._add(message, at_ns)
            if at_ns >= notified_ns + _NOTIFY_INTERVAL_NS:
                notified_ns = at_ns
                self._notify(at_ns)

    def _add(self, finding: Finding, at_ns: int) -> None:
        self.revisions.append(finding)
        self.findings[finding.id] = finding
        self.first_published_ns.setdefault(finding.id, at_ns)
        self.notifier.process(finding, at_ns)

    def _notify(self, at_ns: int) -> None:
        due = self.notifier.due(at_ns)
        for alert in due:
            if alert.labels.get("page") == "true" and alert.ends_at_ns > at_ns:
                self.pages.setdefault(alert.labels["finding_id"], at_ns)
        self.notifier.posted(due, at_ns)

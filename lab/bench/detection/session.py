"""Runs the detection benchmark: plays a seed's simulated day through all stages in order of arrival, and scores it.

The day depends only on the seed, so that a trial can be repeated; nothing here depends on a detector. A source can be
left out, to compare both days.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lab.bench.detection.fabrics import FABRICS, received
from lab.bench.detection.hidden_faults import without_hidden
from lab.bench.detection.outcome import CriticalFinding, Outcome, TrialSpec, named_senders
from lab.bench.detection.render import as_dict, lines
from lab.bench.detection.source_ablation import SourceAblation
from lab.world.collector_outages import dated_later, unread_reason
from lab.world.delivery_model import Cadence
from lab.world.fault_placement import NoRoom
from lab.world.faults import FAULT_OF, FAULTS
from lab.world.scenario import build
from streams.config.settings import Settings
from streams.notify.notifier import Notifier
from streams.replay.backtest import stages
from streams.replay.driver import Driver, Stages
from streams.replay.score import score
from streams.wire.errors import Misconfigured
from streams.wire.models import Event, Finding, Message, ProbeReport, Severity, Source

SOURCES: dict[str, Callable[[Message], bool]] = {
    "gnmi": lambda message: _source(message) is Source.SOURCE_GNMI,
    "nic": lambda message: _source(message) is Source.SOURCE_NIC,
    "host": lambda message: _source(message) is Source.SOURCE_HOST,
    "probe": lambda message: isinstance(message, ProbeReport),
    "kernel": lambda message: isinstance(message, Event) and message.source is Source.SOURCE_HOST,
}
"""Selects the messages of each source: `kernel` are the events of a host's kernel log, `host` are all of its agent."""


def _source(message: Message) -> Source | None:
    return getattr(message, "source", None)


def without_source(
    batches: Iterable[tuple[int, list[Message]]], name: str, from_ns: int
) -> Iterator[tuple[int, list[Message]]]:
    """Yield the batches without one source after an arrival time; an empty `name` leaves nothing out."""
    is_removed = SOURCES.get(name)
    for at_ns, batch in batches:
        if is_removed is None or at_ns <= from_ns:
            yield at_ns, batch
        else:
            yield at_ns, [message for message in batch if not is_removed(message)]


__all__ = ["Outcome", "TrialSpec", "run"]

_S = 10**9
_NOTIFY_INTERVAL_NS = 5 * _S
"""The interval at which the notifier decides about pages."""


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
    topology, outages = scenario.topology, scenario.outages
    injections = [
        spec.with_tolerances(
            replace(fault, ground_truths=tuple(known.at_reported_device(findings) for known in fault.ground_truths))
        )
        for fault in (dated_later(fault, topology, outages) for fault in scenario.faults)
    ]
    truths = [(injection, own) for injection in injections for own in injection.truths]
    scored = score(observer.revisions, [truth for _, truth in truths], settings.notify.hold_s)
    shown = replace(fabric, hidden=lambda *at: fabric.hidden(*at) or unread_reason(at[0], topology, outages))
    result = without_hidden(scored, truths, shown, topology, scenario.shut_ports)
    return Outcome(
        spec, injections, result.score, observer.findings,
        observer.first_published_ns, observer.pages, telemetry.report_delays_ns, telemetry.counts,
        (whole.end_ns - whole.start_ns) / 3.6e12, scenario.negative_cases, result.counts,
        result.hidden, result.shut, result.effects,
        named_senders(injections, findings, scenario.topology.devices), observer.criticals,
    )  # fmt: skip


@dataclass(slots=True)
class _Observer:
    """Collects the findings, and decides about pages by the arrival clock."""

    notifier: Notifier
    revisions: list[Finding] = field(default_factory=list)
    findings: dict[str, Finding] = field(default_factory=dict)
    first_published_ns: dict[str, int] = field(default_factory=dict)
    pages: dict[str, int] = field(default_factory=dict)
    criticals: dict[str, CriticalFinding] = field(default_factory=dict)

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
        if finding.severity is Severity.CRITICAL and not finding.is_closed and not finding.shadow:
            self.criticals.setdefault(finding.id, CriticalFinding(at_ns)).parents.add(finding.parent_id)

    def _notify(self, at_ns: int) -> None:
        due = self.notifier.due(at_ns)
        for alert in due:
            if alert.labels.get("page") == "true" and alert.ends_at_ns > at_ns:
                self.pages.setdefault(alert.labels["finding_id"], at_ns)
            elif "paged_with" not in alert.annotations:
                continue
            critical = self.criticals[alert.labels["finding_id"]]
            critical.paged_ns = critical.paged_ns or at_ns
        self.notifier.posted(due, at_ns)


DAYS_CADENCE_S = 60.0
"""The cadence of runs over days: longer than the collectors', because a day would otherwise take hours."""


class DetectionOptions(NamedTuple):
    """The options of the benchmark; a cadence of None is the default."""

    gpus: int
    seed: int
    faults_each: int
    days: float
    cadence_s: float | None
    nic_cadence_s: float | None
    conditions: Sequence[str]
    without: str
    fabric: str = "all"
    killed_min: Sequence[float] = ()


class DetectionResult(NamedTuple):
    """The outcome as JSON values and as text."""

    values: dict[str, Any]
    lines: Iterable[str]


_S_PER_GPU_DAY, _S_PER_GPU_HOUR, _BESIDE_H = 0.3, 0.11, 0.4
"""Measured with 256 and 2,048 GPUs; a trial has a healthy part before and after its faults."""


def expected_s(options: DetectionOptions) -> float:
    """Return about how long a run takes on an idle machine; raise Misconfigured for impossible options."""
    spec = _trial_spec(options)
    hours = spec.seconds / 3600 + _BESIDE_H
    own_s = options.gpus * (options.days * _S_PER_GPU_DAY if options.days else hours * _S_PER_GPU_HOUR)
    return own_s * (2 if options.without else 1)


def run_detection(options: DetectionOptions, settings: Settings) -> DetectionResult:
    """Run one trial, or one with and one without a source; raise Misconfigured for impossible options."""
    spec = _trial_spec(options)
    try:
        outcome = run(spec, settings, stages(settings))
        if not options.without:
            return DetectionResult(as_dict(outcome), lines(outcome))
        partial = run(replace(spec, without=options.without), settings, stages(settings))
    except NoRoom as error:
        raise Misconfigured(str(error)) from error
    ablation = SourceAblation(outcome, partial)
    return DetectionResult(ablation.as_dict(), ablation.lines())


def _trial_spec(options: DetectionOptions) -> TrialSpec:
    if unknown := [name for name in options.conditions if name not in FAULT_OF]:
        raise Misconfigured(f"unknown condition: {', '.join(unknown)}; known: {', '.join(FAULT_OF)}")
    if options.without and options.without not in SOURCES:
        raise Misconfigured(f"unknown source: {options.without}; known: {', '.join(SOURCES)}")
    if options.fabric not in FABRICS:
        raise Misconfigured(f"unknown fabric: {options.fabric}; known: {', '.join(FABRICS)}")
    own = FABRICS[options.fabric]
    switch_s = options.cadence_s or (DAYS_CADENCE_S if options.days else own.cadence.switch_s)
    nic_s = options.nic_cadence_s or (switch_s if options.days else min(switch_s, own.cadence.nic_s))
    if switch_s % nic_s:
        raise Misconfigured(f"--cadence {switch_s:g} is not a multiple of --nic-cadence {nic_s:g}")
    faults = tuple(fault for fault in FAULTS if fault.slug in options.conditions) or FAULTS
    return TrialSpec(
        options.gpus,
        options.seed,
        options.faults_each,
        options.days,
        Cadence(switch_s, nic_s),
        faults,
        own.planes,
        own.is_sprayed,
        own.has_pause,
        tuple(options.killed_min),
        options.fabric,
    )

"""fleet/version-drift: detects devices of a cohort with a version that the allow-list or the majority excludes.

Each cohort and version has one finding. It is INFO while the version causes no faults and while its share changes. It
is WARNING if links fail significantly more often at the version than at the others of the cohort.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streams.detect.detector import Detector, JobDomain
from streams.detect.detectors.fleet_version_drift.cohorts import (
    Cohort,
    CohortAssessment,
    DriftParams,
    Fault,
    FaultRates,
    RunningVersion,
    assess,
    compare_fault_rates,
    merge_counts,
)
from streams.detect.evidence.episodes import Conclusion, Ledger, PublishedEpisodes
from streams.detect.evidence.link_history import FOREVER
from streams.detect.fabric_side import CapacityEffect, FabricEvaluator, FabricSide, devices_of
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.wire.models import (
    BlastRadius,
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Message,
    Severity,
    Status,
    Subject,
    VersionCensus,
)

_MAX_FAULTS = 4096
"""The most retained faults; with more, rates are compared over the time of the retained ones."""

_LINK_FAULTS = (Condition.LINK_FLAP, Condition.LINK_DOWN, Condition.LINK_DEGRADING)


@dataclass(slots=True)
class Drift:
    """One version of a cohort that should not run, and its published episodes."""

    subject: Subject
    begin_ns: int
    detected_ns: int
    finding: Finding | None = None
    end_ns: int = FOREVER
    published: PublishedEpisodes = ()


@dataclass(slots=True)
class FleetState:
    """The state of the detector; mutable, because each of thousands of findings in a burst is recorded."""

    shards: dict[str, VersionCensus] = field(default_factory=dict)
    """Partition -> its newest census."""
    first_ns: dict[str, int] = field(default_factory=dict)
    """Cohort -> the time of its first census."""
    faults: dict[str, Fault] = field(default_factory=dict)
    complete_from_ns: int = 0
    """All faults from this time on are in `faults`."""
    drifts: dict[str, Drift] = field(default_factory=dict)
    due_ns: int = FOREVER
    """The time of the next evaluation without new input."""
    pending: list[VersionCensus] = field(default_factory=list)

    @property
    def next_ns(self) -> int:
        return min([self.due_ns, *(census.at_ns for census in self.pending)])


def add_message(state: FleetState, message: Message) -> None:
    """Add the newest census of a partition; it is evaluated together with all others of the same minute."""
    if isinstance(message, VersionCensus):
        known = state.shards.get(str(message.shard))
        if (known is None or known.at_ns < message.at_ns) and message not in state.pending:
            state.pending.append(message)


def add_published(state: FleetState, finding: Finding) -> None:
    """Count a failed link for the versions at its ends, unless another finding is its root cause."""
    if finding.condition not in _LINK_FAULTS:
        return
    if finding.parent_id or finding.status is Status.RETRACTED:
        state.faults.pop(finding.id, None)
        return
    state.faults[finding.id] = Fault(finding.subject.id, finding.started_at_ns, tuple(devices_of(finding)))
    while len(state.faults) > _MAX_FAULTS:
        oldest = state.faults.pop(next(iter(state.faults)))
        state.complete_from_ns = max(state.complete_from_ns, oldest.at_ns + 1)


_MAX_NAMED = 16
"""The most named versions and devices; `facts` has the rest."""


class DriftFacts(NamedTuple):
    """One version of a cohort that should not run, beside the others."""

    cohort: Cohort
    version: RunningVersion
    versions: Mapping[str, RunningVersion]
    assessment: CohortAssessment
    rates: FaultRates | None

    @property
    def total(self) -> int:
        return sum(running.devices for running in self.versions.values())


def _summary(facts: DriftFacts, *, is_faulty: bool) -> str:
    """Return the summary of a drift."""
    version, expected = facts.version, facts.assessment.expected
    instead = f"not {expected}" if facts.assessment.by_list else f"{expected} is what most run"
    faulty = f"; links fail {facts.rates.ratio:.1f} times as often there" if is_faulty and facts.rates else ""
    return f"{facts.cohort.name}: {version.devices} of {facts.total} devices run {version.version}, {instead}{faulty}"


def _statements(facts: DriftFacts, confidence: float) -> Iterator[Evidence]:
    """Yield the shares of the versions, some devices with this version, and the comparison of failure rates."""
    version, total, rates = facts.version, facts.total, facts.rates
    largest = sorted(facts.versions.values(), key=lambda running: -running.devices)[:_MAX_NAMED]
    shares = ", ".join(f"{running.version} {running.devices / total:.1%}" for running in largest)
    yield Evidence(
        f"{facts.cohort.name} of {total} devices: {shares}",
        "version",
        observed=float(version.devices),
        expected=0.0,
        comparison="allow-list" if facts.assessment.by_list else "peers",
        peers=total - version.devices,
    )
    if version.members:
        names = sorted(version.members)[:_MAX_NAMED]
        rest = f" and {version.devices - len(names)} more" if version.devices > len(names) else ""
        yield Evidence(f"{version.version} runs in {', '.join(names)}{rest}", "version")
    if rates is not None and rates.faults + rates.others:
        yield Evidence(
            f"{rates.faults} links failed in {rates.days:.0f} device-days with it, {rates.others} in"
            f" {rates.other_days:.0f} with others: {rates.ratio:.1f} times as often ({confidence:.0%}:"
            f" {rates.low:.1f} to {rates.high:.1f})",
            "link_faults_per_1000_device_days",
            observed=1000 * rates.faults / rates.days,
            expected=1000 * rates.others / rates.other_days,
            comparison="peers",
        )


_MAX_HOSTS = 16
"""The most hosts that a finding names; `facts` has the rest."""


def _evaluate(params: DriftParams, ledger: Ledger, state: FleetState, _topology: Topology) -> list[Episode]:
    """Conclude at each time of a change, in order, once the census of all partitions can have arrived."""
    episodes: list[Episode] = []
    while (at_ns := state.next_ns) + ns(ledger.settings.lateness_s) <= ledger.watermark_ns:
        for census in state.pending:
            if census.at_ns <= at_ns:
                state.shards[str(census.shard)] = census
        state.pending = [census for census in state.pending if census.at_ns > at_ns]
        drifting = _assess_cohorts(params, ledger, state, at_ns)
        episodes += _close_and_reconcile(params, ledger, state, drifting, at_ns)
    return episodes


def _assess_cohorts(params: DriftParams, ledger: Ledger, state: FleetState, now_ns: int) -> set[str]:
    """Update the drift of each version that should not run; return their subjects."""
    horizon_ns = max(now_ns - ns(params.days * 86_400), state.complete_from_ns)
    state.faults = {identity: fault for identity, fault in state.faults.items() if fault.at_ns >= horizon_ns}
    state.due_ns = FOREVER
    drifting: set[str] = set()
    for cohort, versions in merge_counts(state.shards.values()).items():
        first_ns = state.first_ns.setdefault("/".join(map(str, cohort)), now_ns)
        settled_ns = first_ns + ns(params.settle_s)
        assessment = assess(params, cohort, versions)
        if assessment.drifting and now_ns < settled_ns:
            state.due_ns = min(state.due_ns, settled_ns)
            continue
        for version in assessment.drifting:
            subject_id = _subject_id(cohort, version)
            drifting.add(subject_id)
            drift = _open_drift(ns(ledger.settings.lateness_s), state, subject_id, cohort, versions[version], now_ns)
            rates = compare_fault_rates(params, version, versions, state.faults.values(), horizon_ns, now_ns)
            facts = DriftFacts(cohort, versions[version], versions, assessment, rates)
            drift.finding = ledger.finding(_conclusion(params, drift, facts, now_ns))
    return drifting


def _close_and_reconcile(
    params: DriftParams, ledger: Ledger, state: FleetState, drifting: set[str], now_ns: int
) -> list[Episode]:
    """Close the drifts that ended; return the episodes that changed."""
    episodes: list[Episode] = []
    for subject_id, drift in list(state.drifts.items()):
        if subject_id not in drifting and drift.end_ns == FOREVER:
            drift.end_ns = now_ns
        episodes += _reconcile(ledger, drift)
        if drift.end_ns == FOREVER:
            state.due_ns = min(state.due_ns, now_ns + ns(params.look_s))
        elif all(one.episode.finding.final for one in drift.published):
            del state.drifts[subject_id]
        else:
            state.due_ns = min(state.due_ns, now_ns + ns(ledger.settings.lateness_s))
    return episodes


def _subject_id(cohort: Cohort, version: str) -> str:
    """Return the id of a cohort and version; two sources may name one version differently."""
    parts = (f"cohort:{cohort.kind}", cohort.vendor, cohort.model, cohort.source.label, version)
    return "/".join(part for part in parts if part)


def _open_drift(
    lateness_ns: int, state: FleetState, subject_id: str, cohort: Cohort, version: RunningVersion, now_ns: int
) -> Drift:
    """Return the open drift of a version, or a new one."""
    drift = state.drifts.get(subject_id)
    if drift is not None and drift.end_ns == FOREVER:
        return drift
    begin_ns = min(version.members.values(), default=now_ns)
    if drift is not None:
        begin_ns = max(begin_ns, drift.end_ns)
    subject = Subject(subject_id, Endpoint(min(version.members, default="")), role=cohort.kind)
    published = drift.published if drift is not None else ()
    state.drifts[subject_id] = Drift(subject, begin_ns, now_ns + lateness_ns, published=published)
    return state.drifts[subject_id]


def _conclusion(params: DriftParams, drift: Drift, facts: DriftFacts, now_ns: int) -> Conclusion:
    cause = _cause(params, facts, now_ns)
    is_faulty = cause is Cause.VERSION_FAULTY
    is_warning = is_faulty or cause is Cause.VERSION_NOT_ALLOWED
    hosts = tuple(sorted(facts.version.members)[:_MAX_HOSTS]) if facts.cohort.kind == "nic" else ()
    return Conclusion(
        drift.subject, drift.begin_ns, FOREVER, opened_ns=drift.detected_ns, seen_ns=now_ns, resolved_ns=None,
        over_ns=FOREVER,
        summary=_summary(facts, is_faulty=is_faulty),
        cause=cause,
        evidence=_statements(facts, params.confidence),
        confidence=0.9,
        coverage=Coverage(seen=facts.total, expected=facts.total),
        severity=Severity.WARNING if is_warning else Severity.INFO,
        blast_radius=BlastRadius(hosts=hosts),
    )  # fmt: skip


def _cause(params: DriftParams, facts: DriftFacts, now_ns: int) -> Cause:
    """Return the most severe cause that applies; a version that is being rolled out precedes the allow-list."""
    rates = facts.rates
    if rates is not None and rates.faults >= params.harm_faults and rates.low > 1:
        return Cause.VERSION_FAULTY
    if any(now_ns - running.changed_ns < ns(params.rollout_s) for running in facts.versions.values()):
        return Cause.VERSION_ROLLOUT
    return Cause.VERSION_NOT_ALLOWED if facts.assessment.by_list else Cause.VERSION_DRIFT


def _reconcile(ledger: Ledger, drift: Drift) -> list[Episode]:
    """Reconcile the finding of a drift, which was concluded at its last assessment."""
    assert drift.finding is not None
    end_ns, found = drift.end_ns, drift.finding
    is_over = end_ns != FOREVER
    conclusion = Conclusion(
        found.subject, drift.begin_ns, end_ns - 1 if is_over else FOREVER, opened_ns=drift.detected_ns,
        seen_ns=end_ns if is_over else found.observed_at_ns, resolved_ns=end_ns if is_over else None, over_ns=end_ns,
        summary=found.summary, cause=found.cause, evidence=found.evidence, confidence=found.confidence or 0.0,
        coverage=found.coverage, severity=found.severity, blast_radius=found.blast_radius,
    )  # fmt: skip
    drift.published, episodes, _ = ledger.reconcile(drift.published, [conclusion])
    return episodes


DETECTOR = Detector(
    Condition.FLEET_VERSION_DRIFT,
    version="1",
    opens_when=(
        "firmware or software outside the allow-list or different from the cohort's majority; harm measured by "
        "failures"
    ),
    params=DriftParams,
    section="drift",
    placement=None,
    job_domain=JobDomain.NEITHER,
    lemon=None,
    hidden_in={"nic": "neighbors and versions are facts of gNMI and of the host's agent"},
    fabric=FabricSide(
        explained_by_outages=False, capacity=CapacityEffect.BY_DETECTOR, severity_by_detector=True,
        evaluator=FabricEvaluator(FleetState, add_message, _evaluate, add_published),
    ),
)  # fmt: skip

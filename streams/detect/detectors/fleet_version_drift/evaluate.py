"""fleet/version-drift: some devices of a cohort run another version than the allow-list names, or than most of it.

One finding a cohort and version, not one a device. INFO while it does no harm and while the share moves; links that
fail more often at that version than at the others of the cohort, beyond chance, make it a WARNING.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from streams.detect.detectors.fleet_version_drift.cohorts import (
    Cohort,
    CohortAssessment,
    Fault,
    Rates,
    Running,
    assess,
    merge_counts,
    rates,
)
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, finding_defaults, reconcile
from streams.detect.evidence.link_history import FOREVER
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.wire.models import (
    BlastRadius,
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Severity,
    Status,
    Subject,
    VersionCensus,
)

SLUG = "fleet/version-drift"
VERSION = "1"

_NAMED = 16
"""Devices that a finding names; the rest are in `facts`."""

_FAULTS = 4096
"""Faults that are kept: a fabric in which more links fail within 28 days has other troubles."""


@dataclass(slots=True)
class Drift:
    """One version of a cohort that is not what it should be, and what was said of it."""

    subject: Subject
    begin_ns: int
    detected_ns: int
    finding: Finding | None = None
    end_ns: int = FOREVER
    state: PublishedEpisodes = ()


@dataclass(slots=True)
class Fleet:
    """What is known of all versions: the newest census of each partition, and the links that failed."""

    shards: dict[str, VersionCensus] = field(default_factory=dict)
    first_ns: dict[str, int] = field(default_factory=dict)
    """When each cohort was first seen."""
    faults: dict[str, Fault] = field(default_factory=dict)
    drifts: dict[str, Drift] = field(default_factory=dict)
    due_ns: int = FOREVER
    """When to look again, though nothing changed."""
    waiting: list[VersionCensus] = field(default_factory=list)

    def take(self, census: VersionCensus) -> None:
        """One partition's newest counts; they count with those of the same minute of all others."""
        known = self.shards.get(str(census.shard))
        if (known is None or known.at_ns < census.at_ns) and census not in self.waiting:
            self.waiting.append(census)

    @property
    def next_ns(self) -> int:
        """The moment of event time that is to be looked at next; FOREVER where there is none."""
        return min([self.due_ns, *(census.at_ns for census in self.waiting)])

    def note(self, finding: Finding) -> None:
        """A link that failed counts for the versions at its ends, unless something else explains it."""
        if finding.condition not in (Condition.LINK_FLAP, Condition.LINK_DOWN, Condition.LINK_DEGRADING):
            return
        if finding.parent_id or finding.status is Status.RETRACTED:
            self.faults.pop(finding.id, None)
            return
        ends = (finding.subject.a, finding.subject.z)
        devices = tuple(end.device for end in ends if end is not None)
        self.faults[finding.id] = Fault(finding.subject.id, finding.started_at_ns, devices)
        while len(self.faults) > _FAULTS:
            del self.faults[next(iter(self.faults))]


def step(params: DetectParams, fleet: Fleet, watermark_ns: int) -> list[Episode]:
    """Conclude at each moment at which something changed, in order, once all partitions have told of it."""
    episodes: list[Episode] = []
    while (at_ns := fleet.next_ns) + ns(params.lateness_s) <= watermark_ns:
        for census in fleet.waiting:
            if census.at_ns <= at_ns:
                fleet.shards[str(census.shard)] = census
        fleet.waiting = [census for census in fleet.waiting if census.at_ns > at_ns]
        episodes += _at(params, fleet, at_ns, watermark_ns)
    return episodes


def _at(params: DetectParams, fleet: Fleet, now_ns: int, watermark_ns: int) -> list[Episode]:
    horizon_ns = now_ns - ns(params.drift.days * 86_400)
    fleet.faults = {identity: fault for identity, fault in fleet.faults.items() if fault.at_ns >= horizon_ns}
    fleet.due_ns = FOREVER
    seen: set[str] = set()
    for cohort, versions in merge_counts(fleet.shards.values()).items():
        settled_ns = fleet.first_ns.setdefault("/".join(map(str, cohort)), now_ns) + ns(params.drift.settle_s)
        verdict = assess(params.drift, cohort, versions)
        if verdict.drifting and now_ns < settled_ns:
            fleet.due_ns = min(fleet.due_ns, settled_ns)
            continue
        for version in verdict.drifting:
            name = _identity(cohort, version)
            seen.add(name)
            _look(params, fleet, name, cohort, versions[version], versions, verdict, now_ns)
    episodes: list[Episode] = []
    for name, drift in list(fleet.drifts.items()):
        if name not in seen and drift.end_ns == FOREVER:
            drift.end_ns = now_ns
        episodes += _said(params, drift, watermark_ns)
        if drift.end_ns == FOREVER:
            fleet.due_ns = min(fleet.due_ns, now_ns + ns(params.drift.look_s))
        elif all(said.episode.finding.final for said in drift.state):
            del fleet.drifts[name]
        else:
            fleet.due_ns = min(fleet.due_ns, now_ns + ns(params.lateness_s))
    return episodes


def _identity(cohort: Cohort, version: str) -> str:
    """The subject's id; two sources call one version by two names."""
    source = cohort.source.label
    return "/".join(filter(None, (f"cohort:{cohort.kind}", cohort.vendor, cohort.model, source, version)))


def _look(
    params: DetectParams, fleet: Fleet, name: str, cohort: Cohort, own: Running, versions: Mapping[str, Running],
    verdict: CohortAssessment, now_ns: int,
) -> None:  # fmt: skip
    drift = fleet.drifts.get(name)
    if drift is None or drift.end_ns != FOREVER:
        first = min(own.members, default="")
        begin_ns = min((since for since in own.members.values()), default=now_ns)
        if drift is not None:
            begin_ns = max(begin_ns, drift.end_ns)
        subject = Subject(name, Endpoint(first), role=cohort.kind)
        drift = fleet.drifts[name] = Drift(
            subject, begin_ns, now_ns + ns(params.lateness_s), state=drift.state if drift is not None else ()
        )
    found = rates(params.drift, own.version, versions, fleet.faults.values(), now_ns)
    harms = found is not None and found.faults >= params.drift.harm_faults and found.low > 1
    moves = any(now_ns - running.changed_ns < ns(params.drift.rollout_s) for running in versions.values())
    cause = _cause(verdict, harms=harms, moves=moves)
    total = sum(running.devices for running in versions.values())
    drift.finding = Finding(
        **finding_defaults(params, SLUG, VERSION),
        condition=Condition.FLEET_VERSION_DRIFT,
        severity=Severity.WARNING if cause in (Cause.VERSION_FAULTY, Cause.VERSION_NOT_ALLOWED) else Severity.INFO,
        subject=drift.subject,
        started_at_ns=drift.begin_ns,
        observed_at_ns=now_ns,
        detected_at_ns=drift.detected_ns,
        summary=_summary(cohort, own, verdict, total, found if harms else None),
        cause=cause,
        evidence=tuple(_evidence(cohort, own, verdict, found, versions, params.drift.confidence)),
        confidence=0.9,
        coverage=Coverage(seen=total, expected=total),
        blast_radius=BlastRadius(hosts=tuple(sorted(own.members)[:_NAMED])) if cohort.kind == "nic" else BlastRadius(),
    )


def _cause(verdict: CohortAssessment, *, harms: bool, moves: bool) -> Cause:
    """Return the gravest cause that applies; a version that is being rolled out comes before the allow-list."""
    if harms:
        return Cause.VERSION_FAULTY
    if moves:
        return Cause.VERSION_ROLLOUT
    return Cause.VERSION_NOT_ALLOWED if verdict.by_list else Cause.VERSION_DRIFT


def _said(params: DetectParams, drift: Drift, watermark_ns: int) -> list[Episode]:
    """What changed of one."""
    assert drift.finding is not None
    over, finding = drift.end_ns != FOREVER, drift.finding
    if over:
        finding = replace(finding, resolved_at_ns=drift.end_ns, observed_at_ns=drift.end_ns)
    final_ns = drift.end_ns + ns(params.lateness_s) if over else None
    end_ns = drift.end_ns - 1 if over else FOREVER
    conclusion = Conclusion(drift.begin_ns, end_ns, finding, str(drift.begin_ns), final_ns)
    drift.state, episodes = reconcile(drift.state, [conclusion], watermark_ns)
    return episodes


def _summary(cohort: Cohort, own: Running, verdict: CohortAssessment, total: int, harm: Rates | None) -> str:
    instead = f"not {verdict.expected}" if verdict.by_list else f"{verdict.expected} is what most run"
    more = f"; links fail {harm.ratio:.1f} times as often there" if harm is not None else ""
    return f"{cohort.name}: {own.devices} of {total} devices run {own.version}, {instead}{more}"


def _evidence(
    cohort: Cohort,
    own: Running,
    verdict: CohortAssessment,
    found: Rates | None,
    versions: Mapping[str, Running],
    confidence: float,
) -> list[Evidence]:
    total = sum(running.devices for running in versions.values())
    shares = ", ".join(
        f"{running.version} {running.devices / total:.1%}"
        for running in sorted(versions.values(), key=lambda running: -running.devices)[:_NAMED]
    )
    told = [
        Evidence(
            f"{cohort.name} of {total} devices: {shares}", "version", None, float(own.devices), 0.0,
            "allow-list" if verdict.by_list else "peers", total - own.devices,
        )
    ]  # fmt: skip
    if own.members:
        names = sorted(own.members)[:_NAMED]
        rest = f" and {own.devices - len(names)} more" if own.devices > len(names) else ""
        told.append(Evidence(f"{own.version} runs in {', '.join(names)}{rest}", "version"))
    if found is not None and found.faults + found.others:
        statement = (
            f"{found.faults} links failed in {found.days:.0f} device-days with it, {found.others} in"
            f" {found.other_days:.0f} with others: {found.ratio:.1f} times as often ({confidence:.0%}:"
            f" {found.low:.1f} to {found.high:.1f})"
        )
        rate, other = 1000 * found.faults / found.days, 1000 * found.others / found.other_days
        told.append(Evidence(statement, "link_faults_per_1000_device_days", None, rate, other, "peers"))
    return told

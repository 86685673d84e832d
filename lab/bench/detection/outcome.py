"""The specification of one trial and its outcome: the score, delays, false pages, and the named senders of incasts."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from lab.bench.detection.hidden_faults import HiddenFault
from lab.world.delivery_model import Cadence, DeliveryModel
from lab.world.ground_truth import GroundTruth, InjectedFault
from lab.world.scenario import ScenarioSpec
from streams.detect.evidence.subjects import subject_ends
from streams.detect.fabric_side import devices_of
from streams.fabric.ids import Port
from streams.replay.score import Score, ScoredFinding, Truth
from streams.wire.models import Condition, Finding, Status

_DAYS_SLICE_S = 15.0


@dataclass(frozen=True, slots=True)
class TrialSpec(ScenarioSpec):
    """A simulated day as the stages receive it."""

    fabric: str = "all"
    """One of FABRICS, which defines the sources and their cadences."""
    without: str = ""
    """One of SOURCES, whose messages stop after the warm-up."""

    def with_tolerances(self, fault: InjectedFault) -> InjectedFault:
        """Return a fault whose tolerances are extended by the delay of slower readings than the declared cadences."""
        return replace(fault, ground_truths=tuple(map(self._tolerant, fault.ground_truths)))

    def _tolerant(self, known: GroundTruth) -> GroundTruth:
        declared_s, own_s = Cadence().switch_s, self.cadence.switch_s
        if known.by_agent:
            declared_s, own_s = declared_s * DeliveryModel().agent_rounds, own_s * self.delivery.agent_rounds
        tolerance_s = known.truth.tolerance_s + max(0.0, own_s - declared_s)
        return replace(known, truth=replace(known.truth, tolerance_s=tolerance_s))

    @property
    def slice_s(self) -> float:
        """Return the time processed in one step: over days a page's hold time, otherwise a tenth of a cadence."""
        return _DAYS_SLICE_S if self.days else max(1.0, self.cadence.switch_s / 10)


_METRIC = "cnp_handled"
_NAMES = re.compile(r"[^\s,:;]+")


class NamedSenders(NamedTuple):
    """The number of senders in other pods, of those named by findings, and of other hosts named by findings."""

    caused: int = 0
    named: int = 0
    others: int = 0


def named_senders(faults: Iterable[InjectedFault], findings: Iterable[Finding], hosts: Collection[str]) -> NamedSenders:
    """Return the numbers of senders of all incasts and of named hosts; a missed incast names none."""
    incasts = [one for one in findings if _is_incast(one)]
    caused = named = others = 0
    for fault in faults:
        if fault.senders:
            own = {name for one in incasts if _is_of(one, fault.truths[0]) for name in _named_by(one, hosts)}
            caused += len(fault.senders)
            named += len(own & set(fault.senders))
            others += len(own - set(fault.senders))
    return NamedSenders(caused, named, others)


def _is_incast(finding: Finding) -> bool:
    return finding.condition is Condition.CONGESTION_INCAST and finding.status is not Status.RETRACTED


def _is_of(finding: Finding, truth: Truth) -> bool:
    at = finding.subject.a
    is_there = at is not None and (at.device, at.port) == (truth.device, truth.port)
    return is_there and truth.is_during(finding.started_at_ns)


def _named_by(finding: Finding, hosts: Collection[str]) -> Iterator[str]:
    """Yield the hosts that the senders' evidence names; the evidence is a sentence for display."""
    for evidence in finding.evidence:
        if evidence.metric == _METRIC:
            names = _NAMES.findall(evidence.statement)
            yield from (name for name in names if name in hosts and name != _receiver(finding))


def _receiver(finding: Finding) -> str:
    return finding.subject.a.device if finding.subject.a is not None else ""


_PAGE_LIMIT_NS = 75 * 10**9
"""The default hold of a page, and a minute for its parent, if it had one, to end."""


@dataclass(slots=True)
class CriticalFinding:
    """A finding that was open and CRITICAL: since when by the arrival clock, its parents, and its page."""

    since_ns: int
    parents: set[str] = field(default_factory=set)
    """The ids of its parents, and an empty one if it had none for a time."""
    paged_ns: int = 0
    """The time of its page, or of the page that it joined; 0 without one."""


@dataclass(slots=True)
class Outcome:
    """The findings of one trial and their score. `pages` has finding ids with the time of their page."""

    spec: TrialSpec
    injections: list[InjectedFault]
    score: Score
    findings: dict[str, Finding]
    first_published_ns: dict[str, int]
    """The time of each finding's first revision, by id and by the arrival clock."""
    pages: dict[str, int]
    report_delays_ns: dict[tuple[tuple[str, str], int], int]
    """The delay until the first end reports a signal loss, by (lower end of the link, time of the loss)."""
    counts: Counter[str]
    hours: float
    negative_cases: Counter[str] = field(default_factory=Counter)
    hidden: Counter[tuple[Condition, str]] = field(default_factory=Counter)
    """The number of faults that no source can show, by condition and reason."""
    hidden_faults: Sequence[HiddenFault] = ()
    shut_ports: Sequence[HiddenFault] = ()
    """Links that are down because a port was shut and no source reports it."""
    effects: Counter[Condition] = field(default_factory=Counter)
    """Findings near hidden faults and shut ports, which are not counted as false."""
    senders: NamedSenders = field(default_factory=NamedSenders)
    """The senders in other pods, for incasts."""
    criticals: Mapping[str, CriticalFinding] = field(default_factory=dict)

    def detectable_from_ns(self, truth: Truth) -> int:
        """Return the earliest time at which a fault could be detected."""
        known = next(k for i in self.injections for k in i.ground_truths if _is_same(k.truth, truth))
        return known.detectable_from_ns + (self.report_delays_ns.get(known.reported_by, 0) if known.reported_by else 0)

    def delays_s(self, condition: Condition) -> list[float]:
        """Return the times to detect, by the findings' own times, from the earliest possible detection."""
        return [
            (match.finding.detected_ns - self.detectable_from_ns(match.truth)) / 1e9
            for match in self.score.found
            if match.truth.condition is condition
        ]

    def publication_delays_s(self, condition: Condition) -> list[float]:
        """Return the times to publication, by the arrival clock, from the earliest possible detection."""
        return [
            (at_ns - self.detectable_from_ns(match.truth)) / 1e9
            for match in self.score.found
            if match.truth.condition is condition and (at_ns := self._published_ns(match.finding)) is not None
        ]

    def _published_ns(self, scored: ScoredFinding) -> int | None:
        published_ns = (
            self.first_published_ns[finding.id]
            for finding in self.findings.values()
            if finding.condition is scored.condition
            and finding.subject.id == scored.subject_id
            and finding.started_at_ns >= scored.start_ns
        )
        return min(published_ns, default=None)

    @property
    def false_pages(self) -> list[str]:
        """Return the ids of findings that paged without a fault of any condition at their place and time."""
        return [
            finding_id
            for finding_id in self.pages
            if not self._has_fault(self.findings[finding_id]) and not self._is_shut(self.findings[finding_id])
        ]

    @property
    def muted_pages(self) -> list[str]:
        """Return the ids of CRITICAL findings of faults whose page is missing or late though no fault explains them.

        The outage of a device explains its links. Missing data explains only missing data, with a page of its own; a
        parent without a fault explains nothing.
        """
        return [identity for identity, critical in self.criticals.items() if self._is_muted(identity, critical)]

    def _is_muted(self, identity: str, critical: CriticalFinding) -> bool:
        finding = self.findings[identity]
        if finding.status is Status.RETRACTED or not self._has_fault(finding):
            return False
        if critical.paged_ns and critical.paged_ns - critical.since_ns <= _PAGE_LIMIT_NS:
            return False
        parents = [self.findings[parent] for parent in critical.parents if parent]
        if not parents and not critical.paged_ns:
            return False  # it ended within its hold
        is_silence = finding.condition is Condition.TELEMETRY_STALE
        return not any(
            self._has_fault(one)
            and (one.condition is not Condition.TELEMETRY_STALE or (is_silence and self._has_own_page(one.id)))
            for one in parents
        )

    def _has_own_page(self, identity: str) -> bool:
        """Return whether a finding was critical and paged, or without a parent ended within its hold."""
        critical = self.criticals.get(identity)
        return critical is not None and (critical.paged_ns > 0 or not any(critical.parents))

    @property
    def shut_pages(self) -> list[str]:
        """Return the ids of findings that paged for a shut port that no source reports as shut."""
        pages = (self.findings[finding_id] for finding_id in self.pages)
        return [finding.id for finding in pages if self._is_shut(finding) and not self._has_fault(finding)]

    def is_effect_of_hidden(self, finding: Finding) -> bool:
        """Return True if a finding is at a fault that no source can show, or at a port that the fault affects."""
        return any(one.is_at(_ends(finding), finding.started_at_ns) for one in self.hidden_faults)

    def _is_shut(self, finding: Finding) -> bool:
        if finding.condition is not Condition.LINK_DOWN:
            return False
        return any(one.is_at(_ends(finding), finding.started_at_ns) for one in self.shut_ports)

    def _has_fault(self, finding: Finding) -> bool:
        places = {*devices_of(finding), *([finding.subject.pod] if finding.subject.is_pod else [])}
        start_ns = finding.started_at_ns
        if self.is_effect_of_hidden(finding):
            return True
        # A source with a long cadence sent its last sample long before the fault that silenced it.
        is_silence = finding.condition is Condition.TELEMETRY_STALE
        until_ns = (is_silence and finding.detected_at_ns) or start_ns
        return any(
            truth.device in places and truth.is_during(start_ns, until_ns)
            for injection in self.injections
            for truth in injection.truths
        )


def _ends(finding: Finding) -> list[Port]:
    return [Port(end.device, end.port) for end in subject_ends(finding.subject)]


def _is_same(truth: Truth, scored: Truth) -> bool:
    """Return True if a scored truth is this one or starts with it: the score merges consecutive truths of one place."""
    key = scored.condition, scored.device, scored.port, scored.start_ns
    return key == (truth.condition, truth.device, truth.port, truth.start_ns)

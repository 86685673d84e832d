"""attribute: episodes of all pods to findings, each with its cause, its severity and who is hit.

The only place that sees the fabric: decides that a device restarted or is gone, that telemetry is missing, and which
finding explains which. What to do about it is for `decide`.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import orjson
from pydantic import TypeAdapter, ValidationError

from streams.detect.attribute import cable_swaps, finality, pfc_storm_tree, recurrence
from streams.detect.attribute.blast_radius import BlastRadiusEstimator, SeverityRater
from streams.detect.attribute.case_index import LINKS, CaseIndex
from streams.detect.attribute.collapse_cause import CollapseIndex, is_collapse
from streams.detect.attribute.device_evaluation import DeviceEvaluator, SilenceCount
from streams.detect.attribute.group_summary import group_finding, group_impact, group_severity
from streams.detect.attribute.outages import Outages
from streams.detect.attribute.reevaluation import AffectedCases
from streams.detect.attribute.root_cause import cause_with_parent, in_maintenance, root_cause
from streams.detect.attribute.state import AttributeState, Case, devices_of
from streams.detect.detectors.fleet_version_drift import evaluate as fleet_version_drift
from streams.detect.evidence.deadlines import Deadlines
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import (
    Cause,
    Condition,
    Episode,
    Finding,
    Message,
    Severity,
    Status,
    Symptom,
    VersionCensus,
)
from streams.wire.stage import Output
from streams.wire.topics import FINDINGS, FINDINGS_OPEN

_CLOSED_NS = ns(3600)
"""A closed episode is kept for an hour: others of the same moment may still need it for their severity."""

_SWEEP_NS = ns(60)

_KEPT = TypeAdapter(AttributeState)


class Attribute:
    """The stage; it has one owner."""

    name = "attribute"

    def __init__(self, params: DetectParams) -> None:
        self._params = params
        self._kept = AttributeState()
        self._revisions = itertools.count(1)
        self._due = Deadlines()
        self._silences: SilenceCount | None = None
        self._look_up(Topology(Inventory()))

    def _look_up(self, topology: Topology) -> None:
        """Make all look-ups anew, over the cases that are kept."""
        self._topology = topology
        self._cases = CaseIndex(self._params, self._kept.cases, topology)
        self._outages = Outages(self._cases, topology)
        self._collapses = CollapseIndex(self._cases.findings_at, self._kept.cases.values())
        self._severities = SeverityRater(topology, self._outages, self._params.capacity_floor)
        self._reaches = BlastRadiusEstimator(topology, self._outages)
        self._devices = DeviceEvaluator(self._params, self._kept, self._cases, topology)
        self._neighbours = AffectedCases(self._kept.cases, self._cases, self._outages, self._severities, topology)

    @property
    def watermark_ns(self) -> int:
        return self._kept.watermark_ns

    def start_epoch(self, epoch: int) -> None:
        self._revisions = itertools.count((epoch << 32) + 1)

    def set_topology(self, topology: Topology) -> list[Output]:
        """Who is hit changes with the jobs: what is open is judged anew when time goes on."""
        if topology.devices is self._topology.devices:
            self._topology = topology
            self._severities.topology = topology
        else:
            self._look_up(topology)
        self._kept.to_reevaluate |= {identity: None for identity, case in self._kept.cases.items() if not case.closed}
        return []

    def process(self, batch: Sequence[Message]) -> list[Output]:
        """One by one, so that how records were fetched does not decide which revisions there are."""
        outputs: list[Output] = []
        for message in batch:
            if isinstance(message, Episode):
                if self._take(message):
                    around = self._around(message.finding)
                    outputs += self._publish({message.finding.id: None} | around)
            elif isinstance(message, VersionCensus):
                self._kept.fleet.take(message)
            elif isinstance(message, Symptom) and self._devices.add_symptom(message):
                outputs += self._publish(self._conclude([message.device]))
        return outputs

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        """What a change means for others is said when time goes on, once for all changes since; then what is over.

        A leaf's reboot is 64 changes of the same thing. A fabric in which nothing happens costs nothing here.
        """
        now_ns = self._kept.watermark_ns = max(self._kept.watermark_ns, watermark_ns)
        self._severities.now_ns = now_ns
        stirred = (self._kept.cases[identity].episode.finding for identity in self._kept.changed)
        devices = dict.fromkeys(d for f in stirred if f.condition in LINKS for d in devices_of(f))
        dirty = self._conclude(devices | self._devices.due()) | self._take_due(now_ns) | self._kept.to_reevaluate
        dirty |= self._look_at_fleet()
        dirty |= self._neighbours.affected_by(
            [self._kept.cases[identity].episode.finding for identity in self._kept.changed]
        )
        self._kept.changed, self._kept.to_reevaluate = {}, {}
        open_ = [i for i in dirty if i in self._kept.cases and not self._kept.cases[i].closed]
        stale = any(self._kept.cases[i].episode.finding.condition is Condition.TELEMETRY_STALE for i in open_)
        self._silences = self._devices.silences() if stale else None
        outputs = self._publish(sorted(open_, key=self._turn))
        self._silences = None
        if now_ns - self._kept.swept_ns >= _SWEEP_NS:
            self._forget()
        return outputs

    def _look_at_fleet(self) -> dict[str, None]:
        episodes = fleet_version_drift.step(self._params, self._kept.fleet, self._kept.watermark_ns)
        for episode in episodes:
            self._keep(episode)
        return {episode.finding.id: None for episode in episodes}

    def _turn(self, identity: str) -> tuple[bool, int, str]:
        """By when it began, whoever told first or took over since; last those whose severity is that of others."""
        own = self._kept.cases[identity].episode.finding
        group = self._cases.group_of(own)
        return group is not None and group.root_id == identity, own.started_at_ns, identity

    def _conclude(self, devices: Iterable[str]) -> dict[str, None]:
        """Let the device-wide detectors look; answers the cases of which they said something."""
        episodes = [episode for device in devices for episode in self._devices.evaluate(device)]
        for episode in episodes:
            self._keep(episode)
        return dict.fromkeys(episode.finding.id for episode in episodes)

    def _take_due(self, now_ns: int) -> dict[str, None]:
        """The cases that are due."""
        found: dict[str, None] = {}
        while (due := self._due.pop_due(now_ns)) is not None:
            _, identity = due
            self._due.cancel(identity)
            found[identity] = None
        return found

    def _schedule(self, identity: str, case: Case) -> None:
        """Judge it anew when it is final, or when the device that it went with has been back for long."""
        due_ns = finality.next_evaluation_ns(self._params, self._kept.cases, case, self._kept.watermark_ns)
        if due_ns is not None and not case.closed and due_ns > self._kept.watermark_ns:
            self._due.schedule(identity, due_ns)

    def _around(self, finding: Finding) -> dict[str, None]:
        """The storms that a storm explains, and that which explains it; the links that changed places with a link."""
        if cable_swaps.is_miscabled(finding):
            return dict.fromkeys(other.id for other in self._round(finding))
        if not pfc_storm_tree.is_storm(finding):
            return self._collapses.affected_by(finding)
        root = pfc_storm_tree.root_storm(self._cases.findings_at, finding)
        held = dict.fromkeys(storm.id for storm in pfc_storm_tree.downstream(self._cases.findings_at, finding))
        held |= self._collapses.affected_by(finding)
        more = root is not None and pfc_storm_tree.adds_victims(
            pfc_storm_tree.downstream(self._cases.findings_at, root)
        )
        return held | ({root.id: None} if root is not None and more else {})

    def _round(self, finding: Finding) -> list[Finding]:
        return cable_swaps.swap_cycle(self._kept.cases, self._cases.findings_at, self._ends, finding)

    def _ends(self, subject_id: str) -> list[str]:
        cable = self._topology.links.get(subject_id)
        return [] if cable is None else [cable.lower.device, cable.upper.device]

    def _take(self, episode: Episode) -> bool:
        """An episode's revision, unless a newer one is known."""
        finding = episode.finding
        case = self._kept.cases.get(finding.id)
        if case is not None and case.episode.finding.revision >= finding.revision:
            return False
        self._keep(episode)
        return True

    def _keep(self, episode: Episode) -> None:
        finding = episode.finding
        case = self._kept.cases.get(finding.id)
        before = None if case is None else case.episode.finding
        if case is None:
            case = self._kept.cases[finding.id] = Case(episode)
        case.episode = episode
        retracted = finding.status is Status.RETRACTED
        case.retracted_ns = (case.retracted_ns or self._kept.watermark_ns) if retracted else 0
        self._cases.add(finding)
        self._collapses.add(finding)
        if before is None or _matters(before) != _matters(finding):
            self._kept.changed[finding.id] = None
            self._outages.changed(finding)

    def _publish(self, ids: Iterable[str]) -> list[Output]:
        """The findings of these cases, where they differ from what was said."""
        outputs = []
        for identity in ids:
            case = self._kept.cases[identity]
            finding = self._finding(case)
            said = case.published
            before = None if said is None or said.final else replace(said, revision=0)
            if said is not None and (said.final or finding == before):
                self._schedule(identity, case)
                continue
            if said is None and finding.status is Status.RETRACTED:
                continue
            if said is not None and finding.status is Status.OPEN:
                finding = replace(finding, status=Status.UPDATED)
                if finding == before:
                    continue
            finding = replace(finding, revision=next(self._revisions))
            case.published = finding
            self._kept.fleet.note(finding)
            self._schedule(identity, case)
            outputs.append(Output(FINDINGS, finding))
            outputs.append(Output(FINDINGS_OPEN, None if finding.is_closed else finding, key=finding.id))
        return outputs

    def _finding(self, case: Case) -> Finding:
        """The episode with its fabric-wide context; a pure function of all cases and the topology."""
        own = case.episode.finding
        explanation = root_cause(self._params, self._cases, case.episode, self._kept.watermark_ns)
        parent, group = explanation.parent, explanation.group
        if cable_swaps.is_miscabled(own) and own.status is not Status.RETRACTED:
            own, parent = cable_swaps.assign_parent(self._kept.cases, self._round(own), own)
        if is_collapse(own) and own.status is not Status.RETRACTED:
            own, parent = self._collapses.assign_cause(self._topology, own)
        reach = self._reaches.estimate(own) if group is None else group_impact(self._reaches, group)
        radius = own.blast_radius if reach is None else reach.blast_radius(self._topology, own, self._kept.watermark_ns)
        if pfc_storm_tree.is_storm(own) and parent is None:
            own = pfc_storm_tree.with_victims(
                self._topology, own, pfc_storm_tree.downstream(self._cases.findings_at, own), radius
            )
            radius = own.blast_radius
        severity = self._severities.rate(own, self._unseen(case))
        if group is not None:
            own = group_finding(self._topology, self._cases, group)
            severity = max(severity, group_severity(self._severities, self._kept.cases, group, reach))
        times = recurrence.count_occurrences(self._kept.occurrences, own)
        said = (
            *(reach.evidence(own) if reach is not None else ()),
            *recurrence.recurrence_evidence(self._params, own, times),
        )
        return replace(
            own,
            revision=0,
            evidence=(*own.evidence, *said),
            final=finality.is_final(self._params, case, self._kept.watermark_ns),
            severity=severity,
            cause=cause_with_parent(own, parent),
            blast_radius=radius,
            parent_id=parent.id if parent is not None else "",
            occurrences=times,
            inventory_digest=self._topology.digest[:12],
            shadow=True if in_maintenance(self._topology, own) else None,
            runbook_url=f"docs/runbooks/{own.detector.replace('/', '-')}.md",
        )

    def _unseen(self, case: Case) -> bool:
        """Whether it lasts while a large share of the inventory is silent; counted when time goes on, and kept."""
        own = case.episode.finding
        if self._silences is None:
            return case.published is not None and case.published.severity is Severity.CRITICAL
        told_ns = own.detected_at_ns or own.started_at_ns
        until_ns = self._kept.watermark_ns if own.resolved_at_ns is None else own.resolved_at_ns
        enough = self._params.stale.unseen_ratio * len(self._topology.devices)
        lasts = until_ns >= told_ns + ns(self._params.stale.unseen_after_s)
        return lasts and enough > 0 and self._silences.at(told_ns) >= enough

    def _forget(self) -> None:
        """Let go of what is closed and old enough."""
        now_ns = self._kept.swept_ns = self._kept.watermark_ns
        for finding in self._kept.evict(now_ns - _CLOSED_NS, now_ns - recurrence.RETENTION_NS):
            self._cases.remove(finding)
            self._collapses.remove(finding)
            self._outages.changed(finding)

    def snapshot(self) -> bytes:
        return orjson.dumps(self._kept)

    def restore(self, data: bytes) -> None:
        try:
            self._kept = _KEPT.validate_json(data)
        except ValidationError as error:
            raise Reject(f"not a snapshot of attribute: {error}") from error
        self._look_up(self._topology)
        self._due = Deadlines()
        for identity, case in self._kept.cases.items():
            self._schedule(identity, case)


def _matters(finding: Finding) -> tuple[int, int | None, bool, Cause]:
    """What of a finding others depend on."""
    return finding.started_at_ns, finding.resolved_at_ns, finding.status is Status.RETRACTED, finding.cause

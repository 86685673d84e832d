"""The stage attribute: turns the episodes of all pods into findings with a root cause, a severity and a blast radius.

Only this stage receives the whole fabric: it evaluates devices and versions, and finds the parents of findings. A
detector's own rules are in its `FabricSide`. `decide` chooses the action for a finding.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from functools import cache

import orjson
from pydantic import TypeAdapter, ValidationError

from streams.detect.attribute.case_index import CaseIndex
from streams.detect.attribute.device_evaluation import DeviceEvaluator
from streams.detect.attribute.impact import (
    BlastRadiusEstimator,
    group_finding,
    group_impact,
    severity_of_children,
    takes_more_than_the_floor,
)
from streams.detect.attribute.outages import Outages
from streams.detect.attribute.reevaluation import AffectedCases, Finality
from streams.detect.attribute.root_cause import cause_with_parent, root_cause
from streams.detect.attribute.severity import SeverityRater
from streams.detect.attribute.sides import EFFECTS, FABRIC_EVALUATORS, detector_slug, fabric_side
from streams.detect.attribute.state import RETENTION_NS, AttributeState, Case, count_occurrences, recurrence_evidence
from streams.detect.evidence.deadlines import Deadlines
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.port_readers import count_read_ends
from streams.detect.evidence.revisions import revision_due_ns
from streams.detect.fabric_side import LINK_LOSS, devices_of, in_maintenance, planned_until_ns
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.instrument.shipped import runbook_path
from streams.wire.errors import Reject
from streams.wire.models import (
    Cause,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Message,
    PortReaders,
    Severity,
    Status,
    Symptom,
)
from streams.wire.stage import Output, refuse_unknown_fields
from streams.wire.topics import FINDINGS, FINDINGS_OPEN

_RETENTION_NS = ns(3600)
"""The retention of a closed case, which may determine the severity of concurrent cases."""

_SWEEP_NS = ns(60)

_STATE = TypeAdapter(AttributeState)


class Attribute:
    """The stage; it has one owner."""

    name = "attribute"

    def __init__(self, params: DetectParams) -> None:
        self._params = params
        self._settings = params.shared
        self._finality = Finality(params)
        self._state = AttributeState()
        self._revisions = itertools.count(1)
        self._deadlines = Deadlines()
        self._evaluator_states()
        self._build_lookups(Topology(Inventory()))

    def _evaluator_states(self) -> None:
        """Create the states of the fabric-wide detectors, or read them from a restored snapshot."""
        states = self._state.evaluators
        for detector, evaluator in FABRIC_EVALUATORS:
            known = states.get(detector.slug)
            states[detector.slug] = (
                evaluator.new_state() if known is None else TypeAdapter(evaluator.new_state).validate_python(known)
            )

    def _build_lookups(self, topology: Topology) -> None:
        cases = self._state.cases
        self._topology = topology
        self._index = CaseIndex(self._params, cases, topology, self._state.watermark_ns)
        self._outages = Outages(self._index, topology)
        self._severities = SeverityRater(self._params, self._index, self._outages, cases)
        self._severities.watermark_ns = self._state.watermark_ns
        self._estimator = BlastRadiusEstimator(topology, self._outages)
        self._devices = DeviceEvaluator(self._params, self._state, self._index, topology)
        self._affected = AffectedCases(cases, self._index, self._outages, self._severities, topology)

    @property
    def watermark_ns(self) -> int:
        return self._state.watermark_ns

    def start_epoch(self, epoch: int) -> None:
        self._revisions = itertools.count((epoch << 32) + 1)

    def set_topology(self, topology: Topology) -> list[Output]:
        """Replace the topology; the next watermark evaluates all open cases, because their impact depends on jobs."""
        if topology.devices is self._topology.devices:
            self._topology = self._severities.topology = self._index.topology = topology
        else:
            self._build_lookups(topology)
        open_ids = (identity for identity, case in self._state.cases.items() if not case.is_closed)
        self._state.to_reevaluate |= dict.fromkeys(open_ids)
        return []

    def process(self, batch: Sequence[Message]) -> list[Output]:
        """Process messages one by one, so that the published revisions do not depend on the batches of a fetch."""
        outputs: list[Output] = []
        for message in batch:
            if isinstance(message, Episode):
                if self._add_newer(message):
                    outputs += self._publish({message.finding.id: None} | self._affected_by_rule(message.finding))
            elif isinstance(message, Symptom) and not message.port:
                if self._devices.add_symptom(message):
                    outputs += self._publish(self._evaluate_devices([message.device]))
            elif isinstance(message, PortReaders):
                self._state.port_readers.add(message)
            else:
                for detector, evaluator in FABRIC_EVALUATORS:
                    evaluator.on_message(self._state.evaluators[detector.slug], message)
        return outputs

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        """Evaluate the changes since the last watermark together, and the cases that are final.

        The reboot of a leaf changes 64 cases at once. A fabric without changes costs nothing here.
        """
        now_ns = self._state.watermark_ns = max(self._state.watermark_ns, watermark_ns)
        self._severities.watermark_ns = self._index.groups.watermark_ns = now_ns
        due = self._deadlines.pop_all(now_ns)
        self._end_maintenances(due)
        changed = [self._index.finding(identity) for identity in self._state.changed]
        lost_links = (finding for finding in changed if fabric_side(finding).loss in LINK_LOSS)
        devices = dict.fromkeys(device for finding in lost_links for device in devices_of(finding))
        ids = self._evaluate_devices(devices | self._devices.pop_due()) | due
        ids |= self._state.to_reevaluate | self._evaluate_fabric()
        ids |= self._affected.affected_by([self._index.finding(identity) for identity in self._state.changed])
        self._state.changed, self._state.to_reevaluate = {}, {}
        cases = self._state.cases
        open_ids = [identity for identity in ids if identity in cases and not cases[identity].is_closed]
        silent = cache(self._devices.count_silent)  # computed at its first use
        self._severities.silent_devices = lambda at_ns: silent().at(at_ns)
        outputs = self._publish(sorted(open_ids, key=self._publication_order))
        self._severities.silent_devices = None
        if now_ns - self._state.swept_ns >= _SWEEP_NS:
            self._evict()
        return outputs

    def _end_maintenances(self, ids: Iterable[str]) -> None:
        """Move the cases that outlast their maintenance to the groups of faults."""
        for identity in ids:
            if identity in self._state.cases:
                groups, finding = self._index.groups, self._index.finding(identity)
                planned = groups.keys_of(identity)
                groups.add(finding)
                if groups.keys_of(identity) != planned:
                    self._state.changed[identity] = None

    def _evaluate_fabric(self) -> dict[str, None]:
        """Run the fabric-wide detectors; return the ids of the cases that changed."""
        ids: dict[str, None] = {}
        for detector, evaluator in FABRIC_EVALUATORS:
            arguments = (
                self._params.section(detector), detector.ledger(self._settings, self._state.watermark_ns),
                self._state.evaluators[detector.slug], self._topology,
            )  # fmt: skip
            for episode in evaluator.evaluate(*arguments) if evaluator.evaluate is not None else ():
                self._set_episode(episode)
                ids[episode.finding.id] = None
            if evaluator.incomplete is not None:
                ids |= dict.fromkeys(evaluator.incomplete(*arguments))
        return ids

    def _evaluate_devices(self, devices: Iterable[str]) -> dict[str, None]:
        """Run the detectors of whole devices; return the ids of the cases that changed."""
        episodes = [episode for device in devices for episode in self._devices.evaluate(device)]
        for episode in episodes:
            self._set_episode(episode)
        return dict.fromkeys(episode.finding.id for episode in episodes)

    def _publication_order(self, identity: str) -> tuple[bool, int, str]:
        """Return the sort key: by start time; roots of groups last, because their members determine their severity."""
        finding = self._index.finding(identity)
        group = self._index.groups.group_of(finding)
        return group is not None and group.root_id == identity, finding.started_at_ns, identity

    def _schedule(self, identity: str, case: Case, revision_ns: int = FOREVER) -> None:
        """Schedule the next evaluation of a case; `revision_ns` is the time of a revision that is not due yet."""
        now_ns = self._state.watermark_ns
        finding = case.episode.finding
        planned_ns = planned_until_ns(self._topology, finding, fabric_side(finding))
        times = self._finality.next_evaluation_ns(self._state.cases, case, now_ns), revision_ns, planned_ns
        due_ns = min((at_ns for at_ns in times if at_ns is not None and at_ns > now_ns), default=FOREVER)
        if due_ns != FOREVER and not case.is_closed:
            self._deadlines.schedule(identity, due_ns)

    def _affected_by_rule(self, changed: Finding) -> dict[str, None]:
        """Return the cases that change with a finding by the rules of their detectors."""
        return {identity: None for affected_by in EFFECTS for identity in affected_by(changed, self._index)}

    def _add_newer(self, episode: Episode) -> bool:
        """Record the revision of an episode unless a newer one is known."""
        finding = episode.finding
        case = self._state.cases.get(finding.id)
        if case is not None and case.episode.finding.revision >= finding.revision:
            return False
        self._set_episode(episode)
        return True

    def _set_episode(self, episode: Episode) -> None:
        finding = episode.finding
        case = self._state.cases.get(finding.id)
        previous = None if case is None else case.episode.finding
        if case is None:
            case = self._state.cases[finding.id] = Case(episode)
        case.episode = episode
        is_retracted = finding.status is Status.RETRACTED
        case.retracted_ns = (case.retracted_ns or self._state.watermark_ns) if is_retracted else 0
        self._index.add(finding)
        if previous is None or _effect(previous) != _effect(finding):
            self._state.changed[finding.id] = None
            self._outages.invalidate(finding)

    def _publish(self, ids: Iterable[str]) -> list[Output]:
        """Return the findings of these cases whose readers need another revision by now; the parent of a critical one
        is evaluated after it.
        """
        outputs: list[Output] = []
        roots: dict[str, None] = {}
        now_ns = self._state.watermark_ns
        for identity in ids:
            case = self._state.cases[identity]
            finding = self._new_revision(case)
            due_ns = FOREVER if finding is None else _revision_ns(case, finding)
            if finding is not None and due_ns <= now_ns:
                finding = replace(finding, revision=next(self._revisions))
                if finding.severity is Severity.CRITICAL and self._is_less_severe(finding.parent_id):
                    roots[finding.parent_id] = None
                case.published, case.published_ns = finding, now_ns
                for detector, evaluator in FABRIC_EVALUATORS:
                    if evaluator.on_published is not None:
                        evaluator.on_published(self._state.evaluators[detector.slug], finding)
                outputs.append(Output(FINDINGS, finding))
                outputs.append(Output(FINDINGS_OPEN, None if finding.is_closed else finding, key=finding.id))
            self._schedule(identity, case, due_ns)
        return outputs + self._publish(roots) if roots else outputs

    def _is_less_severe(self, parent_id: str) -> bool:
        """Return whether a finding is open and not critical."""
        parent = self._state.cases.get(parent_id)
        published = None if parent is None else parent.published
        return published is not None and not published.is_closed and published.severity is not Severity.CRITICAL

    def _new_revision(self, case: Case) -> Finding | None:
        """Return the next revision of a case; None if nothing changed or a retracted episode was never published."""
        finding = self._evaluate(case)
        published = case.published
        if published is None:
            return None if finding.status is Status.RETRACTED else finding
        if published.final or finding == (last := replace(published, revision=0)):
            return None
        if finding.status is Status.OPEN:
            finding = replace(finding, status=Status.UPDATED)
        return None if finding == last else finding

    def _evaluate(self, case: Case) -> Finding:
        """Return the finding of a case in its context: a pure function of all cases and the topology."""
        episode, now_ns = case.episode, self._state.watermark_ns
        finding, side = episode.finding, fabric_side(episode.finding)
        if side.is_shown_by_one_end:
            finding = count_read_ends(self._state.port_readers, finding, self._topology)
        if side.evaluator is not None and side.evaluator.complete is not None:
            finding = side.evaluator.complete(self._state.evaluators[detector_slug(finding)], finding, self._topology)
        parent, group, members = root_cause(self._params, self._index, episode, now_ns)
        impact = self._estimator.estimate(finding) if group is None else group_impact(self._estimator, group)
        if impact is not None:
            finding = replace(finding, blast_radius=impact.blast_radius(self._topology, finding, now_ns))
        if side.explain is not None and parent is None and finding.status is not Status.RETRACTED:
            finding, parent = side.explain(finding, self._index)
        severity = self._severities.rate(finding)
        radius = finding.blast_radius
        if group is not None:
            finding = group_finding(self._topology, self._index.groups, group)
            if takes_more_than_the_floor(self._severities.floor, group, impact):
                severity = Severity.CRITICAL
        if members:
            severity = max(severity, severity_of_children(self._state.cases, finding.id, members))
        if (planes := self._severities.planes.of_finding(case.episode.finding, now_ns)) is not None:
            finding = planes.complete(finding)
        left = self._left_inventory(case, finding)
        if left:
            finding = replace(finding, status=Status.RESOLVED, resolved_at_ns=max(now_ns, finding.started_at_ns))
        count = count_occurrences(self._state.occurrences, finding)
        evidence = [*finding.evidence, *(impact.evidence(finding) if impact is not None else ())]
        evidence += self._severities.lost_uplinks(finding) if severity is Severity.CRITICAL and parent is None else ()
        evidence += [Evidence(f"{device} left the inventory", at=Endpoint(device)) for device in left]
        return replace(
            finding,
            revision=0,
            evidence=(*evidence, *recurrence_evidence(self._params, finding, count)),
            final=bool(left) or self._finality.is_final(case, now_ns),
            severity=severity,
            cause=cause_with_parent(finding, parent),
            blast_radius=radius,
            parent_id=parent.id if parent is not None else "",
            occurrences=count,
            inventory_digest=self._topology.digest[:12],
            shadow=True if in_maintenance(self._topology, finding, side, now_ns) else None,
            runbook_url=runbook_path(finding.detector),
        )

    def _left_inventory(self, case: Case, finding: Finding) -> list[str]:
        """Return the devices of an open finding that were removed from the inventory, which closes the finding."""
        devices = devices_of(finding)
        known = [device for device in devices if device in self._topology.devices]
        if not set(known) <= set(case.listed):
            case.listed = tuple(sorted({*case.listed, *known}))
        if finding.resolved_at_ns is not None or finding.status is Status.RETRACTED:
            return []
        return [device for device in devices if device in case.listed and device not in known]

    def _evict(self) -> None:
        now_ns = self._state.swept_ns = self._state.watermark_ns
        for finding in self._state.evict(now_ns - _RETENTION_NS, now_ns - RETENTION_NS):
            self._index.remove(finding)
            self._outages.invalidate(finding)

    def snapshot(self) -> bytes:
        parts = {one.name: getattr(self._state, one.name) for one in fields(self._state)}
        return orjson.dumps(parts | {"port_readers": self._state.port_readers.dump()})

    def restore(self, data: bytes) -> None:
        before = self._state
        try:
            refuse_unknown_fields("attribute", AttributeState, orjson.loads(data))
            self._state = _STATE.validate_json(data)
            self._evaluator_states()
            self.snapshot()  # integers beyond 64 bits can be read but not written; fail now
        except (orjson.JSONDecodeError, ValidationError, TypeError) as error:
            self._state = before
            raise Reject(f"not a snapshot of attribute: {error}") from error
        self._build_lookups(self._topology)
        self._deadlines = Deadlines()
        for identity, case in self._state.cases.items():
            self._schedule(identity, case)

    def limit_time(self, limit_ns: int) -> None:
        """Return to an earlier watermark; earlier conclusions stay."""
        state = self._state
        state.swept_ns = min(state.swept_ns, limit_ns)
        state.watermark_ns = self._severities.watermark_ns = min(state.watermark_ns, limit_ns)
        self._index.groups.watermark_ns = state.watermark_ns


def _revision_ns(case: Case, finding: Finding) -> int:
    """Return the watermark from which readers need a revision of a case; 0 for the first."""
    return 0 if case.published is None else revision_due_ns(case.published, finding, case.published_ns)


def _effect(finding: Finding) -> tuple[int, int | None, bool, Cause]:
    """Return the fields of a finding on which other findings depend."""
    return finding.started_at_ns, finding.resolved_at_ns, finding.status is Status.RETRACTED, finding.cause

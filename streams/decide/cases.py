"""Tracks the findings of `decide`, schedules decisions on them, and withdraws remediations of ended findings."""

import heapq

from streams.decide.evaluation import Evaluation
from streams.decide.life_cycle import NOT_BEGUN, Event
from streams.decide.params import DecideParams
from streams.decide.remedies import Remedies
from streams.decide.state import Case, DecideState, Ended, Remedy
from streams.wire.models import Finding, Status
from streams.wire.models import RemediationState as State

_ENDED_NS = 86_400_000_000_000
"""A finding is retained for a day after its final revision, so that late revisions are recognised."""


class Cases:
    """The open findings, each with its remediation, and the schedule of their decisions."""

    def __init__(self, params: DecideParams, state: DecideState, remedies: Remedies, evaluation: Evaluation) -> None:
        self._params, self._state, self._remedies, self._evaluation = params, state, remedies, evaluation
        self._due: list[tuple[int, str]] = []
        for case in state.cases.values():
            self.schedule(case.finding.id, case.due_ns)

    def process(self, finding: Finding) -> None:
        """Process a revision of a finding; a revision that is not newer than the last has no effect."""
        state = self._state
        case, ended = state.cases.get(finding.id), state.ended.get(finding.id)
        known = case.finding.revision if case is not None else ended.revision if ended is not None else 0
        if finding.revision <= known:
            return
        if case is None:
            due_ns = max(finding.started_at_ns, finding.detected_at_ns or 0) + round(self._params.settle_s * 1e9)
            case = state.cases[finding.id] = Case(finding, due_ns, self._remedies.of_finding(finding.id))
        case.finding = finding
        remedy = state.remedies.get(case.remedy)
        if remedy is not None and (remedy.finding is None or remedy.finding.id == finding.id):
            remedy.finding = finding
        self.schedule(finding.id, case.due_ns)
        self._evaluation.add_finding(finding)
        if finding.is_closed or finding.parent_id:
            self._withdraw(case, remedy)
        if finding.final or finding.status is Status.RETRACTED:
            del state.cases[finding.id]
            state.ended[finding.id] = Ended(finding.revision, max(state.watermark_ns, finding.observed_at_ns))

    def schedule(self, finding_id: str, at_ns: int) -> None:
        """Schedule the next decision on a finding."""
        heapq.heappush(self._due, (at_ns, finding_id))

    def pop_due(self, now_ns: int) -> list[Case]:
        """Return the cases that are due, each once, and remove them from the schedule."""
        due: dict[str, Case] = {}
        while self._due and self._due[0][0] <= now_ns:
            case = self._state.cases.get(heapq.heappop(self._due)[1])
            if case is not None:
                due[case.finding.id] = case
        return list(due.values())

    def has_open(self, remedy: Remedy) -> bool:
        """Return whether any finding of a remediation is open."""
        cases = (self._state.cases.get(identity) for identity in remedy.record.finding_ids)
        return any(case is not None and not case.finding.is_closed for case in cases)

    def prune(self, now_ns: int) -> None:
        """Evict the findings that ended a day ago, and their attempt numbers."""
        used = {remedy.record.finding_ids[0] for remedy in self._state.remedies.values()}
        for identity, ended in list(self._state.ended.items()):
            if ended.at_ns + _ENDED_NS <= now_ns and identity not in used:
                del self._state.ended[identity]
                self._state.attempts.pop(identity, None)

    def _withdraw(self, case: Case, remedy: Remedy | None) -> None:
        """End a remediation that was not carried out, because its finding ended or has a parent."""
        finding = case.finding
        if remedy is None or (remedy.finding is not None and finding.id != remedy.finding.id):
            return
        is_failed = remedy.state is State.ESCALATED and not remedy.is_out and not remedy.waits_for_person
        if remedy.state in NOT_BEGUN or is_failed:
            self.withdraw(remedy, finding)

    def withdraw(self, remedy: Remedy, finding: Finding, reason: str = "") -> None:
        """End a remediation together with its finding; other findings that joined it are decided again."""
        ended = f"{finding.detector} is {finding.status.name.lower()}"
        child = f", child of {finding.parent_id}" if finding.parent_id else ""
        self._remedies.move(remedy, Event.WITHDRAW, reason or ended + child)
        for identity in remedy.record.finding_ids:
            case = self._state.cases.get(identity)
            if identity == finding.id and case is not None:
                case.decided = None
            elif case is not None and case.remedy == remedy.id:
                case.remedy, case.decided = "", None
                self.schedule(identity, case.due_ns)

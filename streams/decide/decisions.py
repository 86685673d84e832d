"""Decides the remediations of findings: the action of the policy, the order of decisions, the next attempt, a relapse.

Decides on a finding after the settling time, and only if it has no parent. Decides again when its severity, cause or
policy action changes, and evaluates denied decisions again. A different result is another attempt with another id.
"""

import heapq
from dataclasses import dataclass, replace

from streams.decide import guards
from streams.decide.evaluation import Evaluation
from streams.decide.fabric_view import FabricView
from streams.decide.guard_context import isolated_links
from streams.decide.guards import Decision
from streams.decide.life_cycle import EVALUATED_AGAIN, NOT_BEGUN, Event
from streams.decide.optimizer import Candidate, select
from streams.decide.params import DecideParams
from streams.decide.policy import Policy, PolicyAction
from streams.decide.remedies import Remedies
from streams.decide.state import ACTOR, Case, DecideState, Ended, Remedy
from streams.fabric.topology import TopologyLink
from streams.wire.models import Action, Condition, Finding, Severity, Status, Verdict
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


_MAX_EVALUATED = 200
"""The most denied decisions that are evaluated again at once; each takes some milliseconds. Half of them are the most
urgent; the others take turns, so that urgent decisions that stay denied do not block them."""

_UNSOUND = frozenset({Condition.PATH_LOSS})
"""Findings that the policy may only observe; for a link on probation they prove that the repair did not help."""


@dataclass(frozen=True, slots=True)
class _Review:
    """A finding whose remediation is to be decided; `remedy` is its present remediation, or None."""

    case: Case
    rule: PolicyAction
    remedy: Remedy | None
    penalty: float
    link: TopologyLink | None


class Decisions:
    """Decides on cases and proposals, and revokes approvals."""

    def __init__(
        self, params: DecideParams, policy: Policy, fabric: FabricView, state: DecideState, evaluation: Evaluation,
        remedies: Remedies, cases: Cases,
    ) -> None:  # fmt: skip
        self._params, self._policy, self._fabric, self._state = params, policy, fabric, state
        self._evaluation, self._remedies, self._cases = evaluation, remedies, cases

    def decide_due(self, now_ns: int) -> None:
        """Decide the findings that are due or changed, most urgent first."""
        reviews = [review for case in self._cases.pop_due(now_ns) if (review := self._review(case)) is not None]
        for review in self._ordered(reviews):
            self._decide_case(review)

    def decide_denied(self) -> None:
        """Evaluate the guards again for denied and failed remediations, most urgent first."""
        denied = [
            remedy
            for remedy in self._remedies.in_state(*EVALUATED_AGAIN)
            if remedy.finding is not None and not remedy.rejected
        ]
        denied.sort(key=lambda remedy: (-(remedy.record.penalty or 0), remedy.since_ns, remedy.id))
        half = _MAX_EVALUATED // 2
        worst, others = denied[:half], denied[half:]
        start = self._state.evaluated_from % len(others) if len(others) > half else 0
        self._state.evaluated_from = start + half if len(others) > half else 0
        for remedy in (*worst, *(others[start:] + others[:start])[:half]):
            self._decide_again(remedy)

    def revoke_denied(self) -> None:
        """Revoke the approvals that the guards deny now. Caps, rate, budget and cool-down already count it."""
        for remedy in self._remedies.in_state(State.APPROVED):
            if (decision := self._evaluation.denial(remedy)) is not None:
                self._remedies.move(
                    remedy, Event.REVOKE, f"revoked by {decision.constraint}", constraint=decision.constraint,
                    constraint_limit=decision.limit, constraint_observed=decision.observed, guard=decision.guard,
                )  # fmt: skip

    def decide(self, remedy: Remedy, decision: Decision | None = None, actor: str = ACTOR) -> None:
        """Publish the guards' decision on a proposal, or on a remediation that waits for approval."""
        finding = remedy.finding
        assert finding is not None
        decision = decision or self._evaluation.evaluate(remedy)
        remedy.pod = self._evaluation.pod_of(remedy)
        reason = f"{finding.summary} ({_nth(finding.occurrences or 1)} {finding.detector} in 28 days)"
        self._remedies.decide(remedy, decision, reason, actor)

    def next_attempt(self, remedy: Remedy, finding: Finding, action: Action, hint: str) -> Remedy:
        """Return the next attempt, which replaces this one."""
        attempt = self._propose(finding, action, hint, remedy)
        self._remedies.move(remedy, Event.CHANGE, f"evaluated again as {attempt.id}")
        return attempt

    def _propose(self, finding: Finding, action: Action, hint: str, former: Remedy | None) -> Remedy:
        """Return a proposal for a finding, which adopts the findings of the former attempt."""
        target = self._fabric.target(finding, action)
        attempt = self._remedies.propose(finding, target, action, hint, _penalty(finding), former)
        for identity in attempt.record.finding_ids:
            case = self._state.cases.get(identity)
            if case is not None and (identity == finding.id or (former is not None and case.remedy == former.id)):
                case.remedy = attempt.id
        return attempt

    def _review(self, case: Case) -> _Review | None:
        """Return the review of a finding; None if nothing is to be decided or nothing changed."""
        finding = case.finding
        if finding.parent_id or finding.is_closed or finding.shadow or finding.severity is Severity.INFO:
            return None
        remedy = self._state.remedies.get(case.remedy)
        rule = self._rule(finding, remedy)
        if rule is None:
            return None
        if rule.next_ns is not None:
            self._cases.schedule(finding.id, rule.next_ns)
        watched = self._remedies.on_probation(finding.subject.id) if finding.condition in _UNSOUND else None
        if watched is not None and finding.started_at_ns > watched.since_ns:
            rule = replace(rule, action=Action.DRAIN_LINK)
        review = _Review(case, rule, remedy, _penalty(finding), self._fabric.link(finding))
        if remedy is not None and remedy.state is State.PROBATION:
            return review if finding.observed_at_ns > remedy.since_ns else None
        if case.decided == (rule.action, finding.severity, finding.cause):
            return None
        return review

    def _rule(self, finding: Finding, remedy: Remedy | None) -> PolicyAction | None:
        """Return the action of the policy after the attempts that had no effect."""
        attempts = {remedy.record.action: remedy.failures + remedy.relapses} if remedy is not None else {}
        return self._policy.action_for(finding, self._state.watermark_ns, attempts)

    def _ordered(self, reviews: list[_Review]) -> list[_Review]:
        """Return links that fit together first, then the others, both by descending penalty (CorrOpt)."""
        reviews.sort(key=lambda review: (-review.penalty, review.case.finding.id))
        capacity = self._fabric.capacity
        numbers = {
            number: review
            for review in reviews
            if review.rule.action in guards.ISOLATES
            and review.link is not None
            and (number := capacity.number_of(review.link)) is not None
        }
        if len(numbers) < 2:
            return reviews
        context = self._evaluation.context()
        for number in numbers:
            context.current_capacity(number)
        candidates = [Candidate(number, review.penalty) for number, review in numbers.items()]
        floor, checks = self._params.capacity_floor, self._params.optimizer_checks
        selection = select(capacity, candidates, floor, checks, isolated_links(context))
        waiting = {numbers[candidate.link].case.finding.id for candidate in selection.waiting}
        return sorted(reviews, key=lambda review: review.case.finding.id in waiting)

    def _decide_case(self, review: _Review) -> None:
        case, finding, rule, remedy = review.case, review.case.finding, review.rule, review.remedy
        case.decided = rule.action, finding.severity, finding.cause
        if remedy is not None and remedy.state is State.PROBATION:
            self._relapse(remedy, case, rule)
            return
        target = self._fabric.target(finding, rule.action)
        if rule.action in guards.ISOLATES and self._is_isolated(review, target.id):
            if remedy is not None and remedy.id != case.remedy and remedy.state in NOT_BEGUN:
                self._cases.withdraw(remedy, finding, f"{finding.detector} is part of {case.remedy}")
            return
        if remedy is not None:
            if remedy.state not in NOT_BEGUN:
                return
            if remedy.state is State.APPROVED and remedy.record.action is rule.action:
                return
            attempt = self.next_attempt(remedy, finding, rule.action, rule.hint)
        else:
            attempt = self._propose(finding, rule.action, rule.hint, None)
        self.decide(attempt)

    def _is_isolated(self, review: _Review, target_id: str) -> bool:
        """Return whether a target has a remediation already; on probation it relapses, else the finding joins it."""
        case, finding = review.case, review.case.finding
        watched = self._remedies.on_probation(target_id)
        if watched is not None and finding.started_at_ns > watched.since_ns:
            self._relapse(watched, case, review.rule)
            return True
        other = self._remedies.isolating(target_id) or self._remedies.waiting_for_person(target_id)
        if other is not None and other is not review.remedy:
            if other.waits_for_person:
                other.finding = finding
            self._remedies.join(other, finding)
            case.remedy = other.id
        return other is not None

    def _decide_again(self, remedy: Remedy) -> None:
        """Evaluate the guards again; a remediation that they no longer deny is decided in the next attempt."""
        state, finding = remedy.state, remedy.finding
        assert finding is not None
        if state is State.FAILED and (finding.is_closed or finding.parent_id):
            self._cases.withdraw(remedy, finding)  # the finding ended during the attempt
            return
        if state is State.FAILED and remedy.failures >= self._params.max_attempts:
            return
        if remedy.record.action in guards.ISOLATES and self._remedies.isolating(remedy.target_id) is not None:
            return
        decision = self._evaluation.evaluate(remedy)
        if state is State.PROPOSED or (state is State.WAITING and decision.verdict is not Verdict.NEEDS_APPROVAL):
            self.decide(remedy, decision)
        elif state in (State.DENIED, State.FAILED) and decision.verdict is not Verdict.DENIED:
            attempt = self.next_attempt(remedy, finding, remedy.record.action, remedy.policy_hint)
            self.decide(attempt)  # a person's approval is for one attempt

    def _relapse(self, remedy: Remedy, case: Case, rule: PolicyAction) -> None:
        """Drain a target at once if its fault returns during probation, because the repair did not help."""
        finding = case.finding
        remedy.relapses += 1
        remedy.finding = finding
        reason = f"relapse {remedy.relapses} on probation: {finding.summary}; the repair did not help"
        following = self._after_relapse(remedy, finding, rule)
        if following is None:
            case.remedy = remedy.id
            self._remedies.hints.next_step(remedy)
            self._remedies.move(remedy, Event.LAST_RELAPSE, f"{reason}; a person must decide")
            return
        action, hint, former = following
        attempt = self._propose(finding, action, hint, former)
        if former is not None:
            self._remedies.hints.next_step(attempt)
        self._remedies.move(remedy, Event.RELAPSE, reason)
        self.decide(attempt)

    def _after_relapse(
        self, remedy: Remedy, finding: Finding, rule: PolicyAction
    ) -> tuple[Action, str, Remedy | None] | None:
        """Return the action after a relapse, its hint, and the former attempt; None if a person must decide."""
        if rule.action in guards.ISOLATES and remedy.record.action in guards.ISOLATES:
            remedy.is_relapse = True
            if remedy.relapses >= self._params.max_relapses:
                return None
            is_host = remedy.record.action in guards.TAKES_HOST_OUT
            return Action.CORDON_HOST if is_host else Action.DRAIN_LINK, "", remedy
        again = self._rule(finding, remedy)
        if again is None:
            return None
        return again.action, again.hint, remedy if again.action is remedy.record.action else None


def _penalty(finding: Finding) -> float:
    """Return the penalty of leaving a target in service: ten for CRITICAL, times the affected jobs (choice)."""
    jobs = len(finding.blast_radius.jobs) if finding.blast_radius is not None else 0
    return (10.0 if finding.severity is Severity.CRITICAL else 1.0) * max(1, jobs)


def _nth(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"

"""Decides remediations for findings, and carries each through its life cycle (life_cycle.py).

Decides on a finding after the settling time and only if it has no parent. The guards are evaluated again when severity,
cause, controls, capacity or an answer change; another result is another attempt with another id, and no id is decided
twice. What was carried out no longer depends on its finding: a target returns to service only on a reported repair and
a qualification while it was out of service, never because it is quiet.
"""

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from streams.decide import guards
from streams.decide.capacity import Capacity
from streams.decide.controls import Controls, refusal
from streams.decide.guard_context import GuardContext, Proposal
from streams.decide.guards import Decision
from streams.decide.life_cycle import EVALUATED_AGAIN, NOT_BEGUN, Event
from streams.decide.link_states import LinkStates
from streams.decide.optimizer import Candidate, select
from streams.decide.params import DecideParams
from streams.decide.policy import Policy, PolicyAction, load_policy
from streams.decide.remedies import ACTOR, HINTS, Remedies
from streams.decide.state import Case, DecideState, Ended, Remedy
from streams.fabric.ids import Port, device_id
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.codec import from_json
from streams.wire.errors import Reject
from streams.wire.models import (
    Action,
    Cause,
    Condition,
    Control,
    ControlKind,
    Endpoint,
    Finding,
    Message,
    PortQuality,
    PortStates,
    ReadingsHeartbeat,
    Remediation,
    RemediationResult,
    Severity,
    Status,
    Subject,
    Verdict,
)
from streams.wire.models import RemediationState as State
from streams.wire.stage import Output
from streams.wire.topics import CONTROLS, Headers, Topic

if TYPE_CHECKING:
    from streams.wire.signatures import SignatureVerifier

_MAX_EVALUATED = 200
"""Denied decisions that are evaluated again at once, the worst first; a decision takes some milliseconds."""

_ENDED_NS = 86_400_000_000_000
"""A finding is recognised for a day after its final revision."""

_FIRST_HINT = {Cause.OPTIC: 1, Cause.CABLE: 2, Cause.SWITCH: 3}
"""Cause -> the place in HINTS of the part that it names."""


@dataclass(frozen=True, slots=True)
class _Review:
    """One finding whose remediation is to be decided; `remedy` is its present one, if there is one."""

    case: Case
    rule: PolicyAction
    remedy: Remedy | None
    penalty: float
    link: TopologyLink | None


class Decide:
    """The stage `decide`, which has one owner."""

    name = "decide"

    def __init__(self, params: DecideParams, policy: Policy | None = None) -> None:
        self._params = params
        self._policy = policy or load_policy()
        self._topology = Topology(Inventory())
        self._capacity = Capacity(self._topology)
        self._links = self._make_links()
        self._is_restored = False
        self._loaded = False
        self._set_state(DecideState(), itertools.count(1))

    @property
    def link_states(self) -> LinkStates:
        """The states of the links as of the last message."""
        return self._links

    def _make_links(self) -> LinkStates:
        own = self._params
        return LinkStates(own.freshness_limit_s, own.qualification, accept_unread_hosts=own.accept_unread_hosts)

    def _set_state(self, state: DecideState, revisions: "itertools.count[int]") -> None:
        self._state, self._revisions = state, revisions
        self._controls = Controls(strict=bool(self._params.trusted_keys))
        self._controls.load(state.controls)
        self._controls.loaded = self._loaded
        self._remedies = Remedies(self._params, state, revisions, self._policy.reversal_of)
        self._due: list[tuple[int, str]] = []
        self._lost: dict[str, str] = {}
        self._miscabled: dict[str, str] = {}
        for case in state.cases.values():
            self._index(case)

    @property
    def watermark_ns(self) -> int:
        return self._state.watermark_ns

    def start_epoch(self, epoch: int) -> None:
        self._set_state(self._state, itertools.count((epoch << 32) + 1))

    def set_topology(self, topology: Topology) -> list[Output]:
        self._topology = topology
        if topology.graph is not self._capacity.graph:
            self._capacity = Capacity(topology)
        self._links.set_topology(topology)
        self._state.is_changed = True
        return []

    def recover(self, batch: Sequence[Message]) -> list[Output]:
        """Fold in the controls up to their end, and without a snapshot the own remediations.

        Before this call a kill switch may exist that is not read yet, so nothing is approved.
        """
        history = [message for message in batch if isinstance(message, Remediation)]
        if not self._is_restored:
            self._remedies.recover(history)
        self._loaded = self._controls.loaded = True
        return self.process([message for message in batch if not isinstance(message, Remediation)])

    def process(self, batch: Sequence[Message]) -> list[Output]:
        self._context: GuardContext | None = None
        for message in batch:
            if isinstance(message, Finding):
                self._on_finding(message)
            elif isinstance(message, RemediationResult):
                self._remedies.on_result(message, self._is_allowed)
            elif isinstance(message, Control):
                self._on_control(message)
            elif isinstance(message, PortStates | ReadingsHeartbeat | PortQuality):
                self._links.update(message)
        return self._drain()

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        state = self._state
        if watermark_ns <= state.watermark_ns:
            return []
        now = state.watermark_ns = watermark_ns
        self._context = None
        self._links.advance(now)
        self._controls.prune(now)
        self._remedies.apply_timeouts(now)
        self._verify(now)
        is_again = state.is_changed or now - state.evaluated_ns >= round(self._params.evaluate_s * 1e9)
        if is_again:
            state.is_changed, state.evaluated_ns = False, now
            state.isolations.prune(now)
            self._prune(now)
            self._revoke_denied()
        self._review(now, is_again)
        return self._drain()

    def _drain(self) -> list[Output]:
        outputs, self._remedies.outputs = self._remedies.outputs, []
        return outputs

    def _on_finding(self, finding: Finding) -> None:
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
        self._index(case)
        if finding.is_closed or finding.parent_id:
            self._withdraw(case, remedy)
        if finding.final or finding.status is Status.RETRACTED:
            del state.cases[finding.id]
            state.ended[finding.id] = Ended(finding.revision, max(state.watermark_ns, finding.observed_at_ns))

    def _withdraw(self, case: Case, remedy: Remedy | None) -> None:
        """End what was not carried out for a finding that is over, or that another finding explains."""
        finding = case.finding
        if remedy is None or (remedy.finding is not None and finding.id != remedy.finding.id):
            return
        if remedy.state in NOT_BEGUN or (remedy.state is State.ESCALATED and not self._is_out(remedy)):
            reason = f"{finding.detector} is {finding.status.name.lower()}"
            self._remedies.move(
                remedy, Event.WITHDRAW, reason + (f", child of {finding.parent_id}" if finding.parent_id else "")
            )
            case.decided = None
            for identity in remedy.record.finding_ids:
                other = self._state.cases.get(identity)
                if other is not None and other is not case and other.remedy == remedy.id:
                    other.remedy, other.decided = "", None
                    self._index(other)

    def _is_out(self, remedy: Remedy) -> bool:
        """Return whether the target is out of service, or may be, because of this remediation."""
        return remedy.isolates or remedy.restoring

    def _on_control(self, control: Control) -> None:
        if control.kind is ControlKind.ACKNOWLEDGE or self._controls.update(control):
            return
        if control.kind in (ControlKind.APPROVE, ControlKind.REJECT, ControlKind.REPAIRED):
            self._on_answer(control)
            return
        self._state.is_changed = True
        self._context = None
        self._revoke_denied()

    def _on_answer(self, control: Control) -> None:
        """Process the answer of a person to one remediation; its repetition has no effect."""
        state, reason = self._state, control.reason or f"{control.kind.name.lower()} by {control.actor}"
        if control.until_ns is not None and control.until_ns <= state.watermark_ns:
            return
        remedy = state.remedies.get(control.subject_id) or self._remedies.of_order(control.subject_id)
        if control.kind is ControlKind.REPAIRED:
            remedy = remedy or self._remedies.isolating(control.subject_id)
        if remedy is None or control.id in remedy.handled or not control.subject_id:
            return
        if control.kind is ControlKind.REPAIRED and control.at_ns is not None and control.at_ns < remedy.since_ns:
            return
        remedy.handled.append(control.id)
        if control.kind is ControlKind.REPAIRED:
            if not self._remedies.report_repair(remedy, f"repaired: {reason}", control.actor):
                remedy.handled.remove(control.id)
        elif control.kind is ControlKind.APPROVE:
            self._approve(remedy, control.actor)
        elif remedy.state is State.WAITING:
            remedy.rejected = True
            self._remedies.move(remedy, Event.DENY, f"rejected: {reason}", control.actor, constraint="rejected")
        elif remedy.state is State.APPROVED:
            remedy.rejected = True
            self._remedies.move(remedy, Event.REVOKE, f"rejected: {reason}", control.actor, constraint="rejected")
        elif remedy.state is State.ESCALATED and not self._is_out(remedy):
            self._remedies.move(remedy, Event.TAKE_OVER, f"rejected: {reason}", control.actor)

    def _approve(self, remedy: Remedy, actor: str) -> None:
        """Evaluate the guards again with the approval of a person."""
        if remedy.finding is None or not actor:
            return
        if remedy.state is State.WAITING:
            remedy.record = replace(remedy.record, approved_by=actor)
            self._decide(remedy, self._evaluate(remedy), actor)
        elif remedy.state is State.EXPIRED or (remedy.state is State.ESCALATED and not self._is_out(remedy)):
            remedy.failures = 0
            case = self._state.cases.get(remedy.record.finding_ids[-1])
            attempt = self._next(remedy, remedy.finding, remedy.record.action, remedy.record.repair_hint)
            if case is not None:
                case.remedy = attempt.id
            attempt.record = replace(attempt.record, approved_by=actor)
            self._decide(attempt, self._evaluate(attempt), actor)

    def _verify(self, now: int) -> None:
        """Restore the targets that qualified while they were out of service, in all the time since the repair."""
        for remedy in self._remedies.in_state(State.VERIFYING):
            if now - remedy.since_ns >= round(self._params.qualification.qualify_s * 1e9) and self._qualifies(remedy):
                remedy.restoring, remedy.retry_ns = True, 0
                self._remedies.move(remedy, Event.QUALIFY, "qualified since the repair")
        is_stopped = not self._controls.loaded or self._controls.kill_switch(now) is not None
        self._remedies.issue_orders(now, is_stopped)

    def _qualifies(self, remedy: Remedy) -> bool:
        """Return whether the link, or all links of the host, are proven to be sound."""
        target = remedy.record.target
        if target.id in self._topology.links:
            return self._links.qualification(target.id).qualified
        links = self._topology.uplinks_of.get(target.a.device, ()) if target.a is not None else ()
        is_open = any(
            case.finding.id in remedy.record.finding_ids and not case.finding.is_closed
            for case in self._state.cases.values()
        )
        return bool(links) and not is_open and all(self._links.qualification(link.id).qualified for link in links)

    def _revoke_denied(self) -> None:
        """Revoke the approvals that the guards deny now; caps, rate, budget and cool-down count the approval itself."""
        for remedy in self._remedies.in_state(State.APPROVED):
            if (decision := self._denial(remedy)) is not None:
                self._remedies.move(
                    remedy, Event.REVOKE, f"revoked by {decision.constraint}", constraint=decision.constraint,
                    constraint_limit=decision.limit, constraint_observed=decision.observed, guard=decision.guard,
                )  # fmt: skip

    def _is_allowed(self, remedy: Remedy) -> bool:
        return self._denial(remedy) is None

    def _denial(self, remedy: Remedy) -> Decision | None:
        """Return why an approval must not be carried out any more."""
        if remedy.record.action is Action.OBSERVE:
            return None
        decision = self._evaluate(remedy, is_counted=True)
        return None if decision.verdict is Verdict.APPROVED else decision

    def _review(self, now: int, is_again: bool) -> None:
        """Decide the findings that are due or changed, and again what the guards denied; the worst first."""
        reviews: dict[str, _Review] = {}
        while self._due and self._due[0][0] <= now:
            case = self._state.cases.get(heapq.heappop(self._due)[1])
            if case is not None and (review := self._needs_decision(case)) is not None:
                reviews[case.finding.id] = review
        for review in self._ordered(list(reviews.values())):
            self._decide_case(review)
        if is_again:
            again = [
                remedy
                for remedy in self._remedies.in_state(*EVALUATED_AGAIN)
                if remedy.finding is not None and not remedy.rejected
            ]
            again.sort(key=lambda remedy: (-(remedy.record.penalty or 0), remedy.since_ns, remedy.id))
            for remedy in again[:_MAX_EVALUATED]:
                self._decide_again(remedy)

    def _needs_decision(self, case: Case) -> _Review | None:
        """Return what is to be decided for a finding; None if nothing is, or if nothing changed."""
        finding = case.finding
        if finding.parent_id or finding.is_closed or finding.shadow or finding.severity is Severity.INFO:
            return None
        remedy, link = self._state.remedies.get(case.remedy), self._link(finding)
        rule = self._rule(finding, remedy)
        if rule is None:
            return None
        if rule.next_ns is not None:
            heapq.heappush(self._due, (rule.next_ns, finding.id))
        review = _Review(case, rule, remedy, _penalty(finding), link)
        if remedy is not None and remedy.state is State.PROBATION:
            return review if finding.observed_at_ns > remedy.since_ns else None
        if case.decided == (rule.action, finding.severity, finding.cause):
            return None
        return review

    def _rule(self, finding: Finding, remedy: Remedy | None) -> PolicyAction | None:
        """Return the action of the policy, given the attempts that had no effect."""
        attempts = {remedy.record.action: remedy.failures + remedy.relapses} if remedy is not None else {}
        return self._policy.action_for(finding, self._state.watermark_ns, attempts)

    def _ordered(self, reviews: list[_Review]) -> list[_Review]:
        """Return the links that fit together first, then the others, each with the worst penalty first (CorrOpt)."""
        reviews.sort(key=lambda review: (-review.penalty, review.case.finding.id))
        numbers = {
            number: review
            for review in reviews
            if review.rule.action in guards.ISOLATES
            and review.link is not None
            and (number := self._capacity.number_of(review.link)) is not None
        }
        if len(numbers) < 2:
            return reviews
        context = self._guard_context()
        for number in numbers:
            context.current_capacity(number)
        candidates = [Candidate(number, review.penalty) for number, review in numbers.items()]
        floor, checks = self._params.capacity_floor, self._params.optimizer_checks
        selection = select(self._capacity, candidates, floor, checks, guards.isolated_links(context))
        waiting = {numbers[candidate.link].case.finding.id for candidate in selection.waiting}
        return sorted(reviews, key=lambda review: review.case.finding.id in waiting)

    def _decide_case(self, review: _Review) -> None:
        case, finding, rule, remedy = review.case, review.case.finding, review.rule, review.remedy
        case.decided = rule.action, finding.severity, finding.cause
        isolates = rule.action in guards.ISOLATES
        if remedy is not None and remedy.state is State.PROBATION:
            self._relapse(remedy, case, rule)
            return
        if isolates:
            target_id = self._target(finding, rule.action).id
            watched = self._remedies.on_probation(target_id)
            if watched is not None and finding.started_at_ns > watched.since_ns:
                self._relapse(watched, case, rule)
                return
            other = self._remedies.isolating(target_id)
            if other is not None:
                if other is not remedy:
                    self._remedies.join(other, finding)
                    case.remedy = other.id
                return
        if remedy is not None:
            if remedy.state not in NOT_BEGUN:
                return
            if remedy.state is State.APPROVED and remedy.record.action is rule.action:
                return
            attempt = self._next(remedy, finding, rule.action, rule.hint)
        else:
            attempt = self._remedies.propose(
                finding, self._target(finding, rule.action), rule.action, rule.hint, review.penalty
            )
            attempt.hint = _FIRST_HINT.get(finding.cause, 0)
        case.remedy = attempt.id
        self._decide(attempt, self._evaluate(attempt))

    def _decide_again(self, remedy: Remedy) -> None:
        """Evaluate the guards again; what they no longer deny is decided in the next attempt."""
        state, finding = remedy.state, remedy.finding
        assert finding is not None
        if state is State.FAILED and remedy.failures >= self._params.max_attempts:
            return
        other = self._remedies.isolating(remedy.target_id)
        if other is not None and remedy.record.action in guards.ISOLATES:
            return
        decision = self._evaluate(remedy)
        if state is State.PROPOSED or (state is State.WAITING and decision.verdict is not Verdict.NEEDS_APPROVAL):
            self._decide(remedy, decision)
        elif state in (State.DENIED, State.FAILED) and decision.verdict is not Verdict.DENIED:
            attempt = self._next(remedy, finding, remedy.record.action, remedy.record.repair_hint)
            self._decide(attempt, decision)
            for identity in attempt.record.finding_ids:
                if (case := self._state.cases.get(identity)) is not None:
                    case.remedy = attempt.id

    def _relapse(self, remedy: Remedy, case: Case, rule: PolicyAction) -> None:
        """Drain a target at once whose fault is back on probation; the repair did not help."""
        remedy.relapses += 1
        finding = case.finding
        remedy.hint = min(remedy.hint + 1, len(HINTS) - 1)
        reason = f"relapse {remedy.relapses} on probation: {finding.summary}; the repair did not help"
        remedy.finding = finding
        if rule.action not in guards.ISOLATES or remedy.record.action not in guards.ISOLATES:
            again = self._rule(finding, remedy)
            if again is None:
                case.remedy = remedy.id
                self._remedies.move(remedy, Event.LAST_RELAPSE, f"{reason}; a person must decide")
                return
            self._remedies.move(remedy, Event.RELAPSE, reason)
            former = remedy if again.action is remedy.record.action else None
            attempt = self._remedies.propose(
                finding, self._target(finding, again.action), again.action, again.hint, _penalty(finding), former
            )
        elif remedy.relapses >= self._params.max_relapses:
            case.remedy = remedy.id
            remedy.is_relapse = True
            self._remedies.move(remedy, Event.LAST_RELAPSE, f"{reason}; a person must decide")
            return
        else:
            remedy.is_relapse = True
            action = Action.CORDON_HOST if remedy.record.action in guards.TAKES_HOST_OUT else Action.DRAIN_LINK
            attempt = self._remedies.propose(
                finding, self._target(finding, action), action, HINTS[remedy.hint], _penalty(finding), remedy
            )
            self._remedies.move(remedy, Event.RELAPSE, reason)
        case.remedy = attempt.id
        self._decide(attempt, self._evaluate(attempt))

    def _target(self, finding: Finding, action: Action) -> Subject:
        """Return what an action changes: the host or the link of a finding that concerns a part of it."""
        subject, end, link = finding.subject, finding.subject.a, self._link(finding)
        if action in guards.TAKES_HOST_OUT and end is not None:
            identity = device_id(end.device)
            return subject if subject.id == identity else Subject(identity, Endpoint(end.device), pod=subject.pod)
        if action in guards.TAKES_LINK_OUT and link is not None and link.id != subject.id:
            return Subject(
                link.id, Endpoint(*link.lower), Endpoint(*link.upper), link.role, link.rail, link.plane, link.pod
            )
        return subject

    def _next(self, remedy: Remedy, finding: Finding, action: Action, hint: str) -> Remedy:
        """Return the next attempt, which takes over from this one."""
        attempt = self._remedies.propose(
            finding, self._target(finding, action), action, hint, _penalty(finding), remedy
        )
        self._remedies.move(remedy, Event.CHANGE, f"evaluated again as {attempt.id}")
        return attempt

    def _decide(self, remedy: Remedy, decision: Decision, actor: str = ACTOR) -> None:
        finding = remedy.finding
        assert finding is not None
        remedy.pod = guards.isolation_of(self._proposal(remedy), self._guard_context())[1]
        reason = f"{finding.summary} ({_nth(finding.occurrences or 1)} {finding.detector} in 28 days)"
        self._remedies.decide(remedy, decision, reason, actor)

    def _evaluate(self, remedy: Remedy, *, is_counted: bool = False) -> Decision:
        context = self._guard_context()
        if remedy.record.approved_by:
            context = replace(context, approved_by=remedy.record.approved_by)
        return guards.evaluate(self._proposal(remedy), context, is_counted=is_counted)

    def _proposal(self, remedy: Remedy) -> Proposal:
        finding, record = remedy.finding, remedy.record
        assert finding is not None
        return Proposal(
            record.action, record.target, finding, self._link(finding), record.attempt, relapse=remedy.is_relapse
        )

    def _guard_context(self) -> GuardContext:
        """Return the context of the guards; a message or a new time needs a new one."""
        if self._context is None:
            now = self._state.watermark_ns
            self._context = GuardContext(
                now, self._params, self._topology, self._controls, self._links, self._state.isolations, self._capacity,
                frozenset(self._lost.values()) | frozenset(self._controls.maintained(now)),
                frozenset(self._miscabled.values()),
            )  # fmt: skip
        return self._context

    def _index(self, case: Case) -> None:
        """Schedule the next decision on a finding, and note a link or device that it reports down."""
        finding = case.finding
        heapq.heappush(self._due, (case.due_ns, finding.id))
        for conditions, noted in (
            ((Condition.LINK_DOWN, Condition.DEVICE_DOWN), self._lost),
            ((Condition.LINK_MISCABLED,), self._miscabled),
        ):
            if finding.condition in conditions:
                if finding.is_closed:
                    noted.pop(finding.id, None)
                else:
                    noted[finding.id] = finding.subject.id

    def _prune(self, now: int) -> None:
        """Evict the findings that ended a day ago, with the numbers of their attempts."""
        used = {remedy.record.finding_ids[0] for remedy in self._state.remedies.values()}
        for identity, ended in list(self._state.ended.items()):
            if ended.at_ns + _ENDED_NS <= now and identity not in used:
                del self._state.ended[identity]
                self._state.attempts.pop(identity, None)

    def _link(self, finding: Finding) -> TopologyLink | None:
        end = finding.subject.a
        return self._topology.link_at(Port(end.device, end.port)) if end and end.port else None

    def snapshot(self) -> bytes:
        self._state.links, self._state.controls = self._links.dump(), self._controls.dump()
        return self._state.to_bytes()

    def restore(self, data: bytes) -> None:
        state, links = DecideState.from_bytes(data), self._make_links()
        links.load(state.links)
        self._links, self._is_restored = links, True
        self._set_state(state, self._revisions)

    def verify(self, topic: Topic, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Raise Reject on an invalid control, and on a control or result without a required signature."""
        if self._params.trusted_keys:
            self._verifier.verify(topic, key, value, headers)
        if topic.name == CONTROLS.name and value is not None and (reason := refusal(from_json(Control, value))):
            raise Reject(reason)

    @cached_property
    def _verifier(self) -> "SignatureVerifier":
        from streams.wire.signatures import SignatureVerifier

        return SignatureVerifier(self._params.trusted_keys)


def _penalty(finding: Finding) -> float:
    """Return the penalty of leaving a target in service: ten for CRITICAL, times the jobs that it affects (choice)."""
    jobs = len(finding.blast_radius.jobs) if finding.blast_radius is not None else 0
    return (10.0 if finding.severity is Severity.CRITICAL else 1.0) * max(1, jobs)


def _nth(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"

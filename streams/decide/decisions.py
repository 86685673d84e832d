"""Decides the remediations of findings: the action of the policy, the order of decisions, the next attempt, a relapse.

Decides on a finding after the settling time, and only if it has no parent. Decides again when its severity, cause or
policy action changes, and evaluates denied decisions again. A different result is another attempt with another id.
"""

from dataclasses import dataclass, replace

from streams.decide import guards, remedies, repair_hints
from streams.decide.core import Core
from streams.decide.guard_context import isolated_links
from streams.decide.guards import Decision
from streams.decide.life_cycle import EVALUATED_AGAIN, NOT_BEGUN, Event
from streams.decide.optimizer import Candidate, select
from streams.decide.policy import PolicyAction
from streams.decide.state import ACTOR, Case, CaseMemory, Ended, Remedy
from streams.fabric.topology import TopologyLink
from streams.wire.models import Action, Condition, Finding, RepairStep, Severity, Status, Verdict
from streams.wire.models import RemediationState as State

_ENDED_NS = 86_400_000_000_000
"""A finding is retained for a day after its final revision, so that late revisions are recognised."""

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


def process_finding(core: Core, finding: Finding) -> None:
    """Process a revision of a finding; a revision that is not newer than the last has no effect."""
    state = core.state
    case, ended = state.cases.get(finding.id), state.ended.get(finding.id)
    known = case.finding.revision if case is not None else ended.revision if ended is not None else 0
    remembered = state.remembered.get(finding.id) or CaseMemory(0)
    if finding.revision <= known or finding.revision < remembered.revision:
        return
    if case is None:
        due_ns = max(finding.started_at_ns, finding.detected_at_ns or 0) + round(core.params.settle_s * 1e9)
        state.remembered.pop(finding.id, None)
        identity = remembered.remedy or core.recovered.get(finding.id, "")
        case = state.cases[finding.id] = Case(finding, due_ns, identity, remembered.decided, remembered.rejected)
    case.finding = finding
    remedy = state.remedies.get(case.remedy)
    if remedy is not None and (remedy.finding is None or remedy.finding.id == finding.id or remembered.leads):
        remedy.finding = finding
    core.schedule(finding.id, case.due_ns)
    core.add_finding(finding)
    if finding.is_closed or finding.parent_id:
        _withdraw_with_case(core, case, remedy)
    if finding.final or finding.status is Status.RETRACTED:
        del state.cases[finding.id]
        state.ended[finding.id] = Ended(finding.revision, max(state.watermark_ns, finding.observed_at_ns))


def has_open_finding(core: Core, remedy: Remedy) -> bool:
    """Return whether any finding of a remediation is open."""
    cases = (core.state.cases.get(identity) for identity in remedy.record.finding_ids)
    return any(case is not None and not case.finding.is_closed for case in cases)


def prune(core: Core) -> None:
    """Evict the findings that ended a day ago, and their attempt numbers."""
    state = core.state
    used = {one.record.finding_ids[0] for own in (state.remedies, state.late) for one in own.values()}
    for identity, ended in list(state.ended.items()):
        if ended.at_ns + _ENDED_NS <= core.now_ns and identity not in used:
            del state.ended[identity]
            state.attempts.pop(identity, None)


def _withdraw_with_case(core: Core, case: Case, remedy: Remedy | None) -> None:
    """End a remediation that was not carried out, because its finding ended or has a parent."""
    finding = case.finding
    if remedy is None or (remedy.finding is not None and finding.id != remedy.finding.id):
        return
    is_failed = remedy.state is State.ESCALATED and not remedy.is_out and not remedy.waits_for_person
    if remedy.state in NOT_BEGUN or is_failed:
        withdraw(core, remedy, finding)


def withdraw(core: Core, remedy: Remedy, finding: Finding, reason: str = "") -> None:
    """End a remediation together with its finding; other findings that joined it are decided again."""
    ended = f"{finding.detector} is {finding.status.name.lower()}"
    child = f", child of {finding.parent_id}" if finding.parent_id else ""
    remedies.move(core, remedy, Event.WITHDRAW, reason or ended + child)
    for identity in remedy.record.finding_ids:
        case = core.state.cases.get(identity)
        if case is None or case.remedy != remedy.id:  # one that joined another remediation is decided with that
            continue
        case.decided = None
        if identity != finding.id:
            case.remedy = ""
            core.schedule(identity, case.due_ns)


def decide_due(core: Core) -> None:
    """Decide the findings that are due or changed, most urgent first."""
    reviews = [review for case in core.pop_due() if (review := _review(core, case)) is not None]
    for review in _ordered(core, reviews):
        _decide_case(core, review)


def decide_denied(core: Core) -> None:
    """Evaluate the guards again for denied and failed remediations, most urgent first."""
    denied = [
        remedy for remedy in core.in_state(*EVALUATED_AGAIN) if remedy.finding is not None and not remedy.rejected
    ]
    denied.sort(key=lambda remedy: (-(remedy.record.penalty or 0), remedy.since_ns, remedy.id))
    half = _MAX_EVALUATED // 2
    worst, others = denied[:half], denied[half:]
    start = core.state.evaluated_from % len(others) if len(others) > half else 0
    core.state.evaluated_from = start + half if len(others) > half else 0
    for remedy in (*worst, *(others[start:] + others[:start])[:half]):
        _decide_again(core, remedy)


def revoke_denied(core: Core) -> None:
    """Revoke the approvals that the guards deny now. Caps, rate, budget and cool-down already count it."""
    for remedy in core.in_state(State.APPROVED):
        if (decision := core.denial(remedy)) is not None:
            remedies.revoke(core, remedy, decision)


def decide(core: Core, remedy: Remedy, decision: Decision | None = None, actor: str = ACTOR) -> None:
    """Publish the guards' decision on a proposal, or on a remediation that waits for approval."""
    finding = remedy.finding
    assert finding is not None
    decision = decision or core.evaluate(remedy)
    remedy.pod = core.pod_of(remedy)
    reason = f"{finding.summary} ({_nth(finding.occurrences or 1)} {finding.detector} in 28 days)"
    if remedy.record.action in guards.ISOLATES and (also := core.fabric.interrupted_with(remedy.target_id)):
        reason = f"{reason}; {also}"
    remedies.decide(core, remedy, decision, reason, actor)


def next_attempt(core: Core, remedy: Remedy, finding: Finding, action: Action, hint: str) -> Remedy:
    """Return the next attempt, which replaces this one."""
    attempt = _propose(core, finding, action, hint, remedy)
    remedies.move(core, remedy, Event.CHANGE, f"evaluated again as {attempt.id}")
    return attempt


def _propose(core: Core, finding: Finding, action: Action, hint: str, former: Remedy | None) -> Remedy:
    """Return a proposal for a finding, which adopts the findings of the former attempt."""
    target = core.fabric.target(finding, action)
    attempt = remedies.propose(core, finding, target, action, hint, _penalty(finding), former)
    for identity in attempt.record.finding_ids:
        case = core.state.cases.get(identity)
        if case is not None and (identity == finding.id or (former is not None and case.remedy == former.id)):
            case.remedy = attempt.id
    return attempt


def _review(core: Core, case: Case) -> _Review | None:
    """Return the review of a finding; None if nothing is to be decided or nothing changed."""
    finding = case.finding
    if finding.parent_id or finding.is_closed or finding.shadow or finding.severity is Severity.INFO:
        return None
    remedy = core.state.remedies.get(case.remedy)
    rule = _rule(core, finding, remedy)
    if rule is None:
        return None
    if rule.next_ns is not None:
        core.schedule(finding.id, rule.next_ns)
    watched = core.on_probation(finding.subject.id) if finding.condition in _UNSOUND else None
    if watched is not None and finding.started_at_ns > watched.since_ns:
        rule = replace(rule, action=Action.DRAIN_LINK)
    review = _Review(case, rule, remedy, _penalty(finding), core.fabric.link(finding))
    if remedy is not None and remedy.state is State.PROBATION:
        again_ns = remedy.since_ns + _pause_ns(core, remedy)
        if finding.observed_at_ns <= remedy.since_ns:
            return None
        if core.now_ns >= again_ns:
            return review
        core.schedule(finding.id, again_ns)
        return None
    if (rejected := _rejected(core, finding, rule.action, remedy)) is not None:
        # Else the next attempt, decided for another severity, would be approved as soon as its guards pass.
        if remedy is not None and remedy.state in NOT_BEGUN and not remedy.rejected:
            withdraw(core, remedy, rejected, "a person rejected its action, severity and cause before")
        return None
    return None if case.decided == (rule.action, finding.severity, finding.cause) else review


def _rejected(core: Core, finding: Finding, action: Action, remedy: Remedy | None) -> Finding | None:
    """Return a finding, or an open one of its remediation, as it is now, for which a person rejected this action."""
    others = remedy.record.finding_ids if remedy is not None else ()
    for identity in dict.fromkeys((finding.id, *others)):
        case = core.state.cases.get(identity)
        if case is None or case.finding.is_closed:
            continue
        if (action, case.finding.severity, case.finding.cause) in case.rejected:
            return case.finding
    return None


def _pause_ns(core: Core, remedy: Remedy) -> int:
    """Return the time after which a fault counts as back; a target that is taken out of service again has none."""
    return 0 if remedy.record.action in guards.ISOLATES else remedies.pause_ns(core, remedy.relapses + 1)


def _rule(core: Core, finding: Finding, remedy: Remedy | None) -> PolicyAction | None:
    """Return the action of the policy after the attempts that had no effect."""
    attempts = {remedy.record.action: remedy.failures + remedy.relapses} if remedy is not None else {}
    return core.policy.action_for(finding, core.now_ns, attempts)


def _ordered(core: Core, reviews: list[_Review]) -> list[_Review]:
    """Return links that fit together first, then the others, both by descending penalty (CorrOpt)."""
    reviews.sort(key=lambda review: (-review.penalty, review.case.finding.id))
    capacity = core.fabric.capacity
    numbers = {
        number: review
        for review in reviews
        if review.rule.action in guards.ISOLATES
        and review.link is not None
        and (number := capacity.number_of(review.link)) is not None
    }
    if len(numbers) < 2:
        return reviews
    context = core.context()
    for number in numbers:
        context.current_capacity(number)
    candidates = [Candidate(number, review.penalty) for number, review in numbers.items()]
    floor, checks = core.params.capacity_floor, core.params.optimizer_checks
    selection = select(capacity, candidates, floor, checks, isolated_links(context))
    waiting = {numbers[candidate.link].case.finding.id for candidate in selection.waiting}
    return sorted(reviews, key=lambda review: review.case.finding.id in waiting)


def _decide_case(core: Core, review: _Review) -> None:
    case, finding, rule, remedy = review.case, review.case.finding, review.rule, review.remedy
    case.decided = rule.action, finding.severity, finding.cause
    if remedy is not None and remedy.state is State.PROBATION:
        _relapse(core, remedy, case, rule)
        return
    target = core.fabric.target(finding, rule.action)
    if rule.action in guards.ISOLATES and _is_isolated(core, review, target.id):
        if remedy is not None and remedy.id != case.remedy and remedy.state in NOT_BEGUN:
            withdraw(core, remedy, finding, f"{finding.detector} is part of {case.remedy}")
        return
    if remedy is not None:
        if remedy.state not in NOT_BEGUN:
            return
        if remedy.state is State.APPROVED and remedy.record.action is rule.action:
            return
        attempt = next_attempt(core, remedy, finding, rule.action, rule.hint)
    else:
        attempt = _propose(core, finding, rule.action, rule.hint, None)
    decide(core, attempt)


def _is_isolated(core: Core, review: _Review, target_id: str) -> bool:
    """Return whether a target has a remediation already; on probation it relapses, else the finding joins it."""
    case, finding = review.case, review.case.finding
    watched = core.on_probation(target_id)
    if watched is not None and finding.started_at_ns > watched.since_ns:
        _relapse(core, watched, case, review.rule)
        return True
    other = core.holder(target_id) or core.waiting_for_person(target_id)
    if other is not None and other is not review.remedy:
        if other.waits_for_person:
            other.finding = finding
        remedies.join(core, other, finding)
        case.remedy = other.id
    return other is not None


def _decide_again(core: Core, remedy: Remedy) -> None:
    """Evaluate the guards again; a remediation that they no longer deny is decided in the next attempt."""
    state, finding = remedy.state, remedy.finding
    assert finding is not None
    if state is State.FAILED:
        if finding.is_closed or finding.parent_id:
            withdraw(core, remedy, finding)  # the finding ended during the attempt
            return
        is_last = remedy.failures >= core.params.max_attempts
        if is_last or core.now_ns < remedy.since_ns + remedies.pause_ns(core, remedy.failures):
            return
    if remedy.record.action in guards.ISOLATES and core.holder(remedy.target_id) is not None:
        return
    decision = core.evaluate(remedy)
    if state is State.PROPOSED or (state is State.WAITING and decision.verdict is not Verdict.NEEDS_APPROVAL):
        decide(core, remedy, decision)
    elif state in (State.DENIED, State.FAILED) and decision.verdict is not Verdict.DENIED:
        attempt = next_attempt(core, remedy, finding, remedy.record.action, remedy.policy_hint)
        decide(core, attempt)  # a person's approval is for one attempt


def end_external(core: Core, remedy: Remedy, reason: str, actor: str = ACTOR) -> None:
    """Process that another party returned a target to service: end, escalate or repeat, as the policy has it.

    A repetition passes all guards, the cool-down too, and counts as a relapse, so that the last waits for a person.
    """
    way, finding = core.policy.external.get(remedy.record.action, "end"), remedy.finding
    is_open = finding is not None and not finding.is_closed and not finding.parent_id
    if way == "escalate":
        remedies.move(core, remedy, Event.OVERRIDDEN, reason, actor)
    elif remedies.move(core, remedy, Event.RETURNED, reason, actor) and way == "repeat" and is_open:
        assert finding is not None
        remedy.relapses += 1
        remedy.done_step = RepairStep.STEP_UNSPECIFIED  # the repair is not the cause
        action = remedy.record.action
        if remedy.relapses >= core.params.max_relapses or _rejected(core, finding, action, remedy) is not None:
            remedies.move(core, remedy, Event.LAST_RELAPSE, f"{reason}; a person must decide")
            return
        attempt = _propose(core, finding, action, remedy.policy_hint, remedy)
        attempt.is_relapse = False
        remedies.move(core, remedy, Event.RELAPSE, f"{reason}; repeated as {attempt.id}")
        decide(core, attempt)


def _relapse(core: Core, remedy: Remedy, case: Case, rule: PolicyAction) -> None:
    """Drain a target at once if its fault returns during probation, because the repair did not help."""
    finding = case.finding
    remedy.relapses += 1
    remedy.finding = finding
    reason = f"relapse {remedy.relapses} on probation: {finding.summary}; the repair did not help"
    following = _after_relapse(core, remedy, finding, rule)
    if following is None or _rejected(core, finding, following[0], remedy) is not None:
        case.remedy = remedy.id
        repair_hints.next_step(core.state.repairs, remedy)
        remedies.move(core, remedy, Event.LAST_RELAPSE, f"{reason}; a person must decide")
        return
    action, hint, former = following
    attempt = _propose(core, finding, action, hint, former)
    if former is not None:
        repair_hints.next_step(core.state.repairs, attempt)
    remedies.move(core, remedy, Event.RELAPSE, reason)
    decide(core, attempt)


def _after_relapse(
    core: Core, remedy: Remedy, finding: Finding, rule: PolicyAction
) -> tuple[Action, str, Remedy | None] | None:
    """Return the action after a relapse, its hint, and the former attempt; None if a person must decide."""
    if rule.action in guards.ISOLATES and remedy.record.action in guards.ISOLATES:
        remedy.is_relapse = True
        if remedy.relapses >= core.params.max_relapses:
            return None
        is_host = remedy.record.action in guards.TAKES_HOST_OUT
        return Action.CORDON_HOST if is_host else Action.DRAIN_LINK, "", remedy
    again = _rule(core, finding, remedy)
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

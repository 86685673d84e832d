"""Defines the guards of remediations: 13 pure functions in a fixed order, each with a limit and the observed value.

A guard without the data for its limit denies the action. The first guard that denies decides. If none denies, shadow
mode decides, then the first guard that asks for approval. A restore and an observation take nothing out of service, so
only the mode applies to them: a breaker that blocked recovery would leave targets out of service forever (REMEDIATION
2). All limits are settings of DecideParams.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from streams.decide.capacity import ROUNDING
from streams.decide.guard_context import (
    GuardContext,
    Proposal,
    job_without_plane,
    least_surviving,
    other_planes,
    touched_links,
)
from streams.decide.life_cycle import RESTORES
from streams.decide.link_states import ONE_SIDED
from streams.decide.state import TargetKind
from streams.fabric.inventory_rows import HOST_LINK, MANY_PLANES
from streams.fabric.topology import TopologyLink
from streams.wire.models import Action, Coverage, Finding, Verdict

UNGUARDED = (Action.OBSERVE, *RESTORES)
"""Actions that take nothing out of service."""

TAKES_LINK_OUT = (Action.DRAIN_LINK, Action.REPAIR_LINK, Action.RESET_NIC)
"""Actions during which a link carries no traffic."""

TAKES_HOST_OUT = (Action.CORDON_HOST, Action.REBOOT_HOST)
"""Actions during which no job can use the host."""

INTERRUPTS_JOB = (*TAKES_HOST_OUT, Action.RESET_NIC)

ISOLATES = (Action.DRAIN_LINK, Action.REPAIR_LINK, *TAKES_HOST_OUT)
"""Actions after which the target is out of service until a restore; a reset ends by itself."""

CAPACITY = "surviving-capacity"

_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class GuardResult:
    """The result of a guard that denies an action or asks for approval; `limit` and `observed` are its values."""

    verdict: Verdict
    guard: int
    """The number of the guard from 1, in the order of GUARDS."""
    constraint: str
    limit: float | None = None
    observed: float | None = None
    group: str = ""
    """The constrained group, for example the switch that would fall below its floor."""


@dataclass(frozen=True, slots=True)
class Decision(GuardResult):
    """The verdict on a proposal; guard 0 for an approval that no guard constrained."""

    surviving: float | None = None
    """The lowest ratio that a group of the target retains; None if the guards did not compute it."""


Guard = Callable[[Proposal, GuardContext], GuardResult | None]


def kill_switch(_proposal: Proposal, context: GuardContext) -> GuardResult | None:
    """Deny every action while a kill switch is on, or while the controls are not read to their end."""
    if context.controls.kill_switch(context.now_ns) is None:
        return None
    return GuardResult(Verdict.DENIED, 1, "kill-switch")


def mode(_proposal: Proposal, context: GuardContext) -> GuardResult | None:
    """Publish every action as shadow unless the mode is `act`."""
    return None if context.params.mode == "act" else GuardResult(Verdict.SHADOW, 2, "mode")


def maintenance(proposal: Proposal, context: GuardContext) -> GuardResult | None:
    """Deny an action on a target that a control or the inventory has in maintenance."""
    until_ns = context.topology.maintenance_until_ns(proposal.devices)
    controls, now_ns = context.controls, context.now_ns
    if until_ns > now_ns or any(controls.maintenance(target, now_ns) for target in proposal.targets):
        return GuardResult(Verdict.DENIED, 3, "maintenance")
    return None


def exclusion(proposal: Proposal, context: GuardContext) -> GuardResult | None:
    """Deny an action on an excluded target."""
    if any(context.controls.exclusion(target, context.now_ns) for target in proposal.targets):
        return GuardResult(Verdict.DENIED, 4, "exclusion")
    return None


def evidence(proposal: Proposal, context: GuardContext) -> GuardResult | None:
    """Deny an action without a confidence or on a miscabled link; ask for approval if evidence is in doubt."""
    finding, floor = proposal.finding, context.params.confidence_floor
    confidence = None if finding is None else finding.confidence
    if finding is None or confidence is None or not 0 <= confidence <= 1:  # also true for NaN
        return GuardResult(Verdict.DENIED, 5, "confidence", floor)
    if proposal.target.id in context.miscabled:
        return GuardResult(Verdict.DENIED, 5, "cabling")
    if confidence < floor:
        return GuardResult(Verdict.NEEDS_APPROVAL, 5, "confidence", floor, confidence)
    coverage = finding.coverage or Coverage()
    seen, expected = coverage.seen, coverage.expected
    if seen is None or expected is None or not 0 <= seen <= expected or not expected:
        return GuardResult(Verdict.NEEDS_APPROVAL, 5, "unknown coverage", expected, seen)
    if seen < expected:
        return GuardResult(Verdict.NEEDS_APPROVAL, 5, "one-sided evidence", expected, seen)
    doubt, where = context.link_states.evidence_gap(proposal.link.id) if proposal.link is not None else ("", "")
    if not doubt:
        return None
    return GuardResult(Verdict.NEEDS_APPROVAL, 5, doubt, 2 if doubt == ONE_SIDED else None, group=where)


def freshness(proposal: Proposal, context: GuardContext) -> GuardResult | None:
    """Deny an action on a target if an end was not observed within the freshness limit."""
    limit_s = context.params.freshness_limit_s
    ages_s = []
    for device in proposal.devices:
        observed_ns = context.link_states.observed_ns(device)
        if observed_ns is None:
            return GuardResult(Verdict.DENIED, 6, "freshness", limit_s, group=f"device {device}")
        ages_s.append((context.now_ns - observed_ns) / 1e9)
    if ages_s and max(ages_s) <= limit_s:
        return None
    return GuardResult(Verdict.DENIED, 6, "freshness", limit_s, max(ages_s, default=None))


def inventory(proposal: Proposal, context: GuardContext) -> GuardResult | None:
    """Deny an action on a target that the inventory does not have, or that the finding no longer concerns."""
    link, target = proposal.link, proposal.target
    if proposal.action in TAKES_LINK_OUT:
        known = link is not None and link.id == target.id and context.topology.links.get(link.id) == link
    else:
        known = bool(proposal.members) or (
            target.a is not None
            and target.a.device in context.topology.devices
            and (proposal.is_out or _concerns(proposal.finding, target.a.device))
        )
    return None if known else GuardResult(Verdict.DENIED, 7, "inventory")


def _concerns(finding: Finding | None, device: str) -> bool:
    return finding is not None and finding.subject.a is not None and finding.subject.a.device == device


def capacity(proposal: Proposal, context: GuardContext) -> GuardResult | None:
    """Deny an action that leaves a group below its floor; ask for approval if a rail of a host retains too few planes.

    The target itself always counts as lost, even if its link is down now, because the fabric still needs that link. So
    do the links in its cages and modules, which its repair interrupts.
    """
    if proposal.action is Action.UPGRADE_FIRMWARE:
        return GuardResult(Verdict.NEEDS_APPROVAL, 8, CAPACITY)
    if proposal.action not in TAKES_LINK_OUT:
        return None
    touched = touched_links(proposal, context)
    counted = touched[1:] if proposal.is_out else touched
    return next((result for link in counted if (result := _capacity_without(proposal, link, context))), None)


def _capacity_without(proposal: Proposal, link: TopologyLink, context: GuardContext) -> GuardResult | None:
    """Return the result for one of the links that an action interrupts."""
    floor = context.params.capacity_floor
    if link.role == HOST_LINK:
        return _planes(proposal, link, context)
    least = least_surviving(link, context, touched_links(proposal, context))
    if least is None:
        return GuardResult(Verdict.DENIED, 8, CAPACITY, floor)
    if least.ratio >= floor - ROUNDING:
        return None
    return GuardResult(Verdict.DENIED, 8, CAPACITY, floor, least.ratio, str(least.group))


def _planes(proposal: Proposal, link: TopologyLink, context: GuardContext) -> GuardResult | None:
    """Ask for approval if a rail of a host would miss more than one plane, or a job one plane at several hosts."""
    remaining, total = _remaining_planes(proposal, link, context)
    least = max(1, total - 1)
    if remaining < least:
        rail = f"rail {link.rail} of host {link.lower.device}"
        return GuardResult(Verdict.NEEDS_APPROVAL, 8, CAPACITY, least, remaining, rail)
    job_name = job_without_plane(link, context) if total >= MANY_PLANES and link.plane is not None else ""
    if not job_name:
        return None
    return GuardResult(Verdict.NEEDS_APPROVAL, 8, CAPACITY, 1, 2, f"hosts of job {job_name} without plane {link.plane}")


def _remaining_planes(proposal: Proposal, link: TopologyLink, context: GuardContext) -> tuple[int, int]:
    """Return how many planes a rail of a host retains, and of how many; many planes are ports of one NIC."""
    others = other_planes(link, context, touched_links(proposal, context))
    total = len(others) + 1
    is_reset = proposal.action is Action.RESET_NIC and total >= MANY_PLANES
    return 0 if is_reset else sum(others), total


def caps(proposal: Proposal, context: GuardContext) -> GuardResult | None:
    """Deny an isolation beyond a cap of its pod or of the fabric; the smaller cap binds."""
    params, isolations, target = context.params, context.isolations, proposal.target.id
    if proposal.action not in ISOLATES or target in isolations.active:
        return None
    kind, pod = isolation_of(proposal, context)
    limits = (
        ("pod cap", pod, params.pod_cap, params.pod_cap_ratio),
        ("fabric cap", None, params.fabric_cap, params.fabric_cap_ratio),
    )
    for name, within, absolute, ratio in limits:
        relative = ceil(ratio * context.capacity.population(kind, within) - ROUNDING)
        for limit, observed in (
            (absolute, isolations.count(pod=within)),
            (relative, isolations.count(kind, pod=within)),
        ):
            if observed + 1 > limit:
                return GuardResult(Verdict.DENIED, 9, name, limit, observed, f"pod {pod}" if within else "")
    return None


def rate(proposal: Proposal, context: GuardContext) -> GuardResult | None:
    """Deny an isolation or a reset beyond the hourly rate of the fabric."""
    if proposal.action not in (*ISOLATES, Action.RESET_NIC) or proposal.target.id in context.isolations.active:
        return None
    after_ns = _before(context, _HOUR_S)
    observed = context.isolations.count_started(after_ns) + context.isolations.count_resets(after_ns)
    limit = context.params.actions_per_hour
    return None if observed < limit else GuardResult(Verdict.DENIED, 10, "hourly rate", limit, observed)


def budget(proposal: Proposal, context: GuardContext) -> GuardResult | None:
    """Deny an isolation beyond the budget of the target, and a reset beyond the budget of the NIC."""
    params, isolations, target = context.params, context.isolations, proposal.target.id
    if proposal.action is Action.RESET_NIC:
        limit, name = params.reset_budget, "reset budget"
        observed = isolations.count_resets(_before(context, params.reset_budget_s), target)
    elif proposal.action in ISOLATES and target not in isolations.active:
        limit, name = params.isolation_budget, "isolation budget"
        observed = isolations.count_started(_before(context, params.isolation_budget_s), target)
    else:
        return None
    return None if observed < limit else GuardResult(Verdict.DENIED, 11, name, limit, observed)


def cool_down(proposal: Proposal, context: GuardContext) -> GuardResult | None:
    """Deny an action on a target that was changed recently, except the drain of a relapse on probation."""
    changed_ns = context.isolations.changed_ns.get(proposal.target.id)
    if changed_ns is None or (proposal.relapse and proposal.action is Action.DRAIN_LINK):
        return None
    elapsed_s, limit_s = (context.now_ns - changed_ns) / 1e9, context.params.cool_down_s
    return None if elapsed_s >= limit_s else GuardResult(Verdict.DENIED, 12, "cool-down", limit_s, elapsed_s)


def job(proposal: Proposal, context: GuardContext) -> GuardResult | None:
    """Ask for approval of an action that interrupts a job, or may: an answer is old, or a host is unknown."""
    if proposal.action not in INTERRUPTS_JOB:
        return None
    if jobs := context.topology.jobs_on(proposal.devices, context.now_ns):
        return GuardResult(Verdict.NEEDS_APPROVAL, 13, "job", 0, len(jobs), ", ".join(jobs))
    if not context.schedulers:
        return GuardResult(Verdict.NEEDS_APPROVAL, 13, AGE_OF_JOBS, _ANSWER_S, None, "no scheduler has answered")
    oldest = min(context.schedulers.values(), key=lambda one: (one.answered_ns, one.name))
    newest_ns = max(one.answered_ns for one in context.schedulers.values())
    age_s = (context.now_ns - oldest.answered_ns) / 1e9
    if age_s > _ANSWER_S or (context.now_ns - newest_ns) / 1e9 < -_ANSWER_S:
        text = f"the last complete answer of scheduler {oldest.name} is {age_s:.0f} s old"
        return GuardResult(
            Verdict.NEEDS_APPROVAL, 13, AGE_OF_JOBS, _ANSWER_S, age_s,
            f"{text}: {oldest.problem}" if oldest.problem else text,
        )  # fmt: skip
    if jobs := context.topology.jobs_on_unknown_hosts(context.now_ns):
        names = ", ".join(jobs[:_SHOWN]) + (", …" if len(jobs) > _SHOWN else "")
        return GuardResult(
            Verdict.NEEDS_APPROVAL, 13, "job", 0, len(jobs), f"on hosts that the inventory lacks: {names}"
        )
    return None


_SHOWN = 5

AGE_OF_JOBS = "age of jobs"

_ANSWER_S = 300
"""The age at which a scheduler's last complete answer does not count (choice): ten reports of the jobs collector."""


GUARDS: tuple[Guard, ...] = (
    kill_switch, mode, maintenance, exclusion, evidence, freshness, inventory, capacity, caps, rate, budget, cool_down,
    job,
)  # fmt: skip


COUNTING_GUARDS: tuple[Guard, ...] = (caps, rate, budget, cool_down)
"""Guards that count isolations and resets."""


def evaluate(proposal: Proposal, context: GuardContext, *, is_counted: bool = False) -> Decision:
    """Return the verdict on a proposal: a denial, else shadow, else a request for approval, else the approval.

    With `is_counted` the isolations already include the proposal, so the guards that count isolations do not apply
    again.
    """
    pending: dict[Verdict, GuardResult] = {}
    for guard in (mode,) if proposal.action in UNGUARDED else GUARDS:
        if is_counted and guard in COUNTING_GUARDS:
            continue
        result = guard(proposal, context)
        if result is None or (result.verdict is Verdict.NEEDS_APPROVAL and context.approved_by):
            continue
        if result.verdict is Verdict.DENIED:
            return _decision(result, proposal, context)
        pending.setdefault(result.verdict, result)
    result = pending.get(Verdict.SHADOW) or pending.get(Verdict.NEEDS_APPROVAL)
    return _decision(result or GuardResult(Verdict.APPROVED, 0, ""), proposal, context)


def isolation_of(proposal: Proposal, context: GuardContext) -> tuple[TargetKind, str]:
    """Return the kind and the pod under which the target of a proposal counts as isolated."""
    if proposal.action in TAKES_HOST_OUT:
        return TargetKind.HOST, context.topology.pod_of(next(iter(proposal.devices), ""))
    return TargetKind.LINK, proposal.link.pod if proposal.link is not None else proposal.target.pod


def _surviving_ratio(proposal: Proposal, context: GuardContext) -> float | None:
    link = proposal.link
    if proposal.action not in TAKES_LINK_OUT or link is None:
        return None
    if link.role == HOST_LINK:
        remaining, total = _remaining_planes(proposal, link, context)
        return remaining / total
    least = least_surviving(link, context, touched_links(proposal, context))
    return None if least is None else least.ratio


def _decision(result: GuardResult, proposal: Proposal, context: GuardContext) -> Decision:
    is_computed = result.guard == 0 or result.guard >= GUARDS.index(capacity) + 1 or result.verdict is Verdict.SHADOW
    surviving = _surviving_ratio(proposal, context) if is_computed else None
    return Decision(
        result.verdict, result.guard, result.constraint, result.limit, result.observed, result.group, surviving
    )


def _before(context: GuardContext, seconds: float) -> int:
    return context.now_ns - round(seconds * 1e9)

"""decide: from findings to remediations, each published with the guard that bound it.

Acts on a finding once it has settled and no other finding explains it. Decides nothing twice: an id names an intent,
and a decision that must not be carried out any more is revoked under the same id.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import orjson
from pydantic import TypeAdapter, ValidationError

from streams.decide import guards
from streams.decide.guards import GuardResult
from streams.decide.params import DecideParams
from streams.decide.policy import Rule, rule_for
from streams.fabric.ids import Port, remediation_id
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.errors import Reject
from streams.wire.models import (
    Action,
    Condition,
    Control,
    ControlKind,
    Finding,
    Message,
    Outcome,
    Remediation,
    RemediationResult,
    Severity,
    Status,
    Subject,
    Verdict,
)
from streams.wire.stage import Output
from streams.wire.topics import REMEDIATIONS, REMEDIATIONS_OPEN

_LIVE = (Verdict.APPROVED, Verdict.SHADOW, Verdict.NEEDS_APPROVAL)
_ANSWERED = (Outcome.DONE, Outcome.FAILED, Outcome.REJECTED)

_ANSWER_NS = 86_400_000_000_000
"""An answer is awaited for a day: a repair is a ticket for a person."""


@dataclass(slots=True)
class Case:
    """One finding that decisions were or will be made on."""

    finding: Finding
    due_ns: int
    decided: str = ""
    """The remediation's id, once there is one."""


@dataclass(slots=True)
class DecideState:
    """What a snapshot holds."""

    watermark_ns: int = 0
    cases: dict[str, Case] = field(default_factory=dict)
    remediations: dict[str, Remediation] = field(default_factory=dict)
    unanswered: dict[str, Remediation] = field(default_factory=dict)
    """Revoked or expired, and perhaps carried out all the same."""
    drained: dict[str, str] = field(default_factory=dict)
    """Link id -> the remediation that took it out of service."""
    acted_ns: dict[str, int] = field(default_factory=dict)
    """Target id -> when it was last acted on or restored."""
    kill_switches: dict[str, int | None] = field(default_factory=dict)
    """Kill switches: control id -> until when."""


_KEPT = TypeAdapter(DecideState)


class Decide:
    """The stage; it has one owner."""

    name = "decide"

    def __init__(self, params: DecideParams) -> None:
        self._params = params
        self._topology = Topology(Inventory())
        self._state = DecideState()
        self._revisions = itertools.count(1)

    @property
    def watermark_ns(self) -> int:
        return self._state.watermark_ns

    def start_epoch(self, epoch: int) -> None:
        self._revisions = itertools.count((epoch << 32) + 1)

    def set_topology(self, topology: Topology) -> list[Output]:
        self._topology = topology
        return []

    def process(self, batch: Sequence[Message]) -> list[Output]:
        outputs: list[Output] = []
        for message in batch:
            if isinstance(message, Finding):
                outputs += self._take(message)
            elif isinstance(message, RemediationResult):
                outputs += self._answer(message)
            elif isinstance(message, Control):
                self._control(message)
        return outputs

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        now = self._state.watermark_ns = max(self._state.watermark_ns, watermark_ns)
        outputs: list[Output] = []
        due = [case for case in self._state.cases.values() if not case.decided and case.due_ns <= now]
        for case in sorted(due, key=lambda case: (case.due_ns, case.finding.id)):
            outputs += self._decide(case)
        for remediation in list(self._state.remediations.values()):
            if (remediation.expires_at_ns or 0) <= now:
                outputs += self._expire(remediation)
        for identity, remediation in list(self._state.unanswered.items()):
            if (remediation.expires_at_ns or 0) + _ANSWER_NS <= now:
                del self._state.unanswered[identity]
        return outputs

    def _expire(self, remediation: Remediation) -> list[Output]:
        """Nobody answered in time. What is drained must come back: a restore is said again, under its id."""
        if remediation.action is Action.RESTORE_LINK:
            return self._publish(remediation)
        self._release(remediation)
        return [self._close(remediation)]

    def _take(self, finding: Finding) -> list[Output]:
        case = self._state.cases.get(finding.id)
        if case is not None and case.finding.revision >= finding.revision:
            return []
        settle_ns = round(self._params.settle_s * 1e9)
        due_ns = max(finding.started_at_ns, finding.detected_at_ns or 0) + settle_ns
        if case is None:
            case = self._state.cases[finding.id] = Case(finding, due_ns)
        case.finding = finding
        outputs = self._withdraw(case) if finding.status is Status.RETRACTED or finding.parent_id else []
        if finding.is_closed:
            outputs += self._over(case)
        return outputs

    def _over(self, case: Case) -> list[Output]:
        """The condition has passed: what was taken out for it can come back, and nothing need be done any more."""
        outputs = self._withdraw(case)
        if case.decided and case.decided in self._state.drained.values():
            outputs += self._restore(case.finding.id, case.finding.subject, case.decided)
        if case.finding.final or case.finding.status is Status.RETRACTED:
            del self._state.cases[case.finding.id]
        return outputs

    def _withdraw(self, case: Case) -> list[Output]:
        """Revoke a decision that nobody has answered yet."""
        remediation = self._state.remediations.get(case.decided)
        if remediation is None or remediation.verdict not in _LIVE or remediation.action is Action.RESTORE_LINK:
            return []
        revoked = replace(
            remediation,
            revision=next(self._revisions),
            verdict=Verdict.REVOKED,
            reason=f"{case.finding.detector} is {case.finding.status.name.lower()}"
            + (f", explained by {case.finding.parent_id}" if case.finding.parent_id else ""),
        )
        self._state.acted_ns.pop(remediation.target.id, None)
        self._release(remediation)
        return [Output(REMEDIATIONS, revoked), self._close(revoked)]

    def _decide(self, case: Case) -> list[Output]:
        finding = case.finding
        rule = rule_for(finding)
        if (
            rule is None
            or finding.parent_id
            or finding.is_closed
            or finding.shadow
            or finding.severity is Severity.INFO
        ):
            return []
        ruling = self._rule(rule, finding)
        verdict = ruling.verdict or (Verdict.APPROVED if self._params.mode == "act" else Verdict.SHADOW)
        identity = remediation_id(finding.id, rule.action.name, 1)
        case.decided = identity
        return self._publish(
            Remediation(
                identity, 0, (finding.id,), rule.action, verdict, finding.subject,
                reason=f"{finding.summary} ({_nth(finding.occurrences or 1)} {finding.detector} in 28 days)",
                constraint=ruling.constraint, constraint_limit=ruling.limit, constraint_observed=ruling.observed,
                surviving_capacity_ratio=ruling.surviving, repair_hint=rule.hint, runbook_url=finding.runbook_url,
            )
        )  # fmt: skip

    def _rule(self, rule: Rule, finding: Finding) -> GuardResult:
        """The first guard that binds; else what the capacity guard saw."""
        if rule.action is Action.OBSERVE:
            return GuardResult()
        if self._stopped():
            return GuardResult(Verdict.DENIED, "kill-switch")
        passed = guards.host_guard(rule.action)
        if passed.verdict is not None:
            return passed
        cable = self._cable(finding)
        if cable is not None and rule.action in guards.TAKES_LINK_OUT:
            missing = self._missing()
            passed = guards.surviving_capacity(self._topology, cable, missing, self._params.capacity_floor)
            if cable.id in missing and finding.condition is Condition.LINK_DOWN:
                passed = replace(passed, verdict=None, constraint="")  # it carries nothing already: nothing is lost
            if passed.verdict is not None:
                return passed
        last = self._state.acted_ns.get(finding.subject.id)
        cooled = guards.cool_down(last, self._state.watermark_ns, self._params.cool_down_s)
        return replace(cooled, surviving=passed.surviving)

    def _publish(self, remediation: Remediation) -> list[Output]:
        now = self._state.watermark_ns
        remediation = replace(
            remediation,
            revision=next(self._revisions),
            decided_at_ns=now,
            expires_at_ns=now + round(self._params.expires_s * 1e9),
        )
        outputs = [Output(REMEDIATIONS, remediation)]
        if remediation.verdict in _LIVE:
            self._state.remediations[remediation.id] = remediation
            outputs.append(Output(REMEDIATIONS_OPEN, remediation, key=remediation.id))
        if remediation.verdict is Verdict.APPROVED and remediation.action is not Action.OBSERVE:
            self._state.acted_ns[remediation.target.id] = now
        return outputs

    def _restore(self, finding_id: str, target: Subject, drained_by: str) -> list[Output]:
        """Restoring is never forbidden; in shadow nothing was drained, so nothing comes here."""
        self._state.drained.pop(target.id)
        identity = remediation_id(finding_id, Action.RESTORE_LINK.name, 1)
        return self._publish(
            Remediation(
                identity, 0, (finding_id,), Action.RESTORE_LINK, Verdict.APPROVED, target,
                reason=f"what it was for is over; undoes {drained_by}",
            )
        )  # fmt: skip

    def _answer(self, result: RemediationResult) -> list[Output]:
        """What automation did counts, even where it was told meanwhile not to do it."""
        kept = self._state
        remediation = kept.remediations.get(result.remediation_id) or kept.unanswered.get(result.remediation_id)
        if remediation is None or result.outcome not in _ANSWERED:
            return []
        outputs = [self._close(remediation)] if remediation.id in kept.remediations else []
        kept.unanswered.pop(remediation.id, None)
        target = remediation.target
        if result.outcome is not Outcome.DONE:
            kept.acted_ns.pop(target.id, None)
            return outputs
        kept.acted_ns[target.id] = result.at_ns or kept.watermark_ns
        if remediation.action in guards.TAKES_LINK_OUT:
            kept.drained[target.id] = remediation.id
            case = kept.cases.get(remediation.finding_ids[0])
            if case is None or case.finding.is_closed:
                outputs += self._restore(remediation.finding_ids[0], target, remediation.id)
        return outputs

    def _release(self, remediation: Remediation) -> None:
        """It is not open any more, but who took it up may still answer."""
        if remediation.verdict is not Verdict.SHADOW and remediation.action in guards.TAKES_LINK_OUT:
            self._state.unanswered[remediation.id] = remediation

    def _close(self, remediation: Remediation) -> Output:
        """Answered, revoked or expired: no longer open."""
        self._state.remediations.pop(remediation.id, None)
        return Output(REMEDIATIONS_OPEN, None, key=remediation.id)

    def _control(self, control: Control) -> None:
        if control.kind is ControlKind.KILL_SWITCH:
            self._state.kill_switches[control.id] = control.until_ns

    def _stopped(self) -> bool:
        now = self._state.watermark_ns
        return any(until is None or now < until for until in self._state.kill_switches.values())

    def _missing(self) -> frozenset[str]:
        """Links that carry nothing: down, behind a device that is gone, drained, or decided to be."""
        missing = set(self._state.drained)
        for case in self._state.cases.values():
            if case.finding.is_closed:
                continue
            if case.finding.condition is Condition.LINK_DOWN:
                missing.add(case.finding.subject.id)
            elif case.finding.condition is Condition.DEVICE_DOWN and case.finding.subject.a is not None:
                cables: Iterable[TopologyLink] = self._topology.links_of.get(case.finding.subject.a.device, ())
                missing |= {cable.id for cable in cables}
        decided = (r for r in self._state.remediations.values() if r.verdict is Verdict.APPROVED)
        missing |= {r.target.id for r in decided if r.action in guards.TAKES_LINK_OUT}
        return frozenset(missing)

    def _cable(self, finding: Finding) -> TopologyLink | None:
        end = finding.subject.a
        return self._topology.link_at(Port(end.device, end.port)) if end and end.port else None

    def snapshot(self) -> bytes:
        return orjson.dumps(self._state)

    def restore(self, data: bytes) -> None:
        try:
            self._state = _KEPT.validate_json(data)
        except ValidationError as error:
            raise Reject(f"not a snapshot of decide: {error}") from error


def _nth(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"

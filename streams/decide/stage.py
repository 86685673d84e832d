"""Decides remediations for findings, and publishes each with the guard that constrained it.

Decides on a finding after the settling time and only if it has no parent. No decision is made twice: an id identifies
an intent, and a decision that must no longer be carried out is revoked under the same id.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from streams.decide import first_guards as guards
from streams.decide.first_guards import GuardResult
from streams.decide.link_states import LinkStates
from streams.decide.params import DecideParams
from streams.decide.policy import Policy, PolicyAction, load_policy
from streams.decide.state import Case, DecideState
from streams.fabric.ids import Port, remediation_id
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import (
    Action,
    Condition,
    Control,
    ControlKind,
    Finding,
    Message,
    Outcome,
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
from streams.wire.stage import Output
from streams.wire.topics import REMEDIATIONS, REMEDIATIONS_OPEN, Headers, Topic

if TYPE_CHECKING:
    from streams.wire.signatures import SignatureVerifier

_OPEN_VERDICTS = (Verdict.APPROVED, Verdict.SHADOW, Verdict.NEEDS_APPROVAL)
_FINAL_OUTCOMES = (Outcome.DONE, Outcome.FAILED, Outcome.REJECTED)

_RESULT_TIMEOUT_NS = 86_400_000_000_000
"""Results are accepted for a day after the expiry: a repair is a ticket for a person."""


class Decide:
    """The stage `decide`, which has one owner."""

    name = "decide"

    def __init__(self, params: DecideParams, policy: Policy | None = None) -> None:
        self._params = params
        self._policy = policy or load_policy()
        self._topology = Topology(Inventory())
        self._state = DecideState()
        self._revisions = itertools.count(1)
        self._links = self._make_links()

    @property
    def link_states(self) -> LinkStates:
        """The states of the links as of the last message."""
        return self._links

    def _make_links(self) -> LinkStates:
        own = self._params
        return LinkStates(own.freshness_limit_s, own.qualification, accept_unread_hosts=own.accept_unread_hosts)

    @property
    def watermark_ns(self) -> int:
        return self._state.watermark_ns

    def start_epoch(self, epoch: int) -> None:
        self._revisions = itertools.count((epoch << 32) + 1)

    def set_topology(self, topology: Topology) -> list[Output]:
        self._topology = topology
        self._links.set_topology(topology)
        return []

    def process(self, batch: Sequence[Message]) -> list[Output]:
        outputs: list[Output] = []
        for message in batch:
            if isinstance(message, Finding):
                outputs += self._on_finding(message)
            elif isinstance(message, RemediationResult):
                outputs += self._on_result(message)
            elif isinstance(message, Control):
                self._on_control(message)
            elif isinstance(message, PortStates | ReadingsHeartbeat | PortQuality):
                self._links.update(message)
        return outputs

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        now = self._state.watermark_ns = max(self._state.watermark_ns, watermark_ns)
        self._links.advance(now)
        outputs: list[Output] = []
        due = [case for case in self._state.cases.values() if not case.decided and case.due_ns <= now]
        for case in sorted(due, key=lambda case: (case.due_ns, case.finding.id)):
            outputs += self._decide(case)
        for remediation in list(self._state.remediations.values()):
            if (remediation.expires_at_ns or 0) <= now:
                outputs += self._expire(remediation)
        for identity, remediation in list(self._state.unanswered.items()):
            if (remediation.expires_at_ns or 0) + _RESULT_TIMEOUT_NS <= now:
                del self._state.unanswered[identity]
        return outputs

    def _expire(self, remediation: Remediation) -> list[Output]:
        """Close a remediation without a result in time; repeat a restore, because a drained link must return."""
        if remediation.action is Action.RESTORE_LINK:
            return self._publish(remediation)
        self._await_late_result(remediation)
        return [self._close(remediation)]

    def _on_finding(self, finding: Finding) -> list[Output]:
        case = self._state.cases.get(finding.id)
        if case is not None and case.finding.revision >= finding.revision:
            return []
        settle_ns = round(self._params.settle_s * 1e9)
        due_ns = max(finding.started_at_ns, finding.detected_at_ns or 0) + settle_ns
        if case is None:
            case = self._state.cases[finding.id] = Case(finding, due_ns)
        case.finding = finding
        outputs = self._revoke(case) if finding.status is Status.RETRACTED or finding.parent_id else []
        if finding.is_closed:
            outputs += self._on_end(case)
        return outputs

    def _on_end(self, case: Case) -> list[Output]:
        """Process the end of a condition: revoke its decision, and restore the link that was drained for it."""
        outputs = self._revoke(case)
        if case.decided and case.decided in self._state.drained.values():
            outputs += self._restore(case.finding.id, case.finding.subject, case.decided)
        if case.finding.final or case.finding.status is Status.RETRACTED:
            del self._state.cases[case.finding.id]
        return outputs

    def _revoke(self, case: Case) -> list[Output]:
        """Revoke a decision without a result."""
        remediation = self._state.remediations.get(case.decided)
        if (
            remediation is None
            or remediation.verdict not in _OPEN_VERDICTS
            or remediation.action is Action.RESTORE_LINK
        ):
            return []
        revoked = replace(
            remediation,
            revision=next(self._revisions),
            verdict=Verdict.REVOKED,
            reason=f"{case.finding.detector} is {case.finding.status.name.lower()}"
            + (f", child of {case.finding.parent_id}" if case.finding.parent_id else ""),
        )
        self._state.acted_ns.pop(remediation.target.id, None)
        self._await_late_result(remediation)
        return [Output(REMEDIATIONS, revoked), self._close(revoked)]

    def _decide(self, case: Case) -> list[Output]:
        finding = case.finding
        rule = self._policy.action_for(finding, self._state.watermark_ns)
        if (
            rule is None
            or finding.parent_id
            or finding.is_closed
            or finding.shadow
            or finding.severity is Severity.INFO
        ):
            return []
        guard = self._guard(rule, finding)
        verdict = guard.verdict or (Verdict.APPROVED if self._params.mode == "act" else Verdict.SHADOW)
        identity = remediation_id(finding.id, rule.action.name, 1)
        case.decided = identity
        return self._publish(
            Remediation(
                identity, 0, (finding.id,), rule.action, verdict, finding.subject,
                reason=f"{finding.summary} ({_nth(finding.occurrences or 1)} {finding.detector} in 28 days)",
                constraint=guard.constraint, constraint_limit=guard.limit, constraint_observed=guard.observed,
                surviving_capacity_ratio=guard.surviving, repair_hint=rule.hint, runbook_url=finding.runbook_url,
            )
        )  # fmt: skip

    def _guard(self, rule: PolicyAction, finding: Finding) -> GuardResult:
        """Return the result of the first guard that denies; else that of the last with the surviving capacity."""
        if rule.action is Action.OBSERVE:
            return GuardResult()
        if self._is_stopped():
            return GuardResult(Verdict.DENIED, "kill-switch")
        result = guards.host_guard(rule.action)
        if result.verdict is not None:
            return result
        link = self._link(finding)
        if link is not None and rule.action in guards.TAKES_LINK_OUT:
            missing = self._missing_links()
            result = guards.surviving_capacity(self._topology, link, missing, self._params.capacity_floor)
            if link.id in missing and finding.condition is Condition.LINK_DOWN:
                result = replace(
                    result, verdict=None, constraint=""
                )  # it already carries no traffic, so nothing is lost
            if result.verdict is not None:
                return result
        last = self._state.acted_ns.get(finding.subject.id)
        cooled = guards.cool_down(last, self._state.watermark_ns, self._params.cool_down_s)
        return replace(cooled, surviving=result.surviving)

    def _publish(self, remediation: Remediation) -> list[Output]:
        now = self._state.watermark_ns
        remediation = replace(
            remediation,
            revision=next(self._revisions),
            decided_at_ns=now,
            expires_at_ns=now + round(self._params.expires_s * 1e9),
        )
        outputs = [Output(REMEDIATIONS, remediation)]
        if remediation.verdict in _OPEN_VERDICTS:
            self._state.remediations[remediation.id] = remediation
            outputs.append(Output(REMEDIATIONS_OPEN, remediation, key=remediation.id))
        if remediation.verdict is Verdict.APPROVED and remediation.action is not Action.OBSERVE:
            self._state.acted_ns[remediation.target.id] = now
        return outputs

    def _restore(self, finding_id: str, target: Subject, drained_by: str) -> list[Output]:
        """Restore a link; restoring is never denied, and in shadow mode no link is drained."""
        self._state.drained.pop(target.id)
        identity = remediation_id(finding_id, Action.RESTORE_LINK.name, 1)
        return self._publish(
            Remediation(
                identity, 0, (finding_id,), Action.RESTORE_LINK, Verdict.APPROVED, target,
                reason=f"the condition has ended; reverses {drained_by}",
            )
        )  # fmt: skip

    def _on_result(self, result: RemediationResult) -> list[Output]:
        """Process a result; it counts even if the remediation was revoked or expired meanwhile."""
        state = self._state
        remediation = state.remediations.get(result.remediation_id) or state.unanswered.get(result.remediation_id)
        if remediation is None or result.outcome not in _FINAL_OUTCOMES:
            return []
        outputs = [self._close(remediation)] if remediation.id in state.remediations else []
        state.unanswered.pop(remediation.id, None)
        target = remediation.target
        if result.outcome is not Outcome.DONE:
            state.acted_ns.pop(target.id, None)
            return outputs
        state.acted_ns[target.id] = result.at_ns or state.watermark_ns
        if remediation.action in guards.TAKES_LINK_OUT:
            state.drained[target.id] = remediation.id
            case = state.cases.get(remediation.finding_ids[0])
            if case is None or case.finding.is_closed:
                outputs += self._restore(remediation.finding_ids[0], target, remediation.id)
        return outputs

    def _await_late_result(self, remediation: Remediation) -> None:
        """Retain a remediation that is no longer open, because a result may still arrive."""
        if remediation.verdict is not Verdict.SHADOW and remediation.action in guards.TAKES_LINK_OUT:
            self._state.unanswered[remediation.id] = remediation

    def _close(self, remediation: Remediation) -> Output:
        """Close a remediation that has a result, is revoked or has expired."""
        self._state.remediations.pop(remediation.id, None)
        return Output(REMEDIATIONS_OPEN, None, key=remediation.id)

    def _on_control(self, control: Control) -> None:
        if control.kind is ControlKind.KILL_SWITCH:
            self._state.kill_switches[control.id] = control.until_ns

    def _is_stopped(self) -> bool:
        now = self._state.watermark_ns
        return any(until is None or now < until for until in self._state.kill_switches.values())

    def _missing_links(self) -> frozenset[str]:
        """Return links without traffic: down, at a device that is down, drained, or decided to be drained."""
        missing = set(self._state.drained)
        for case in self._state.cases.values():
            if case.finding.is_closed:
                continue
            if case.finding.condition is Condition.LINK_DOWN:
                missing.add(case.finding.subject.id)
            elif case.finding.condition is Condition.DEVICE_DOWN and case.finding.subject.a is not None:
                links: Iterable[TopologyLink] = self._topology.links_of.get(case.finding.subject.a.device, ())
                missing |= {link.id for link in links}
        decided = (r for r in self._state.remediations.values() if r.verdict is Verdict.APPROVED)
        missing |= {r.target.id for r in decided if r.action in guards.TAKES_LINK_OUT}
        return frozenset(missing)

    def _link(self, finding: Finding) -> TopologyLink | None:
        end = finding.subject.a
        return self._topology.link_at(Port(end.device, end.port)) if end and end.port else None

    def snapshot(self) -> bytes:
        self._state.links = self._links.dump()
        return self._state.to_bytes()

    def restore(self, data: bytes) -> None:
        state, links = DecideState.from_bytes(data), self._make_links()
        links.load(state.links)
        self._state, self._links = state, links

    def verify(self, topic: Topic, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Raise Reject on a control or a result without the signature of a trusted key, if there are any."""
        if self._params.trusted_keys:
            self._verifier.verify(topic, key, value, headers)

    @cached_property
    def _verifier(self) -> "SignatureVerifier":
        from streams.wire.signatures import SignatureVerifier

        return SignatureVerifier(self._params.trusted_keys)


def _nth(number: int) -> str:
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"

"""Evaluates the guards for remediations, with one shared context for each message or time."""

from dataclasses import replace

from streams.decide import guards
from streams.decide.controls import Controls
from streams.decide.fabric_view import FabricView
from streams.decide.guard_context import GuardContext, Proposal
from streams.decide.guards import Decision
from streams.decide.params import DecideParams
from streams.decide.state import DecideState, Remedy
from streams.wire.models import Action, Cause, Condition, Finding, Verdict

_LOST = (Condition.LINK_DOWN, Condition.DEVICE_DOWN)
"""Conditions in which a link or device carries no traffic."""

_PROVEN_DOWN = 0.9
"""The confidence of device/down if a device is silent and its neighbors lost it. A lower one rests on neighbors only; a
known restart has confidence 1 and is never counted."""


class Evaluation:
    """The guards with their inputs; call `expire` after every change of an input except the isolations."""

    def __init__(self, params: DecideParams, fabric: FabricView, state: DecideState, controls: Controls) -> None:
        self._params, self._fabric, self._state, self._controls = params, fabric, state, controls
        self._context: GuardContext | None = None
        self._lost: dict[str, str] = {}
        """Open finding -> the link or device that it reports down."""
        self._miscabled: dict[str, str] = {}
        self._down: dict[str, Finding] = {}
        """Open findings that prove a device down."""
        for case in state.cases.values():
            self.add_finding(case.finding)

    def expire(self) -> None:
        """Discard the context."""
        self._context = None

    def add_finding(self, finding: Finding) -> None:
        """Track the links and devices that open findings report down or miscabled."""
        if finding.condition is Condition.DEVICE_DOWN:
            is_proven = finding.cause is not Cause.REBOOT and (finding.confidence or 0) >= _PROVEN_DOWN
            self._down.pop(finding.id, None)
            if is_proven and not finding.is_closed:
                self._down[finding.id] = finding
        for conditions, subjects in ((_LOST, self._lost), ((Condition.LINK_MISCABLED,), self._miscabled)):
            if finding.condition in conditions:
                if finding.is_closed:
                    subjects.pop(finding.id, None)
                else:
                    subjects[finding.id] = finding.subject.id

    def evaluate(self, remedy: Remedy, *, is_counted: bool = False) -> Decision:
        """Return the guards' decision; with `is_counted` the isolations already include the remediation."""
        context = self.context()
        if remedy.record.approved_by:
            context = replace(context, approved_by=remedy.record.approved_by)
        return guards.evaluate(self._proposal(remedy), context, is_counted=is_counted)

    def denial(self, remedy: Remedy) -> Decision | None:
        """Return the denial of an approval that must not be carried out any more, or None."""
        if remedy.record.action is Action.OBSERVE:
            return None
        if remedy.finding is None:  # after a loss of state the evidence is unknown until the finding is read again
            return Decision(Verdict.DENIED, 5, "confidence", self._params.confidence_floor)
        decision = self.evaluate(remedy, is_counted=True)
        return None if decision.verdict is Verdict.APPROVED else decision

    def is_allowed(self, remedy: Remedy) -> bool:
        """Return whether an approval may still be carried out."""
        return self.denial(remedy) is None

    def pod_of(self, remedy: Remedy) -> str:
        """Return the pod in which the target of a remediation counts as isolated."""
        return guards.isolation_of(self._proposal(remedy), self.context())[1]

    def context(self) -> GuardContext:
        """Return the context of the guards; each message and each time needs a new one."""
        if self._context is None:
            now, fabric = self._state.watermark_ns, self._fabric
            self._context = GuardContext(
                now, self._params, fabric.topology, self._controls, fabric.links, self._state.isolations,
                fabric.capacity, frozenset(self._lost.values()) | frozenset(self._controls.maintained(now)),
                frozenset(self._miscabled.values()), self._dead(now),
            )  # fmt: skip
        return self._context

    def _dead(self, now_ns: int) -> frozenset[str]:
        """Return the devices that open findings report down for longer than any restart takes."""
        latest_ns = now_ns - round(self._params.dead_s * 1e9)
        ends = (one.subject.a for one in self._down.values() if one.started_at_ns <= latest_ns)
        return frozenset(end.device for end in ends if end is not None)

    def _proposal(self, remedy: Remedy) -> Proposal:
        finding, record = remedy.finding, remedy.record
        assert finding is not None
        return Proposal(
            record.action, record.target, finding, self._fabric.link(finding), record.attempt,
            relapse=remedy.is_relapse, members=self._fabric.members(record.target),
        )  # fmt: skip

"""Holds the working state of `decide`, which the functions of this room read and change, and evaluates the guards.

The working state is the state of the snapshot, the indexes that are derived from it, the fabric, the controls, and the
revisions that wait to be sent.
"""

import heapq
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from streams.decide import guards, memory
from streams.decide.controls import Controls
from streams.decide.fabric_view import FabricView
from streams.decide.guard_context import GuardContext, LostLinks, Proposal
from streams.decide.guards import Decision
from streams.decide.params import DecideParams
from streams.decide.policy import Policy
from streams.decide.state import ACTOR, Case, DecideState, Remedy
from streams.fabric.ids import Port
from streams.wire.models import (
    Action,
    Cause,
    Condition,
    Control,
    ControlAnswer,
    ControlEffect,
    Event,
    EventKind,
    Finding,
    Remediation,
    Source,
    Verdict,
)
from streams.wire.models import RemediationState as State
from streams.wire.stage import Output
from streams.wire.topics import CONTROL_ANSWERS, CONTROLS, EVENTS, REMEDIATIONS, REMEDIATIONS_OPEN

_LOST = (Condition.LINK_DOWN, Condition.DEVICE_DOWN)
"""Conditions in which a link or device carries no traffic."""

_PROVEN_DOWN = 0.9
"""The confidence of device/down if a device is silent and its neighbors lost it. A lower one rests on neighbors only; a
known restart has confidence 1 and is never counted."""


@dataclass(slots=True)
class Core:
    """The working state; `of` derives the indexes from the state of a snapshot."""

    params: DecideParams
    policy: Policy
    fabric: FabricView
    state: DecideState
    controls: Controls
    revisions: Iterator[int]
    outputs: list[Output] = field(default_factory=list)
    deadlines: list[tuple[int, str]] = field(default_factory=list)
    due: list[tuple[int, str]] = field(default_factory=list)
    """The schedule of the decisions on findings."""
    by_state: dict[State, dict[str, None]] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    """Target id -> the remediation that has it out of service or is about to."""
    owners: dict[str, str] = field(default_factory=dict)
    """Order id -> the remediation that it belongs to."""
    recovered: dict[str, str] = field(default_factory=dict)
    """Finding id -> the remediation that was recovered without it."""
    reported_down: dict[str, str] = field(default_factory=dict)
    """Open finding -> the link or device that it reports down."""
    miscabled: dict[str, str] = field(default_factory=dict)
    down: dict[str, Finding] = field(default_factory=dict)
    """Open findings that prove a device down."""
    _context: GuardContext | None = None
    _lost: LostLinks | None = None
    """The lost links of the present inventory, as of the last context."""
    _changes: list[tuple[str, int]] = field(default_factory=list)
    """The subjects that a finding reports down (1), or not any more (-1), since then."""
    _settled: int = 0

    def __post_init__(self) -> None:
        for case in self.state.cases.values():
            self.add_finding(case.finding)
            self.schedule(case.finding.id, case.due_ns)

    @property
    def now_ns(self) -> int:
        """Return the watermark."""
        return self.state.watermark_ns

    def emit(self, record: Remediation, *, is_open: bool = True) -> Remediation:
        """Add the next revision, and return it; a closed remediation is removed from the open ones."""
        record = replace(record, revision=next(self.revisions), decided_at_ns=self.now_ns)
        self.outputs.append(Output(REMEDIATIONS, record))
        self.outputs.append(Output(REMEDIATIONS_OPEN, record if is_open else None, key=record.id))
        return record

    def answer(self, control: Control, effect: ControlEffect, reason: str = "", nearest: Sequence[str] = ()) -> None:
        """Add the answer to a control, with the identity of its subject."""
        identity = self.controls.identities.get(control.id, ()) if effect is ControlEffect.TAKEN else ()
        answer = ControlAnswer(control, effect, reason, tuple(nearest), identity)
        self.outputs.append(Output(CONTROL_ANSWERS, answer))

    def remove_answer(self, control_id: str) -> None:
        """Remove the answer to a control that is not in effect any more."""
        self.outputs.append(Output(CONTROL_ANSWERS, None, key=control_id))

    def end_control(self, control_id: str) -> None:
        """Remove a control that has ended, and its answer, from their topics."""
        self.remove_answer(control_id)
        self.outputs.append(Output(CONTROLS, None, key=control_id))

    def request_readings(self, port: Port) -> None:
        """Request the readings of a port from `measure`."""
        at_ns = self.now_ns
        request = Event(port.device, port.port, EventKind.WATCH, at_ns, at_ns, Source.SOURCE_UNSPECIFIED, ACTOR)
        self.outputs.append(Output(EVENTS, request))

    def drain(self) -> list[Output]:
        """Return the revisions added since the last call."""
        self.settle()
        outputs, self.outputs, self._settled = self.outputs, [], 0
        return outputs

    def settle(self) -> None:
        """Add the memory to the revisions of the last message, whatever the size of the batch."""
        for place in range(self._settled, len(self.outputs)):
            output = self.outputs[place]
            if output.topic is REMEDIATIONS and isinstance(record := output.message, Remediation):
                identity = record.id
                remedy = self.state.remedies.get(identity) or self.state.late.get(identity) or self.owner_of(identity)
                remedy = remedy or self.holder(record.target.id)  # of a closed order
                record = memory.with_memory(record, remedy, self.state, self.fabric.identity(record.target.id))
                self.outputs[place] = replace(output, message=record)
        self._settled = len(self.outputs)

    def next_attempt(self, finding_id: str, action: Action) -> int:
        """Return the number of the next attempt of an action for a finding."""
        attempts = self.state.attempts.setdefault(finding_id, {})
        attempts[action.name] = attempts.get(action.name, 0) + 1
        return attempts[action.name]

    def schedule(self, finding_id: str, at_ns: int) -> None:
        """Schedule the next decision on a finding."""
        heapq.heappush(self.due, (at_ns, finding_id))

    def pop_due(self) -> list[Case]:
        """Return the cases that are due, each once, and remove them from the schedule."""
        found: dict[str, Case] = {}
        while self.due and self.due[0][0] <= self.now_ns:
            case = self.state.cases.get(heapq.heappop(self.due)[1])
            if case is not None:
                found[case.finding.id] = case
        return list(found.values())

    def in_state(self, *states: State) -> list[Remedy]:
        """Return the remediations in these states, in the order in which they entered them."""
        found = [self.state.remedies[identity] for state in states for identity in self.by_state.get(state, ())]
        return sorted(found, key=lambda remedy: (remedy.since_ns, remedy.id))

    def holder(self, target_id: str) -> Remedy | None:
        """Return the remediation that has taken a target out of service or is about to."""
        identity = self.holders.get(target_id)
        return self.state.remedies[identity] if identity else None

    def other_holder(self, remedy: Remedy) -> Remedy | None:
        """Return another remediation that has the same target out of service.

        There is one if automation accepted a revoked attempt late, and also the next attempt.
        """
        same = (one for one in self.state.remedies.values() if one.isolates and one.target_id == remedy.target_id)
        return next((one for one in same if one is not remedy), None)

    def on_probation(self, target_id: str) -> Remedy | None:
        """Return the remediation of a target on probation."""
        return next((remedy for remedy in self.in_state(State.PROBATION) if remedy.target_id == target_id), None)

    def waiting_for_person(self, target_id: str) -> Remedy | None:
        """Return the remediation of a target that waits for a person after its last relapse."""
        escalated = self.in_state(State.ESCALATED)
        return next((one for one in escalated if one.target_id == target_id and one.waits_for_person), None)

    def owner_of(self, order_id: str) -> Remedy | None:
        """Return the remediation that issued an order."""
        identity = self.owners.get(order_id, "")
        return self.state.remedies.get(identity) or self.state.late.get(identity)

    def expire(self) -> None:
        """Discard the context of the guards; call it after every change of an input except the isolations."""
        self._context = None

    def add_finding(self, finding: Finding) -> None:
        """Track the links and devices that open findings report down or miscabled."""
        if finding.condition is Condition.DEVICE_DOWN:
            is_proven = finding.cause is not Cause.REBOOT and (finding.confidence or 0) >= _PROVEN_DOWN
            self.down.pop(finding.id, None)
            if is_proven and not finding.is_closed:
                self.down[finding.id] = finding
        for conditions, subjects in ((_LOST, self.reported_down), ((Condition.LINK_MISCABLED,), self.miscabled)):
            if finding.condition in conditions:
                before = subjects.pop(finding.id, None)
                if not finding.is_closed:
                    subjects[finding.id] = finding.subject.id
                if conditions is _LOST and before != (now := subjects.get(finding.id)):
                    self._changes += [(name, by) for name, by in ((before, -1), (now, 1)) if name is not None]

    def context(self) -> GuardContext:
        """Return the state of the guards' inputs now."""
        if self._context is None:
            now, fabric = self.now_ns, self.fabric
            latest_ns = now - round(self.params.dead_s * 1e9)
            dead = (one.subject.a for one in self.down.values() if one.started_at_ns <= latest_ns)
            self._context = GuardContext(
                now, self.params, fabric.topology, self.controls, fabric.links, self.state.isolations,
                fabric.capacity, self._lost_links(), frozenset(self.miscabled.values()),
                frozenset(end.device for end in dead if end is not None), self.state.schedulers,
            )  # fmt: skip
        return self._context

    def _lost_links(self) -> AbstractSet[str]:
        """Return the links that findings or maintenances report as lost."""
        changes, self._changes = self._changes, []
        changes += self.controls.maintenance_changes(self.now_ns)
        if self._lost is None or self._lost.capacity is not self.fabric.capacity:
            names = (*self.reported_down.values(), *self.controls.maintained(self.now_ns))
            self._lost = LostLinks(self.fabric.capacity, names)
        else:
            for name, by in changes:
                self._lost.change(name, by)
        return self._lost.links

    def evaluate(self, remedy: Remedy, *, is_counted: bool = False) -> Decision:
        """Return the guards' decision; with `is_counted` the isolations already include the remediation."""
        context, proposal = self.context(), self._proposal(remedy)
        if proposal is None:  # after a loss of state the evidence is unknown until the finding is read again
            return Decision(Verdict.DENIED, 5, "confidence", self.params.confidence_floor)
        if remedy.record.approved_by:
            context = replace(context, approved_by=remedy.record.approved_by)
        return guards.evaluate(proposal, context, is_counted=is_counted)

    def evaluate_order(self, remedy: Remedy, action: Action, approved_by: str = "") -> Decision:
        """Return the guards' decision on an order for a target that is out of service, or that may carry traffic.

        The approval of the remediation does not apply to its orders.
        """
        context, record = self.context(), replace(remedy.record, action=action)
        if approved_by:
            context = replace(context, approved_by=approved_by)
        proposal = self._proposal(replace(remedy, record=record))
        if proposal is None:
            if action not in guards.UNGUARDED:
                return Decision(Verdict.DENIED, 5, "confidence", self.params.confidence_floor)
            proposal = Proposal(action, record.target, None, None)
        link = self.fabric.topology.links.get(record.target.id) or proposal.link
        return guards.evaluate(replace(proposal, link=link, is_out=not remedy.may_carry), context, is_counted=True)

    def denial(self, remedy: Remedy) -> Decision | None:
        """Return the denial of an approval that must not be carried out any more, or None."""
        if remedy.record.action is Action.OBSERVE:
            return None
        decision = self.evaluate(remedy, is_counted=True)
        return None if decision.verdict is Verdict.APPROVED else decision

    def pod_of(self, remedy: Remedy) -> str:
        """Return the pod under which a remediation counts as an isolation."""
        proposal = self._proposal(remedy)
        return "" if proposal is None else guards.isolation_of(proposal, self.context())[1]

    def _proposal(self, remedy: Remedy) -> Proposal | None:
        finding, record = remedy.finding, remedy.record
        if finding is None:
            return None
        return Proposal(
            record.action, record.target, finding, self.fabric.link(finding), record.attempt,
            relapse=remedy.is_relapse, members=self.fabric.members(record.target),
        )  # fmt: skip

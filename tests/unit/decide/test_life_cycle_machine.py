"""Property test of the life cycle over random findings, answers, forged answers, controls, times and restarts.

What must hold for every history: a target returns only on proof, no restore is blocked for ever, no id is decided twice
differently, a result counts only from the actor that accepted, and every remediation ends.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streams.decide.life_cycle import TRANSITIONS
from streams.decide.stage import Decide
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
    Verdict,
)
from streams.wire.models import RemediationState as State
from streams.wire.stage import Output
from tests.fixtures.decide_stage import TOP, deciding, finding, port_states, readings, remediations
from tests.worlds.observations import at

PORTS = ("p1-l0/u0", "p1-l0/u1", "p1-l1/u0", "p1-h1/e0")
FABRIC_CAP = 3
SETTINGS: dict[str, Any] = {
    "fabric_cap_ratio": 0.1,
    "capacity_floor": 0.5,
    "pod_cap_ratio": 0.5,
    "actions_per_hour": 100,
}
RESTORES = (Action.RESTORE_LINK, Action.UNCORDON_HOST)
ALLOWED = {(before, after) for (before, _), after in TRANSITIONS.items()}
OUT = (State.APPROVED, State.ACCEPTED, State.NO_ANSWER, State.DRAINED, State.VERIFYING, State.RESTORING)


def _begin(stage: Decide, epoch: int) -> Decide:
    stage.start_epoch(epoch)
    return stage


class LifeCycle(RuleBasedStateMachine):
    """One stage, with what it published and what was answered."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = deciding(**SETTINGS)
        self.epoch, self.t, self.read_until, self.number = 1, 0.0, 0.0, 0
        self.published: list[Remediation] = []
        self.last: dict[str, Remediation] = {}
        self.accepted: dict[str, str] = {}
        self.repaired: set[str] = set()
        self.findings: dict[str, Finding] = {}

    def _take(self, outputs: list[Output]) -> None:
        for record in remediations(outputs):
            self._check(record)
            self.published.append(record)
            self.last[record.id] = record

    def _check(self, record: Remediation) -> None:
        """Check one revision against those before it."""
        known, target = self.last.get(record.id), record.target.id
        if known is not None:
            assert record.revision > known.revision
            assert record.action is known.action
            assert record.target == known.target
            is_order_end = record.state in (State.CLOSED, State.FAILED, State.NO_ANSWER, State.DENIED)
            assert (
                record.state is known.state
                or (known.state, record.state) in ALLOWED
                or (is_order_end and known.state in (State.APPROVED, State.ACCEPTED))
                or (known.state is State.APPROVED and record.state is State.ACCEPTED)
            ), (known, record)
        else:
            assert record.state in (State.APPROVED, State.DENIED, State.WAITING, State.SHADOW)
        if record.state is State.VERIFYING:
            assert target in self.repaired
        if record.state is State.RESTORING and (known is None or known.state is not State.RESTORING):
            assert target in self.repaired
            assert self.stage.link_states.qualification(target).qualified
        if record.action in RESTORES and known is None:
            assert any(one.target.id == target and one.state is State.RESTORING for one in self.published)
        if record.state is State.PROBATION:
            self.repaired.discard(target)
        if record.state is State.APPROVED and (known is None or known.state is not State.APPROVED):
            assert len(self.stage._state.isolations.active) <= FABRIC_CAP or record.action in RESTORES

    def _send(self, *messages: Message) -> None:
        self._take(self.stage.process(messages))

    def _advance(self, seconds: float) -> None:
        self.t += seconds
        self._take(self.stage.advance_watermark(at(self.t)))

    def _ids(self, *states: State) -> list[str]:
        return sorted(identity for identity, record in self.last.items() if record.state in states)

    @rule(port=st.sampled_from(PORTS), condition=st.sampled_from([Condition.LINK_FLAP, Condition.LINK_DOWN]),
          confidence=st.sampled_from([0.95, 0.95, 0.6, None]), severity=st.sampled_from(Severity))  # fmt: skip
    def open_finding(self, port: str, condition: Condition, confidence: float | None, severity: Severity) -> None:
        self.number += 1
        opened = finding(port, condition, self.t, confidence=confidence, severity=severity)
        opened = replace(opened, id=f"{opened.id}/{self.number}")
        self.findings[opened.id] = opened
        self._send(opened)
        self._advance(11)

    @precondition(lambda self: self.findings)
    @rule(data=st.data(), status=st.sampled_from([Status.UPDATED, Status.RESOLVED, Status.RETRACTED]))
    def change_finding(self, data: st.DataObject, status: Status) -> None:
        known = self.findings[data.draw(st.sampled_from(sorted(self.findings)))]
        if known.final or known.status is Status.RETRACTED:
            return  # no revision follows
        changed = replace(
            known, revision=known.revision + 1, status=status, observed_at_ns=at(self.t), severity=Severity.CRITICAL,
            final=status is not Status.UPDATED and data.draw(st.booleans()),
        )  # fmt: skip
        self.findings[known.id] = changed
        self._send(changed)
        if data.draw(st.booleans()):
            self._send(known)  # an older revision arrives late

    @rule(seconds=st.sampled_from([1, 15, 320, 700, 3700, 90_000]))
    def advance(self, seconds: int) -> None:
        self._advance(seconds)

    @precondition(lambda self: self.last)
    @rule(data=st.data(), actor=st.sampled_from(["netbot", "netbot", "mallory", ""]))
    def accept(self, data: st.DataObject, actor: str) -> None:
        identity = data.draw(st.sampled_from(sorted(self.last)))
        self._send(RemediationResult(identity, Outcome.ACCEPTED, actor=actor))
        record = self.last[identity]
        if record.state in (State.ACCEPTED, State.NO_ANSWER):
            self.accepted.setdefault(identity, record.actor)

    @precondition(lambda self: self._ids(State.APPROVED))
    @rule(data=st.data(), outcome=st.sampled_from([Outcome.DONE, Outcome.DONE, Outcome.DONE, Outcome.FAILED]))
    def carry_out(self, data: st.DataObject, outcome: Outcome) -> None:
        identity = data.draw(st.sampled_from(self._ids(State.APPROVED)))
        self._send(RemediationResult(identity, Outcome.ACCEPTED, actor="netbot"))
        if self.last[identity].state is State.ACCEPTED:
            self.accepted.setdefault(identity, "netbot")
            self._done(identity, outcome)
            self._advance(1)

    @precondition(lambda self: self.last)
    @rule(data=st.data(), forged=st.booleans(),
          outcome=st.sampled_from([Outcome.DONE, Outcome.DONE, Outcome.FAILED, Outcome.REJECTED]))  # fmt: skip
    def answer(self, data: st.DataObject, forged: bool, outcome: Outcome) -> None:
        identity = data.draw(st.sampled_from(sorted(self.last)))
        before, actor = len(self.published), self.accepted.get(identity)
        is_true = actor is not None and not forged
        if is_true and outcome is Outcome.DONE and self.last[identity].action is Action.REPAIR_LINK:
            self.repaired.add(self.last[identity].target.id)
        self._send(RemediationResult(identity, outcome, actor=actor if is_true and actor else "forger"))
        if not is_true:
            assert len(self.published) == before, "a forged result had an effect"

    @precondition(lambda self: self.last)
    @rule(data=st.data(), kind=st.sampled_from([ControlKind.APPROVE, ControlKind.REJECT, ControlKind.REPAIRED]))
    def answer_of_a_person(self, data: st.DataObject, kind: ControlKind) -> None:
        identity = data.draw(st.sampled_from(sorted(self.last)))
        self._person(identity, kind)

    def _person(self, identity: str, kind: ControlKind) -> None:
        self.number += 1
        if kind is ControlKind.REPAIRED:
            self.repaired.add(self.last[identity].target.id)
        self._send(Control(f"c{self.number}", kind, identity, at(self.t), actor="anna", endless=True))

    @rule(kind=st.sampled_from([ControlKind.KILL_SWITCH, ControlKind.KIND_UNSPECIFIED]))
    def kill_switch(self, kind: ControlKind) -> None:
        self._send(Control("stop", kind))
        if kind is ControlKind.KILL_SWITCH:
            for identity in self._ids(State.APPROVED):
                record = self.last[identity]
                is_open = record.verdict is Verdict.APPROVED and record.action not in (*RESTORES, Action.OBSERVE)
                assert not is_open or record.action is Action.REPAIR_LINK, "an open approval was not revoked"

    @rule(port=st.sampled_from(["u0", "u1", "d1"]), state=st.sampled_from([1, 2, 3, 0]))
    def port_state(self, port: str, state: int) -> None:
        self._send(port_states("p1-l0", self.t, **{port: state}))

    @rule(errors=st.sampled_from([0.0, 0.0, 3.0]), seconds=st.sampled_from([300, 1000]),
          bps=st.sampled_from([4e10, 1e6, None]))  # fmt: skip
    def read(self, errors: float, seconds: int, bps: float | None) -> None:
        self._read(errors, seconds, bps)

    def _read(self, errors: float, seconds: int, bps: float | None = None) -> None:
        begin, end = self.t, self.t + seconds
        ports = {link.lower for port in PORTS for link in TOP.links.values() if "/".join(link.lower) == port}
        links = [link for link in TOP.links.values() if link.lower in ports]
        self._send(*(readings(*own, begin, end, errors, bps) for link in links for own in (link.lower, link.upper)))
        self._advance(seconds)

    @rule()
    def restart(self) -> None:
        self.epoch += 1
        successor = deciding(loaded=False, states=False, **SETTINGS)
        successor.start_epoch(self.epoch)
        successor.restore(self.stage.snapshot())
        successor.set_topology(TOP)
        self.stage = successor
        self._take(successor.recover([]))

    @precondition(lambda self: self.last)
    @rule()
    def lose_the_state(self) -> None:
        self.epoch += 1
        before = set(self.stage._state.isolations.active)
        successor = _begin(deciding(loaded=False, **SETTINGS), self.epoch)
        self.stage = successor
        self._take(successor.recover(self.published))
        assert before <= set(successor._state.isolations.active), "a drained link was forgotten"
        self._send(*self.findings.values())
        self._advance(1)

    @invariant()
    def what_is_out_of_service_is_counted(self) -> None:
        """Each target that a remediation isolates is in the isolations, and no other."""
        state = self.stage._state
        assert set(state.isolations.active) == {one.target_id for one in state.remedies.values() if one.isolates}
        for remedy in state.remedies.values():
            if remedy.state in OUT and remedy.record.action in (Action.DRAIN_LINK, Action.REPAIR_LINK):
                assert remedy.isolates, remedy

    def teardown(self) -> None:
        """With answers, repairs and sound links, all that is out of service returns, and every remediation ends."""
        self._send(Control("stop", ControlKind.KIND_UNSPECIFIED))
        self._send(*(port_states(device, self.t) for device in TOP.links_of))
        for known in list(self.findings.values()):
            if known.final or known.status is Status.RETRACTED:
                continue
            self._send(replace(known, revision=known.revision + 1, status=Status.RESOLVED, final=True))
        for _ in range(12):
            for identity in self._ids(State.ACCEPTED, State.NO_ANSWER):
                self._done(identity)
            for identity in self._ids(State.APPROVED):
                self._send(RemediationResult(identity, Outcome.ACCEPTED, actor="netbot"))
                if self.last[identity].state is State.ACCEPTED:
                    self.accepted.setdefault(identity, "netbot")
                    self._done(identity)
            for remedy in list(self.stage._state.remedies.values()):
                if remedy.state is State.ESCALATED and not remedy.isolates:
                    self._person(remedy.id, ControlKind.REJECT)
                elif remedy.state is State.ESCALATED and not remedy.restoring:
                    self._person(remedy.id, ControlKind.REPAIRED)
            self._read(0, 1000)
        self._advance(90_000)
        assert self.stage._state.isolations.active == {}, self.stage._state.remedies
        assert self.stage._state.remedies == {}

    def _done(self, identity: str, outcome: Outcome = Outcome.DONE) -> None:
        actor = self.accepted.get(identity)
        if actor is not None:
            if self.last[identity].action is Action.REPAIR_LINK and outcome is Outcome.DONE:
                self.repaired.add(self.last[identity].target.id)
            self._send(RemediationResult(identity, outcome, actor=actor))


TestLifeCycle = pytest.mark.filterwarnings("ignore")(LifeCycle.TestCase)
TestLifeCycle.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)

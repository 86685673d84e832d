"""After a loss of its snapshot, `decide` restores every decision from its published revisions and the controls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest

from lab.constants import params_of
from streams.decide.params import DecideParams
from streams.decide.stage import Decide
from streams.wire.models import (
    Control,
    ControlAnswer,
    ControlEffect,
    ControlKind,
    Endpoint,
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
from streams.wire.models import RemediationState as State
from streams.wire.stage import Output
from streams.wire.topics import CONTROL_ANSWERS
from tests.fixtures.decide_stage import ALWAYS_FRESH, NO_CAPS, TOP, finding, port_states, remediations, sound, state_of
from tests.worlds.observations import at

LINK = next(link for link in TOP.links.values() if tuple(link.lower) == ("p1-l0", "u0"))


@dataclass
class Rig:
    """A stage, with all that it read and published."""

    settings: dict[str, Any] = field(default_factory=dict)
    read: list[Message] = field(default_factory=list)
    published: list[Remediation] = field(default_factory=list)
    t: float = 0.0
    epoch: int = 0

    def __post_init__(self) -> None:
        self.stage = self.new_stage()
        self._take(self.stage.recover([]))
        self.process(*map(port_states, TOP.links_of))

    def new_stage(self) -> Decide:
        self.epoch += 1
        values = {"mode": "act", **ALWAYS_FRESH, **NO_CAPS, "cool_down_s": 0, **self.settings}
        stage = Decide(params_of(DecideParams, values))
        stage.start_epoch(self.epoch)
        stage.set_topology(TOP)
        return stage

    def _take(self, outputs: Sequence[Output]) -> None:
        self.published += remediations(outputs)

    def process(self, *messages: Message) -> None:
        self.read += messages
        self._take(self.stage.process(messages))

    def advance(self, seconds: float) -> None:
        self.t += seconds
        self._take(self.stage.advance_watermark(at(self.t)))

    def control(self, kind: ControlKind, subject: str = "", **changes: Any) -> None:
        one = Control(f"c{len(self.read)}", kind, subject, at(self.t), actor="anna", endless=True)
        self.process(replace(one, **changes))

    def lose(self, *meanwhile: Control) -> None:
        """Replace the stage by one without a snapshot, which reads all topics again."""
        controls = [one for one in self.read if isinstance(one, Control)]
        others = [one for one in self.read if not isinstance(one, Control)]
        self.read += meanwhile
        self.stage = self.new_stage()
        history = list(self.published)
        self._take(self.stage.recover([*history, *controls, *meanwhile]))
        self._take(self.stage.process(others))

    def carry_out(self) -> None:
        """Let automation accept and carry out what is approved, and repair and qualify the link."""
        for record in {one.id: one for one in self.published}.values():
            if record.state is State.APPROVED:
                self.process(RemediationResult(record.id, Outcome.ACCEPTED, actor="bot"))
                self.process(RemediationResult(record.id, Outcome.DONE, actor="bot"))

    def open(self, **changes: Any) -> Finding:
        found = finding("p1-l0/u0", t=self.t, **changes)
        self.process(found)
        self.advance(11)
        return found

    @property
    def last(self) -> Remediation:
        return self.published[-1]

    def states(self) -> list[State]:
        return [one.state for one in {one.id: one for one in self.published}.values() if one.state is not State.CLOSED]


def relapsed(rig: Rig, times: int) -> None:
    """Drain, repair, restore and relapse so many times."""
    for _ in range(times):
        rig.open()
        rig.carry_out()
        rig.process(RemediationResult(rig.last.id, Outcome.DONE, actor="bot"))
        rig.control(ControlKind.REPAIRED, next(one.id for one in reversed(rig.published) if one.state is State.DRAINED))
        begin = rig.t
        rig.t += 1000
        rig.process(*sound(LINK.id, begin, rig.t))
        rig.advance(1)
        rig.carry_out()
        rig.advance(1)


def rejected(rig: Rig) -> None:
    rig.open()
    rig.control(ControlKind.REJECT, rig.last.id)


def closed(rig: Rig) -> None:
    rejected(rig)
    rig.advance(90_000)
    assert rig.states() == []


def approved(rig: Rig) -> None:
    rig.open()


def repeated(rig: Rig) -> None:
    """The newest revision of a finding lost its parent again, and was decided after that."""
    one = finding("p1-l0/u0", t=rig.t)
    rig.process(one, replace(one, revision=2, parent_id="storm"), replace(one, revision=3))
    rig.advance(11)
    assert rig.last.state is State.APPROVED


def failed(rig: Rig) -> None:
    """An order of a repair failed once."""
    rig.open()
    rig.carry_out()
    rig.advance(30)
    repair = next(one for one in reversed(rig.published) if one.action.name == "REPAIR_LINK")
    rig.process(RemediationResult(repair.id, Outcome.ACCEPTED, actor="bot"))
    rig.process(RemediationResult(repair.id, Outcome.FAILED, actor="bot"))


HISTORIES: dict[str, Callable[[Rig], None]] = {
    "rejected": rejected, "rejected and closed": closed, "parent lost": repeated, "repair failed": failed,
    "one relapse": lambda rig: relapsed(rig, 2), "approved": approved,
}  # fmt: skip


def known(stage: Decide) -> dict[Any, Any]:
    """Return the remediations by id and field, the decisions on findings, and the isolations."""
    state = state_of(stage)
    remedies = {(key, name): value for key, one in state["remedies"].items() for name, value in one.items()}
    late = {(key, name): one[name] for key, one in state["late"].items() for name in one if name != "finding"}
    cases = {key: (one["decided"], one["rejected"], one["remedy"]) for key, one in state["cases"].items()}
    return {**remedies, **late, **cases, **state["isolations"]["active"]}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_the_state_after_a_loss_is_the_state_before(history: Callable[[Rig], None]) -> None:
    """Rejections, relapses, failures, orders and isolations; and nothing is decided again."""
    rig = Rig()
    history(rig)
    before, published = known(rig.stage), len(rig.published)
    rig.lose()
    after = known(rig.stage)
    assert {key: (after.get(key), one) for key, one in before.items() if after.get(key) != one} == {}
    rig.advance(11)
    again = [(one.state.name, one.reason) for one in rig.published[published:] if one.state is not State.ACCEPTED]
    assert not [one for one in again if one[0] in ("APPROVED", "DENIED", "DRAINED")]


UNKNOWN = ("p1-l0/x~s1/x", "link:p1-l0/x--s1/x", "port:p1-l0/x", "port:p1-l0", "device:p1-l0/x", "device:x9", "rail:s1")
"""Ids that are no link of the inventory; the name of a device is in most of them."""


def unknown(rig: Rig, name: str) -> None:
    rig.open(subject=Subject(name, Endpoint("p1-l0", "x"), Endpoint("s1", "x"), "fabric-link", pod="p1"))
    assert rig.last.target.id == name


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_decision_on_a_link_that_the_inventory_lacks_is_not_made_again(name: str) -> None:
    """Its target retains its name, and the denied action is retained."""
    rig = Rig()
    unknown(rig, name)
    before, published = known(rig.stage), list(rig.published)
    rig.lose()
    rig.advance(11)
    assert (known(rig.stage), rig.published) == (before, published)


UNREADABLE = (["id-1"], ["", "p1-l0"], ["", "", ""], ["a", "b", "c", "d"], ["", "gone", ""])


@pytest.mark.parametrize(
    "history", [approved, lambda rig: unknown(rig, "link:p1-l0/x#2--s1/x")], ids=["own", "unknown"]
)
@pytest.mark.parametrize("target", UNREADABLE, ids="/".join)
def test_a_target_without_a_readable_identity_retains_its_name(
    history: Callable[[Rig], None], target: list[str]
) -> None:
    """The identity in the memory is of another version, or its device is gone."""
    rig = Rig()
    history(rig)
    memory = {**orjson.loads(rig.last.memory), "target": target}
    rig.published[-1] = replace(rig.last, memory=orjson.dumps(memory).decode())
    before = known(rig.stage)
    rig.lose()
    assert known(rig.stage) == before


def test_a_rejected_finding_is_decided_again_only_if_it_changes() -> None:
    """A more severe revision leads to the next attempt, as without the loss."""
    rig = Rig()
    rejected(rig)
    one = next(one for one in rig.read if isinstance(one, Finding))
    rig.lose()
    rig.process(replace(one, revision=2, status=Status.UPDATED, severity=Severity.CRITICAL))
    rig.advance(11)
    assert (rig.last.state, rig.last.attempt) == (State.APPROVED, 2)


def test_an_attempt_ends_when_its_finding_becomes_what_was_rejected() -> None:
    """Rejected as a warning, decided again as critical but denied, a warning again: no end of a denial approves it."""
    rig = Rig()
    rejected(rig)
    one = next(one for one in rig.read if isinstance(one, Finding))
    other = Severity.CRITICAL if one.severity is Severity.WARNING else Severity.WARNING
    rig.process(Control("stop", ControlKind.EXCLUDE, one.subject.id, at(rig.t), at(rig.t + 60), actor="anna"))
    rig.process(replace(one, revision=2, status=Status.UPDATED, severity=other))
    rig.advance(11)
    attempt = rig.last
    assert attempt.attempt == 2 and attempt.state is State.DENIED
    rig.process(replace(one, revision=3, status=Status.UPDATED))
    rig.advance(60)
    rig.advance(60)
    after = rig.published[rig.published.index(attempt) :]
    assert all(record.state is not State.APPROVED for record in after)
    rig.process(replace(one, revision=4, status=Status.UPDATED, severity=other))
    rig.advance(11)
    assert rig.last.state is State.APPROVED


def test_a_relapse_by_what_was_rejected_waits_for_a_person() -> None:
    """Rejected as critical, drained and restored as a warning: critical on probation, no drain is approved."""
    rig = Rig()
    one = rig.open(severity=Severity.CRITICAL)
    rig.control(ControlKind.REJECT, rig.last.id)
    rig.process(one := replace(one, revision=2, status=Status.UPDATED, severity=Severity.WARNING))
    rig.advance(11)
    rig.carry_out()
    rig.control(ControlKind.REPAIRED, rig.last.id)
    begin, rig.t = rig.t, rig.t + 1000
    rig.process(*sound(LINK.id, begin, rig.t))
    rig.advance(1)
    rig.carry_out()
    assert rig.last.state is State.PROBATION
    rig.advance(1)
    rig.process(replace(one, revision=3, severity=Severity.CRITICAL, observed_at_ns=at(rig.t)))
    rig.advance(11)
    assert (rig.last.state, rig.last.verdict) == (State.ESCALATED, Verdict.NEEDS_APPROVAL)


def joined(rig: Rig, severity: Severity) -> Finding:
    """Let another finding join the last remediation."""
    other = finding("p1-l0/u0", t=rig.t, severity=severity)
    rig.process(other)
    rig.advance(11)
    assert rig.last.finding_ids[1:] == (other.id,)
    return other


@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.CRITICAL])
def test_a_rejection_holds_for_all_findings_of_its_remediation(severity: Severity) -> None:
    """A second one joined it; now that one gets the other severity, while the first is critical as it was."""
    rig = Rig()
    rig.open(severity=Severity.CRITICAL)
    other = joined(rig, Severity.CRITICAL if severity is Severity.WARNING else Severity.WARNING)
    rig.control(ControlKind.REJECT, rig.last.id)
    rig.process(replace(other, revision=2, status=Status.UPDATED, severity=severity))
    rig.advance(11)
    rig.advance(60)
    assert rig.last.state is State.DENIED


def test_a_restart_decides_nothing_on_a_finding_that_joined_a_remediation() -> None:
    """It had one of its own, which was denied; then the other one fails."""
    rig = Rig()
    stop = Control("stop", ControlKind.EXCLUDE, LINK.id, at(rig.t), at(30), actor="anna")
    rig.process(stop)
    rig.open()
    other = finding("p1-l0/u0", t=rig.t)
    rig.process(other)
    rig.advance(11)
    rig.advance(20)
    (first,) = {one.id: one for one in rig.published if one.state is State.APPROVED}.values()
    rig.process(replace(other, revision=2, status=Status.UPDATED, severity=Severity.CRITICAL))
    rig.advance(11)
    assert other.id in next(one for one in reversed(rig.published) if one.id == first.id).finding_ids
    rig.process(RemediationResult(first.id, Outcome.ACCEPTED, actor="bot"))
    rig.process(RemediationResult(first.id, Outcome.FAILED, actor="bot"))
    successor = rig.new_stage()
    successor.restore(rig.stage.snapshot())
    rig.advance(1)
    assert remediations(successor.advance_watermark(at(rig.t))) == [] and rig.last.state is State.FAILED


def test_the_third_relapse_is_escalated_although_the_state_was_lost_after_the_second() -> None:
    rig = Rig()
    relapsed(rig, 3)
    rig.lose()
    rig.open()
    assert rig.last.state is State.ESCALATED


def test_an_approval_given_meanwhile_counts_once_its_finding_is_read() -> None:
    """At the takeover the finding is unknown; the approval waits for it, and is answered then."""
    rig = Rig()
    rig.open(confidence=0.5)
    assert rig.last.state is State.WAITING
    approval = Control("yes", ControlKind.APPROVE, rig.last.id, at(rig.t + 1), actor="anna", endless=True)
    rig.lose(approval)
    rig.advance(2)
    assert (rig.last.state, rig.last.approved_by) == (State.APPROVED, "anna")


@pytest.mark.parametrize("keys", [[], ["Q" * 43 + "="]], ids=["unsigned", "signed"])
def test_a_control_that_its_recreated_topic_lacks_is_lifted(keys: list[str]) -> None:
    """A deletion has no signature, so that signed controls stay; then they have an answer, which a status shows."""
    stop = Control("stop", ControlKind.KILL_SWITCH, "", at(0), actor="anna")
    rig = Rig({"trusted_keys": keys})
    rig.process(stop)
    snapshot = rig.stage.snapshot()
    for content, expected in (([stop], "kill-switch"), ([], "kill-switch" if keys else "")):
        stage = rig.new_stage()
        stage.restore(snapshot)
        stage.set_topology(TOP)
        newest = {one.key or stop.id: one.message for one in stage.recover([], content) if one.topic is CONTROL_ANSWERS}
        assert newest[stop.id] == (ControlAnswer(stop, ControlEffect.TAKEN) if expected else None)
        stage.process([finding("p1-l0/u0", confidence=0.95)])
        assert remediations(stage.advance_watermark(at(11)))[-1].constraint == expected

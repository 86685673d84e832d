"""The outputs of `decide` and the state that remembers them are visible together or not at all, whatever kills it.

A drain runs from its finding to its result on a broker in memory. `decide` is killed at each effect in turn; meanwhile
a control or a late job arrives. Its successor must know the state of every id that readers of the topic have seen, and
decide none otherwise.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count

import pytest

from lab.constants import params_of, with_constants
from streams.config.runtime import RuntimeSettings
from streams.decide.life_cycle import TRANSITIONS
from streams.decide.params import DecideParams
from streams.decide.stage import Decide
from streams.instrument.clock import BrokerClock
from streams.instrument.metrics import NullMetrics
from streams.runtime.bindings import BINDINGS, Binding
from streams.runtime.inventory_versions import Versions
from streams.runtime.ordered_input import Chunk
from streams.runtime.partition_owner import OwnerContext, PartitionOwner
from streams.wire import topics
from streams.wire.models import (
    Action,
    Cause,
    Condition,
    Control,
    ControlKind,
    Finding,
    Job,
    Message,
    Outcome,
    Progress,
    Remediation,
    RemediationResult,
    SchedulerAnswer,
    Severity,
)
from streams.wire.models import RemediationState as State
from streams.wire.topics import Topic
from tests.fakes.broker import BrokerClient, FakeBroker
from tests.fakes.partition import Crash
from tests.fixtures.decide_stage import ALWAYS_FRESH, NO_CAPS, TOP, finding, open_states, out_of_service, port_states
from tests.fixtures.runtime_bindings import PARTITIONS, FixedClock, OwnerSource, make_processor
from tests.worlds.observations import at

DECIDE = BINDINGS["decide"]
PARAMS = params_of(DecideParams, {"mode": "act", **ALWAYS_FRESH, **NO_CAPS})
VALID = {(before, after) for (before, _), after in TRANSITIONS.items()}
BEGIN, ROUNDS = 2, 7
"""The finding arrives when the first snapshot is written: without one, a successor reads what was published."""
ISOLATIONS = (Action.DRAIN_LINK, Action.CORDON_HOST)
LINK = finding("p1-l0/u0", t=1024)
HOST = finding(
    "p1-h1", Condition.HOST_GPU_FAULT, t=1024, severity=Severity.CRITICAL, cause=Cause.GPU_OFF_BUS
)  # fmt: skip


@dataclass
class Scenario:
    """One fabric with one finding, the broker, and the present owner of `decide`."""

    found: Finding
    meanwhile: "Callable[[Scenario], None]"
    """Lets something arrive after the kill."""
    binding: Binding
    broker: FakeBroker
    t: float = 1000.0
    clock_s: float = 1000.0
    versions: Versions = field(default_factory=Versions)
    owner: PartitionOwner | None = None
    answered: int = 0
    done: list[Remediation] = field(default_factory=list)
    """The revisions that automation carried out."""
    approved: list[str] = field(default_factory=list)
    """The ids that a person approved."""

    def append(self, topic: Topic, message: Message, key: str | None = None) -> None:
        self.broker.now_ms = at(self.t) // 1_000_000
        self.broker.append(topics.encode(topic, message, key=key))

    def published(self) -> list[Remediation]:
        """Return what readers of committed records have seen."""
        found = [topics.decode(topics.REMEDIATIONS, one.value) for one in self.broker.records(topics.REMEDIATIONS)]
        return [one for one in found if isinstance(one, Remediation)]

    async def play(self) -> bool:
        """Play the drain and what follows for a while; return whether `decide` was killed."""
        self.versions.add(0, TOP)
        self.versions.set_job("j0", Job("j0", "p2-h1", at(0)))
        for device in TOP.links_of:
            self.append(topics.PORT_STATES, port_states(device, self.t))
        for number in range(ROUNDS):
            if number == BEGIN:
                self.append(topics.FINDINGS, self.found)
            if number == ROUNDS - 1:
                self.broker.left = 0  # the last successor is compared with what is published
            self.t += 12
            self._answer()
            self.append(topics.SCHEDULERS, SchedulerAnswer("slurm"))
            ends = len(self.broker.records(topics.FINDINGS))
            self.append(topics.PROGRESS, Progress("attribute", 0, 1, at(self.t), ends), key="attribute/0")
            try:
                await self._turns()
            except Crash:
                await self._end_killed()
                self.meanwhile(self)
        return self.broker.process > 0

    async def _end_killed(self) -> None:
        """Drop the owner, whose unfinished writes store nothing more."""
        if self.owner is not None:
            with suppress(Crash):
                await self.owner.written()
        self.owner = None

    def _answer(self) -> None:
        """Accept what is approved, and carry out what is confirmed."""
        records = self.published()
        for one in records[self.answered :]:
            if one.state is State.APPROVED:
                self._send(one, Outcome.ACCEPTED)
            elif one.state is State.ACCEPTED:
                self.done.append(one)
                self._send(one, Outcome.DONE)
        self.answered = len(records)

    def _send(self, one: Remediation, outcome: Outcome) -> None:
        self.append(topics.REMEDIATION_RESULTS, RemediationResult(one.id, outcome, actor="netbot"))

    async def _turns(self) -> None:
        """Let the owner read what arrived and write what follows; without an owner, start one."""
        if self.owner is None:
            await self._take_over()
        assert self.owner is not None
        for topic in DECIDE.inputs:
            stored, begin = self.broker.records(topic), self.read[topic.name]
            if begin < len(stored):
                self.read[topic.name] = len(stored)
                await self.owner.input.put(Chunk(topic.name, 0, begin, len(stored), stored[begin:], len(stored)))
        for _ in range(len(DECIDE.inputs)):
            self.clock_s += 1.1  # later than its next Progress, so that it does not wait
            await self.owner.turn()
        await self.owner.written()

    async def _take_over(self) -> None:
        client, clock = BrokerClient(self.broker), BrokerClock(FixedClock(at(self.t)), lambda: 0)
        self.processor = make_processor(self.binding, lambda _: Decide(PARAMS), self.versions, clock=clock)
        source = OwnerSource()
        context = OwnerContext(
            PARTITIONS, with_constants(RuntimeSettings, snapshot_s=12.0)(), clock, NullMetrics(), lambda: source,
            lambda: client, self.broker.consumer, client.open_transactions, now_s=lambda: self.clock_s,
        )  # fmt: skip
        self.owner = PartitionOwner(self.processor, context, lambda: True)
        await self.owner.take_over()
        self.read = dict(self.processor.positions)

    def contradictions(self) -> list[str]:
        """Return each revision that does not follow the one before, and what the last owner does not know."""
        last: dict[str, Remediation] = {}
        wrong: list[str] = []
        for one in (one for one in self.published() if one.action in ISOLATIONS):
            if (before := last.get(one.id)) is not None and (
                one.revision <= before.revision or not (one.state is before.state or (before.state, one.state) in VALID)
            ):
                wrong.append(f"{one.id}: {one.state.name} after {before.state.name}")
            last[one.id] = one
        stage = self.processor.stage
        assert isinstance(stage, Decide)
        known, out = open_states(stage), out_of_service(stage)
        differ = (one for one in last.values() if one.state is not State.CLOSED and known.get(one.id) is not one.state)
        wrong += [f"{one.id}: published {one.state.name}, known {known.get(one.id)}" for one in differ]
        wrong += [f"{one}: approved, and waits" for one in self.approved if last[one].state is State.WAITING]
        return wrong + [f"{one.target.id}: taken out, not counted" for one in self.done if one.target.id not in out]


def control(kind: ControlKind, subject: str = "") -> Callable[[Scenario], None]:
    """Let a control arrive; one without a subject is on the last remediation, except for a kill switch."""

    def arrive(own: Scenario) -> None:
        last = [one.id for one in own.published() if one.action in ISOLATIONS][-1:]
        own.approved += last if kind is ControlKind.APPROVE else []
        about = subject or ("" if kind is ControlKind.KILL_SWITCH else last[0] if last else "none")
        own.append(topics.CONTROLS, Control("c", kind, about, at(own.t), actor="anna", endless=True))

    return arrive


def late_job(own: Scenario) -> None:
    """Publish a job that ran on the host before anything was decided."""
    own.versions.set_job("j1", Job("j1", "p1-h1", at(900)))


MEANWHILE: dict[str, tuple[Finding, Callable[[Scenario], None]]] = {
    "kill switch": (LINK, control(ControlKind.KILL_SWITCH)),
    "exclusion": (LINK, control(ControlKind.EXCLUDE, LINK.subject.id)),
    "maintenance": (LINK, control(ControlKind.MAINTENANCE, "device:p1-l0")),
    "rejection": (LINK, control(ControlKind.REJECT)),
    "approval": (replace(LINK, confidence=0.6), control(ControlKind.APPROVE)),
    "late job": (HOST, late_job),
}


async def played(name: str, binding: Binding = DECIDE) -> tuple[int, list[str]]:
    """Kill at each effect in turn; return the number of kills and what was wrong."""
    found, meanwhile = MEANWHILE[name]
    wrong: list[str] = []
    for kill in count(1):
        own = Scenario(found, meanwhile, binding, FakeBroker(left=kill))
        if not await own.play():
            assert own.published(), "without a kill it decides"
            return kill - 1, wrong
        wrong += [f"killed at effect {kill}: {one}" for one in own.contradictions()]
    raise AssertionError


@pytest.mark.parametrize("name", MEANWHILE)
async def test_a_kill_at_any_effect_makes_no_successor_decide_otherwise(name: str) -> None:
    """The state is in the transaction of what it led to, with the position of every input, controls included."""
    kills, wrong = await played(name)
    assert kills > 7 and wrong == []


@pytest.mark.parametrize("name", MEANWHILE)
async def test_without_transactions_it_would(name: str) -> None:
    """The same kills between the outputs and the next snapshot: each of these was wrong before."""
    _, wrong = await played(name, replace(DECIDE, is_transactional=False))
    assert wrong

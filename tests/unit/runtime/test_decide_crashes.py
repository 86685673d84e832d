"""A killed owner of `decide` leaves nothing published that its successor does not know, whatever it is killed at.

Random histories of findings, controls, jobs and answers of automation run on a broker in memory. The owner is killed at
random effects: before a record is sent, before a commit, during a takeover. Controls arrive while no owner runs.
"""

import os
import random
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from lab.constants import params_of, with_constants
from streams.config.runtime import RuntimeSettings
from streams.decide.life_cycle import TRANSITIONS
from streams.decide.params import DecideParams
from streams.decide.stage import Decide
from streams.instrument.clock import BrokerClock
from streams.instrument.metrics import NullMetrics
from streams.runtime.bindings import BINDINGS
from streams.runtime.inventory_versions import Versions
from streams.runtime.ordered_input import Chunk
from streams.runtime.partition_owner import OwnerContext, PartitionOwner
from streams.runtime.partition_processor import PartitionProcessor
from streams.wire import topics
from streams.wire.models import (
    Action,
    Control,
    ControlKind,
    Job,
    Message,
    Outcome,
    Progress,
    Remediation,
    RemediationResult,
)
from streams.wire.models import RemediationState as State
from streams.wire.topics import Partitions, Topic
from tests.fakes.broker import FakeBroker, FakeClient
from tests.fakes.partition import Crash
from tests.fixtures.decide_stage import ALWAYS_FRESH, NO_CAPS, TOP, finding, open_states, port_states
from tests.fixtures.runtime_bindings import FixedClock, OwnerSource
from tests.worlds.observations import at

HISTORIES = int(os.environ.get("RAILSIGHT_HISTORIES", "4"))
DECIDE = BINDINGS["decide"]
LINKS = sorted(f"{link.lower.device}/{link.lower.port}" for link in TOP.links.values() if link.role == "fabric-link")
VALID = {(before, after) for (before, _), after in TRANSITIONS.items()}
ORDER_ENDS = (State.ACCEPTED, State.CLOSED, State.FAILED, State.NO_ANSWER, State.DENIED)


@dataclass
class History:
    """One fabric, one broker, and the present owner of `decide`."""

    seed: int
    kinds: tuple[ControlKind, ...]
    t: float = 1000.0
    number: int = 0
    broker: FakeBroker = field(default_factory=FakeBroker)
    versions: Versions = field(default_factory=Versions)
    owner: PartitionOwner | None = None
    owner_s: float = 1000.0
    kills: int = 0
    answered: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.clock = FixedClock(at(self.t))
        self.versions.add(0, TOP)
        for device in TOP.links_of:
            self.append(topics.PORT_STATES, port_states(device, self.t))

    def append(self, topic: Topic, message: Message, key: str | None = None) -> None:
        self.broker.now_ms = at(self.t) // 1_000_000
        self.broker.append(topics.encode(topic, message, key=key))

    def published(self) -> list[Remediation]:
        found = (topics.decode(topics.REMEDIATIONS, r.value) for r in self.broker.records(topics.REMEDIATIONS))
        return [one for one in found if isinstance(one, Remediation)]

    async def begin(self) -> None:
        """Start an owner; it may be killed during its takeover."""
        client = FakeClient(self.broker)
        clock = BrokerClock(self.clock, lambda: 0)
        processor = PartitionProcessor(
            DECIDE, 0,
            lambda _: Decide(params_of(DecideParams, {"mode": "act", **ALWAYS_FRESH, **NO_CAPS, "cool_down_s": 0})),
            Partitions(), self.versions, clock=clock, metrics=NullMetrics(),
        )  # fmt: skip
        source = OwnerSource()
        context = OwnerContext(
            Partitions(), with_constants(RuntimeSettings, snapshot_s=8.0)(), clock, NullMetrics(), lambda: source,
            lambda: client, self.broker.consumer, client.open_transactions, now_s=lambda: self.owner_s,
        )  # fmt: skip
        self.owner, self.processor = PartitionOwner(processor, context, lambda: True), processor
        await self.owner.take_over()
        self.sent = dict(processor.positions)

    async def turn(self) -> None:
        """Let the owner read what arrived; without one, start one."""
        try:
            if self.owner is None:
                await self.begin()
            owner = self.owner
            assert owner is not None
            for topic in DECIDE.inputs:
                stored = self.broker.records(topic)
                if stored[self.sent[topic.name] :]:
                    start = self.sent[topic.name]
                    self.sent[topic.name] = len(stored)
                    await owner.input.put(Chunk(topic.name, 0, start, len(stored), stored[start:], len(stored)))
            while any(self.processor.positions[name] < end for name, end in self.sent.items()):
                self.owner_s += 1.1
                await owner.turn()
            for _ in range(3):
                self.owner_s += 1.1  # later than its next Progress, so that it does not wait
                await owner.turn()
                if self.chance.random() < 0.7:
                    await owner.written()
        except Crash:
            self.kills += 1
            if self.owner is not None:
                with suppress(Crash):
                    await self.owner.written()
            self.owner = None

    async def step(self) -> None:
        """Let something happen, then let the owner read it."""
        what = self.chance.random()
        if what < 0.35:
            self.append(topics.FINDINGS, finding(self.chance.choice(LINKS), t=self.t - 11, confidence=0.95))
        elif what < 0.6:
            self._control()
        elif what < 0.7:
            # A job may be published late: it began before the decision that did not know it.
            host = self.chance.choice([name for name in TOP.devices if TOP.devices[name].kind == "host"])
            self.versions.set_job(f"j{self.number}/{host}", Job(f"j{self.number}", host, at(self.t - 100)))
        self._answer()
        if not self.chance.randrange(4):
            self.broker.kill_after = self.chance.randint(1, 12)
        self.t += self.chance.choice([0.2, 1.0, 12.0])
        self._progress()
        if self.chance.random() < 0.75:
            await self.turn()

    def _progress(self) -> None:
        self.clock.ns = at(self.t)
        for device in self.chance.sample(sorted(TOP.links_of), 2):
            self.append(topics.PORT_STATES, port_states(device, self.t))
        ends = len(self.broker.records(topics.FINDINGS))
        self.append(topics.PROGRESS, Progress("attribute", 0, 1, at(self.t), ends), key="attribute/0")

    def _control(self) -> None:
        self.number += 1
        kind, subject, identity = self.chance.choice(self.kinds), "", f"c{self.number}"
        known = [one.id for one in self.published()]
        if kind in (ControlKind.APPROVE, ControlKind.REJECT):
            subject = self.chance.choice(known) if known else "none"
        elif kind is not ControlKind.KILL_SWITCH:
            subject = self.chance.choice(sorted(TOP.links))
        if kind is ControlKind.KILL_SWITCH:
            identity = "stop"
            kind = self.chance.choice([kind, ControlKind.KIND_UNSPECIFIED])
        if kind is ControlKind.KIND_UNSPECIFIED:
            self.broker.append(topics.tombstone(topics.CONTROLS, identity))
        else:
            control = Control(identity, kind, subject, at(self.t), actor="anna", endless=True)
            self.append(topics.CONTROLS, control)

    def _answer(self) -> None:
        """Automation accepts what is approved, and carries out what is accepted."""
        records = self.published()
        for record in records[self.answered :]:
            if record.state is State.APPROVED:
                self.append(topics.REMEDIATION_RESULTS, RemediationResult(record.id, Outcome.ACCEPTED, actor="bot"))
            elif record.state is State.ACCEPTED:
                outcome = self.chance.choice([Outcome.DONE, Outcome.DONE, Outcome.FAILED])
                self.append(topics.REMEDIATION_RESULTS, RemediationResult(record.id, outcome, actor="bot"))
        self.answered = len(records)

    def check(self) -> list[str]:
        """Return what is wrong: transitions that the life cycle does not have, and what the owner does not know."""
        last: dict[str, Remediation] = {}
        wrong: list[str] = []
        for record in self.published():
            before = last.get(record.id)
            is_order = before is not None and before.state in (State.APPROVED, State.ACCEPTED)
            if (
                before is not None
                and before.state is not record.state
                and not ((before.state, record.state) in VALID or (is_order and record.state in ORDER_ENDS))
            ):
                wrong.append(f"{record.id}: {record.state.name} after {before.state.name}")
            if before is not None and record.revision <= before.revision:
                wrong.append(f"{record.id}: revision {record.revision} after {before.revision}")
            last[record.id] = record
        stage = self.processor.stage
        assert isinstance(stage, Decide)
        known = open_states(stage)
        drains = (one for one in last.values() if one.action is Action.DRAIN_LINK and one.state is not State.CLOSED)
        unknown = (one for one in drains if known.get(one.id) is not one.state)
        return wrong + [f"{one.id}: published {one.state.name}, known {known.get(one.id)}" for one in unknown]


CONTROLS = {
    "kill switch": (ControlKind.KILL_SWITCH,),
    "exclusions": (ControlKind.EXCLUDE, ControlKind.MAINTENANCE),
    "answers": (ControlKind.APPROVE, ControlKind.REJECT),
    "all": (ControlKind.KILL_SWITCH, ControlKind.EXCLUDE, ControlKind.APPROVE, ControlKind.REJECT),
}


@pytest.mark.parametrize("kinds", CONTROLS.values(), ids=CONTROLS)
async def test_no_kill_makes_a_successor_decide_otherwise(kinds: tuple[ControlKind, ...]) -> None:
    """The log has only transitions of the life cycle, and the last owner knows the state of each drain."""
    wrong, kills = [], 0
    for seed in range(HISTORIES):
        history = History(seed, kinds)
        for _ in range(40):
            await history.step()
        history.broker.kill_after = 0
        for _ in range(3):
            history.t += 1
            history._progress()
            await history.turn()
        kills += history.kills
        assert history.published(), seed
        wrong += [f"seed {seed}: {one}" for one in history.check()]
    assert kills > HISTORIES
    assert not wrong, "\n".join(wrong)

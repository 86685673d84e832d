"""`decide` is killed and paused at random moments under a stream of findings, controls and answers of automation.

Readers of committed records see only transitions of the life cycle, the last snapshot has the state of every open drain
and counts exactly the links that are out of service, and no switch ever has less uplinks than its floor. Meanwhile an
operator types `railsight kill-switch`, `exclude`, `reject` and `approve` in another process, and nothing is approved
against a command that was confirmed. `RAILSIGHT_KILLS` sets the number of kills.
"""

import asyncio
import logging
import math
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from lab.constants import is_constant
from streams.cli.controls import UNCONFIRMED
from streams.config.kafka import KafkaSettings
from streams.decide.life_cycle import TRANSITIONS
from streams.decide.state import DecideState
from streams.runtime.admin import ensure_topics
from streams.runtime.reliable_sender import PartitionLost
from streams.runtime.snapshots import SnapshotAssembler
from streams.runtime.topic_io import follow, inventory_records, open_producer, publish, read_to_end, send
from streams.runtime.transactions import TransactionalSender, TransactionFailed, open_transactional_producer
from streams.wire import topics
from streams.wire.models import (
    Action,
    Control,
    ControlAnswer,
    ControlKind,
    Finding,
    Message,
    Outcome,
    Progress,
    ReadingsHeartbeat,
    Remediation,
    RemediationResult,
    SnapshotChunk,
    Status,
)
from streams.wire.models import RemediationState as State
from streams.wire.topics import Topic
from tests.fixtures.decide_stage import NO_CAPS, TOP, finding, port_states, readings
from tests.integration.runtime.commands import command_line, start_in_background
from tests.integration.runtime.rig import wait_until
from tests.worlds.observations import T0, at
from tests.worlds.small_fabric import inventory

log = logging.getLogger(__name__)
KILLS = int(os.environ.get("RAILSIGHT_KILLS", "5"))
pytestmark = pytest.mark.timeout(300 + 30 * KILLS)

UPLINKS = {identity: link for identity, link in TOP.links.items() if link.role == "fabric-link"}
LINKS = sorted(f"{link.lower.device}/{link.lower.port}" for link in UPLINKS.values())
LEAVES = Counter(link.lower.device for link in UPLINKS.values())
VALID = {(before, after) for (before, _), after in TRANSITIONS.items()}
SETTINGS = {
    "mode": "act", **NO_CAPS, "actions_per_hour": 1000, "cool_down_s": 0, "settle_s": 0.2, "evaluate_s": 1.0,
    "freshness_s": 1e9, "qualification.qualify_s": 2.0, "qualification.ber": 1e-9, "probation_s": 0.5,
    "max_relapses": 10**6,
}  # fmt: skip
"""Links return some seconds after their drain, so that any number of kills meets drains, repairs and restores."""
CONTROLS = (ControlKind.KILL_SWITCH, ControlKind.EXCLUDE, ControlKind.REJECT, ControlKind.REPAIRED)
MOST_REVISIONS = 25
"""The most revisions between the begin of a process and its kill."""
MOST_UNANSWERED = 5
"""With more unanswered controls the stream pauses: it must not outrun a `decide` that is killed all the time."""


def now_s() -> float:
    """Return the present time on the scale of the fixtures."""
    return time.time() - T0


class Fabric:
    """Sends the input of `decide`, and answers as an automation."""

    def __init__(self, kafka: KafkaSettings, seed: int) -> None:
        self.kafka, self._chance, self._sent, self.is_calm = kafka, random.Random(seed), 0, False
        self._findings: dict[str, Finding] = {}
        self._approved: list[str] = []
        self.drains: dict[str, Remediation] = {}
        """The last revision of each drain."""
        self._producer: Any = None
        self.seen = 0
        """The number of committed revisions."""
        self.out: set[str] = set()
        """The links that are out of service."""
        self.below_floor: list[str] = []
        self._unanswered: set[int] = set()
        """The offsets of the controls that `decide` has not answered."""

    async def send(self, topic: Topic, message: Message, key: str | None = None) -> int:
        return int((await (await send(self._producer, topics.encode(topic, message, key=key), 0))).offset)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Feed `decide` and answer it until the end of the context."""
        await publish(self.kafka, inventory_records(inventory(), 1))
        async with open_producer(self.kafka) as self._producer, asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(part()) for part in (self._feed, self._measure, self._carry_out, self._read_answers)
            ]
            yield
            for task in running:
                task.cancel()

    async def _feed(self) -> None:
        for device in TOP.links_of:
            await self.send(topics.PORT_STATES, port_states(device, now_s()))
        while True:
            await self.send(topics.PORT_STATES, ReadingsHeartbeat(0, at(now_s())))
            is_quiet = self.is_calm or len(self._unanswered) > MOST_UNANSWERED
            if not is_quiet and self._chance.random() < 0.4:
                is_sure = self._chance.random() < 0.95  # the others wait for an approval
                confidence = 0.95 if is_sure else 0.6
                await self._find(finding(self._chance.choice(LINKS), t=round(now_s(), 3), confidence=confidence))
            if not is_quiet and self._chance.random() < 0.3:
                await self._control()
            progress = Progress("attribute", 0, 1, at(now_s()), self._sent)
            await self.send(topics.PROGRESS, progress, "attribute/0")
            await asyncio.sleep(0.1)

    async def _find(self, one: Finding) -> None:
        self._findings[one.id] = one
        await self.send(topics.FINDINGS, one)
        self._sent += 1

    async def _measure(self) -> None:
        """Send sound readings of every uplink without a gap."""
        begin = round(now_s(), 3)
        while True:
            await asyncio.sleep(1)
            end = round(now_s(), 3)
            for link in UPLINKS.values():
                for port in (link.lower, link.upper):
                    await self.send(topics.PORT_STATES, readings(*port, begin, end))
            begin = end

    async def _control(self) -> None:
        kind = self._chance.choice(CONTROLS)
        if kind is ControlKind.KILL_SWITCH:
            # Off twice as often as on, so that most findings are decided.
            if self._chance.random() < 0.33:
                await self._send_control(Control("stop", kind, "", at(now_s()), actor="anna"))
            else:
                await self.calm()
            return
        subject = self._chance.choice(sorted(TOP.links))
        if kind is ControlKind.REPAIRED:
            await self.repair(self._chance.choice(sorted(self.out) or ["none"]))
            return
        if kind is ControlKind.REJECT:
            subject = self._chance.choice(self._approved or ["none"])
        until_ns = at(now_s() + self._chance.uniform(0.5, 3))
        identity = f"{kind.name}/{subject}"
        await self._send_control(Control(identity, kind, subject, at(now_s()), until_ns, actor="anna"))

    async def _send_control(self, control: Control) -> None:
        self._unanswered.add(await self.send(topics.CONTROLS, control))

    async def _read_answers(self) -> None:
        async for record in follow(self.kafka, topics.CONTROL_ANSWERS):
            answer = record.value and topics.decode(topics.CONTROL_ANSWERS, record.value)
            if isinstance(answer, ControlAnswer) and answer.control is not None:
                self._unanswered = {offset for offset in self._unanswered if offset > answer.control.offset}

    async def repair(self, link: str) -> None:
        """Report a repair, as a person does after a rejected repair or restore."""
        kind, t = ControlKind.REPAIRED, at(now_s())
        await self._send_control(Control(f"{kind.name}/{link}/{t}", kind, link, t, actor="anna"))

    async def calm(self) -> None:
        """End the kill switch."""
        await (await send(self._producer, topics.tombstone(topics.CONTROLS, "stop"), 0))

    async def _carry_out(self) -> None:
        """Accept what is approved, carry out what is confirmed, and report that the rest was not carried out."""
        unconfirmed = set()
        async for record in follow(self.kafka, topics.REMEDIATIONS):
            one = topics.decode(topics.REMEDIATIONS, record.value)
            assert isinstance(one, Remediation)
            self.seen += 1
            if one.action is Action.DRAIN_LINK:
                self.drains[one.id] = one
            if one.state is State.APPROVED:
                self._approved.append(one.id)
                unconfirmed.add(one.id)
                await self._answer(one, Outcome.ACCEPTED)
                continue
            if one.state is State.ACCEPTED:
                await self._change(one)
                await self._answer(one, Outcome.DONE)
            elif one.id in unconfirmed:
                await self._answer(one, Outcome.FAILED)
            unconfirmed.discard(one.id)

    async def _answer(self, one: Remediation, outcome: Outcome) -> None:
        await self.send(topics.REMEDIATION_RESULTS, RemediationResult(one.id, outcome, actor="bot"))

    async def _change(self, one: Remediation) -> None:
        """Drain or restore a link; a drained one has no fault any more."""
        if one.action is Action.RESTORE_LINK:
            self.out.discard(one.target.id)
        elif one.action is Action.DRAIN_LINK:
            self.out.add(one.target.id)
            leaf = UPLINKS[one.target.id].lower.device
            if 2 * sum(UPLINKS[link].lower.device == leaf for link in self.out) > LEAVES[leaf]:
                self.below_floor.append(f"{one.id}: {sorted(self.out)}")
            for found in filter(None, map(self._findings.get, one.finding_ids)):
                await self._resolve(found)

    async def _resolve(self, found: Finding) -> None:
        await self._find(replace(found, revision=2, status=Status.RESOLVED, resolved_at_ns=at(now_s())))

    async def end(self) -> None:
        """End the kill switch and all faults: an open finding would be a drain as soon as another link is back."""
        self.is_calm = True
        await self.calm()
        for found in [one for one in self._findings.values() if one.status is Status.OPEN]:
            await self._resolve(found)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A command that ended with status 0, and what must not be approved from then on."""

    command: str
    since_ms: float
    until_ms: float
    target: str = ""
    """The link of an exclusion; empty for all links."""
    findings: frozenset[str] = frozenset()
    """The findings of a rejected remediation, which no other may act on; empty for any."""

    def forbids(self, one: Remediation, sent_ms: float) -> bool:
        """Return whether a revision must not have been sent at this time."""
        is_action = one.state is State.APPROVED and one.action in (Action.DRAIN_LINK, Action.REPAIR_LINK)
        if not is_action or not self.since_ms < sent_ms < self.until_ms:
            return False
        if self.findings:
            return one.action is Action.DRAIN_LINK and self.findings.issuperset(one.finding_ids)
        return self.target in ("", one.target.id)


class Operator:
    """Runs commands one after the other, each in a process of its own."""

    def __init__(self, fabric: Fabric, seed: int) -> None:
        self._fabric, self._chance = fabric, random.Random(seed)
        self.confirmed: list[Confirmed] = []
        self.approved: list[str] = []
        """The drains with a confirmed approval."""
        self.statuses: Counter[str] = Counter()
        self._commands = (self._exclude, self._stop, self._approve, self._reject)
        self._to_end: dict[tuple[str, ...], None] = {}
        """The commands that end what is in effect."""

    async def run(self) -> None:
        """Run commands until the task is canceled."""
        while True:
            await self._chance.choice(self._commands)()
            await asyncio.sleep(0.5)

    async def end(self) -> None:
        """Run each command once more, and end what a canceled command left in effect."""
        for command in self._commands:
            await command()
        for arguments in list(self._to_end):
            await self._railsight(*arguments)

    async def _railsight(self, *arguments: str) -> int:
        own = command_line(*arguments, "--bootstrap", self._fabric.kafka.bootstrap)
        null = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*own, stdin=null, stdout=null, stderr=null)
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            process.kill()
            raise
        self.statuses[f"{arguments[0]} {status}"] += 1
        return status

    async def _exclude(self) -> None:
        link = self._chance.choice(sorted(UPLINKS))
        await self._while_on(("exclude", "add", link, "--hours", "1"), ("exclude", "remove", link), link)

    async def _stop(self) -> None:
        await self._while_on(("kill-switch", "on"), ("kill-switch", "off"))

    async def _while_on(self, begin: tuple[str, ...], end: tuple[str, ...], target: str = "") -> None:
        self._to_end[end] = None
        status, since_ms = await self._railsight(*begin), time.time() * 1000
        await asyncio.sleep(1)
        if status == 0:
            self.confirmed.append(Confirmed(" ".join(begin), since_ms, time.time() * 1000, target))
        if await self._railsight(*end) in (0, UNCONFIRMED):
            del self._to_end[end]

    async def _reject(self) -> None:
        if one := self._last(State.APPROVED, State.WAITING, State.DENIED):
            findings = frozenset(one.finding_ids)
            if await self._railsight("reject", one.id) == 0:
                self.confirmed.append(Confirmed("reject", time.time() * 1000, math.inf, findings=findings))

    async def _approve(self) -> None:
        if (one := self._last(State.WAITING)) and await self._railsight("approve", one.id) == 0:
            self.approved.append(one.id)

    def _last(self, *states: State) -> Remediation | None:
        return next((one for one in reversed(self._fabric.drains.values()) if one.state in states), None)

    async def violations(self) -> list[str]:
        """Return the revisions that a confirmed command forbids, and the confirmed approvals without an effect."""
        sent, approved = [], set()
        async for record in read_to_end(self._fabric.kafka, topics.REMEDIATIONS):
            one = topics.decode(topics.REMEDIATIONS, record.value)
            assert isinstance(one, Remediation)
            sent.append((one, record.timestamp))
            if one.approved_by:
                approved.add(one.id)
        wrong = [f"{own} {one}" for one, at_ms in sent for own in self.confirmed if own.forbids(one, at_ms)]
        return wrong + [
            f"{identity}: approved without effect" for identity in self.approved if identity not in approved
        ]


async def published(kafka: KafkaSettings) -> list[Remediation]:
    """Return all committed revisions."""
    found = [topics.decode(topics.REMEDIATIONS, one.value) async for one in read_to_end(kafka, topics.REMEDIATIONS)]
    return [one for one in found if isinstance(one, Remediation)]


async def known_state(kafka: KafkaSettings) -> DecideState | None:
    """Return the state in the last committed snapshot."""
    assembler = SnapshotAssembler()
    async for record in read_to_end(kafka, topics.SNAPSHOTS["decide"]):
        chunk = record.value and topics.decode(topics.SNAPSHOTS["decide"], record.value, record.headers)
        assert chunk is None or isinstance(chunk, SnapshotChunk)
        assembler.add((record.key or b"").decode(), chunk)
    return None if assembler.best is None else DecideState.from_bytes(assembler.best.state)


def contradictions(records: list[Remediation]) -> list[str]:
    """Return the revisions that do not follow the one before of their drain."""
    last: dict[str, Remediation] = {}
    wrong = []
    for one in records:
        before = last.get(one.id)
        if before is not None and one.revision <= before.revision:
            wrong.append(f"{one.id}: revision {one.revision:x} after {before.revision:x}")
        is_step = before is None or before.state is one.state or (before.state, one.state) in VALID
        if one.action is Action.DRAIN_LINK and before is not None and not is_step:
            wrong.append(f"{one.id}: {one.state.name} ({one.reason}) after {before.state.name} ({before.reason})")
        last[one.id] = one
    return wrong


def open_drains(records: list[Remediation]) -> dict[str, State]:
    """Return the last published states of all drains that are not closed."""
    last = {one.id: one for one in records if one.action is Action.DRAIN_LINK}
    return {identity: one.state for identity, one in last.items() if one.state is not State.CLOSED}


async def has_published(fabric: Fabric, more: int, output: Path) -> None:
    """Wait until this number of further revisions is committed."""
    count = fabric.seen + more

    async def has_them() -> bool:
        return fabric.seen >= count

    await wait_until(has_them, 300, f"{more} more revisions", every_s=0.02, logs=(output,))


async def differences(fabric: Fabric) -> list[str]:
    """Return the links that are out or count as out, and the drains with another state than on Kafka."""
    known = await known_state(fabric.kafka)
    if known is None:
        return ["no snapshot"]
    states = {one.id: one.state for one in known.remedies.values()}
    expected = open_drains(await published(fabric.kafka))
    found = [
        f"{one}: {states.get(one)}, on Kafka {state}" for one, state in expected.items() if states.get(one) != state
    ]
    return [
        *found,
        *(f"out: {link}" for link in fabric.out),
        *(f"counts as out: {one}" for one in known.isolations.active),
    ]


async def settle(fabric: Fabric, output: Path) -> None:
    """End the kill switch and the findings; wait until every link is back, and the last snapshot agrees."""
    await fabric.end()
    found = [""]

    async def agrees() -> bool:
        found[:] = await differences(fabric)
        for link in sorted(fabric.out):
            await fabric.repair(link)
        return not found

    with suppress(AssertionError):
        await wait_until(agrees, 90, "the published states", every_s=5, logs=(output,))
    assert found == []


@contextmanager
def decide(kafka: KafkaSettings, folder: Path, instance: str) -> Iterator[Any]:
    """Run `railsight process decide` until the end of the context, which kills it."""
    constants = {f"decide.{name}": value for name, value in SETTINGS.items() if is_constant(f"decide.{name}")}
    settings = {
        f"RAILSIGHT__DECIDE__{name.upper().replace('.', '__')}": str(value)
        for name, value in SETTINGS.items()
        if f"decide.{name}" not in constants
    }
    env = os.environ | settings | {"RAILSIGHT__RUNTIME__DATA": str(folder), "XDG_DATA_HOME": str(folder)}
    arguments = ("process", "decide", "--bootstrap", kafka.bootstrap, "--instance", instance)
    process = start_in_background(folder / f"{instance}.log", env, constants, *arguments)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


async def test_a_killed_decide_contradicts_nothing_that_it_published(bootstrap: str, tmp_path: Path) -> None:
    """Each of its successors knows the state of every drain, whatever arrived between its last output and the kill."""
    kafka, chance = KafkaSettings.model_validate({"bootstrap": bootstrap}), random.Random(1)
    fabric, output = Fabric(kafka, 1), tmp_path / "one.log"
    operator = Operator(fabric, 4)
    async with fabric.running():
        async with asyncio.TaskGroup() as tasks:
            commands = tasks.create_task(operator.run())
            for number in range(KILLS):
                log.info("kill %d of %d, %d revisions, %s", number + 1, KILLS, fabric.seen, dict(operator.statuses))
                with decide(kafka, tmp_path, "one"):
                    # By the number of revisions, not by time: a loaded machine is not killed before it has decided.
                    await has_published(fabric, chance.randint(1, MOST_REVISIONS), output)
                    await asyncio.sleep(chance.uniform(0, 0.2))
            commands.cancel()
        with decide(kafka, tmp_path, "one"):
            await operator.end()
            await settle(fabric, output)
    records = await published(kafka)
    counts = Counter(f"{one.action.name} {one.state.name}" for one in records)
    log.info("%d kills, %d ids, %d revisions: %s", KILLS, len({one.id for one in records}), len(records), dict(counts))
    log.info("commands by status: %s; %d confirmed", dict(operator.statuses), len(operator.confirmed))
    assert contradictions(records) == [] and fabric.below_floor == [] and await operator.violations() == []
    assert counts["DRAIN_LINK DRAINED"] >= KILLS / 3 and counts["RESTORE_LINK CLOSED"] > 0 and operator.confirmed


async def test_a_decide_without_its_snapshots_continues_from_what_it_published(bootstrap: str, tmp_path: Path) -> None:
    """The topic of its snapshots is deleted while it is down; its successor knows every drain."""
    kafka, output = KafkaSettings.model_validate({"bootstrap": bootstrap}), tmp_path / "one.log"
    fabric = Fabric(kafka, 3)
    async with fabric.running():
        with decide(kafka, tmp_path, "one"):
            await has_published(fabric, 40, output)
        admin = AIOKafkaAdminClient(**kafka.client_options())
        await admin.start()
        await admin.delete_topics([topics.SNAPSHOTS["decide"].name])

        async def is_deleted() -> bool:
            return topics.SNAPSHOTS["decide"].name not in await admin.list_topics()

        await wait_until(is_deleted, 30, "the deletion of the snapshots")
        await admin.close()
        await ensure_topics(kafka)
        with decide(kafka, tmp_path, "one"):
            await has_published(fabric, 30, output)
            await settle(fabric, output)
    assert contradictions(await published(kafka)) == []


async def test_a_paused_decide_publishes_nothing_after_its_successor(bootstrap: str, tmp_path: Path) -> None:
    """The successor decides meanwhile; the predecessor resumes with its old state, and continues with the new one."""
    kafka = KafkaSettings.model_validate({"bootstrap": bootstrap})
    fabric = Fabric(kafka, 2)
    async with fabric.running():
        with ExitStack() as stack:
            paused = stack.enter_context(decide(kafka, tmp_path, "paused"))
            await has_published(fabric, 1, tmp_path / "paused.log")
            paused.send_signal(signal.SIGSTOP)
            output = tmp_path / "next.log"
            stack.enter_context(decide(kafka, tmp_path, "next"))
            await has_published(fabric, 10, output)
            paused.send_signal(signal.SIGCONT)
            await has_published(fabric, 30, output)
            await settle(fabric, output)
    assert contradictions(await published(kafka)) == []


@pytest.mark.parametrize("is_owner", [True, False], ids=["restored again", "lost"])
async def test_a_transaction_of_a_fenced_owner_is_not_read(bootstrap: str, is_owner: bool) -> None:
    """Neither what it had sent before its successor began nor what it commits later; the successor is read at once."""
    kafka = KafkaSettings.model_validate({"bootstrap": bootstrap})

    def control(name: str) -> list[topics.Record]:
        return [topics.encode(topics.CONTROLS, Control(name, ControlKind.ACKNOWLEDGE, "f", 1))]

    async def read() -> list[str]:
        return [(record.key or b"").decode() async for record in read_to_end(kafka, topics.CONTROLS)]

    is_owned, opening = True, partial(open_transactional_producer, kafka)
    former = TransactionalSender(opening, "decide.0", lambda: is_owned)
    successor = TransactionalSender(opening, "decide.0", lambda: True)
    await former.open()
    await former.send(control("first"), [0])
    await successor.open()
    is_owned = is_owner
    with pytest.raises(TransactionFailed if is_owner else PartitionLost):
        await former.send(control("late"), [0])
    await successor.send(control("second"), [0])
    assert await read() == ["first", "second"]
    for one in (former, successor):
        await one.close()

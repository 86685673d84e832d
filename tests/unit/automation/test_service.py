"""Tests the service with a fake Kafka: the read to the end of the topic, offsets, and answers that are retried."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from railsight_automation.engine import Engine
from railsight_automation.journal import Journal
from railsight_automation.messages import decode_remediation
from railsight_automation.service import KafkaAnswers, Service
from railsight_automation.signing import Verifier

from streams.wire.models import InputLoss
from streams.wire.signatures import Signer, load_private_key, new_private_key, public_text
from streams.wire.topics import INPUT_LOSSES, REMEDIATIONS, decode
from streams.wire.topics import Record as WireRecord
from tests.fixtures.automation import ACTOR, CONFIRMED, NOW_NS, TARGET, Devices, MemoryPlanner, remediation_json
from tests.fixtures.waiting import until


class Partition(NamedTuple):
    topic: str
    partition: int


class Record(NamedTuple):
    value: bytes | None
    offset: int
    key: bytes = b""
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int = NOW_NS // 10**6


P0 = Partition("remediations", 0)


@dataclass
class FakeKafka:
    """One partition in memory, and the results that were sent; `failures` sends fail first."""

    log: list[bytes | None] = field(default_factory=list)
    begin: int = 0
    next_offset: int = 0
    results: list[dict[str, str]] = field(default_factory=list)
    losses: list[InputLoss] = field(default_factory=list)
    headers: list[tuple[str, bytes]] = field(default_factory=list)
    """Of the last result."""
    signed: dict[bytes | None, Record] = field(default_factory=dict)
    """The records of values that are signed."""
    failures: int = 0
    confirms: bool = True
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def assignment(self) -> set[Partition]:
        return {P0}

    async def end_offsets(self, partitions: Any) -> dict[Partition, int]:
        return {P0: len(self.log)}

    async def beginning_offsets(self, partitions: Any) -> dict[Partition, int]:
        return {P0: self.begin}

    def seek(self, partition: Partition, offset: int) -> None:
        self.next_offset = offset

    async def position(self, partition: Partition) -> int:
        return self.next_offset

    async def getmany(self, *, timeout_ms: int) -> dict[Partition, list[Record]]:
        await asyncio.sleep(0)
        if self.next_offset >= len(self.log):
            self.arrived.clear()
            try:
                async with asyncio.timeout(0.01):
                    await self.arrived.wait()
            except TimeoutError:
                return {}
        found = [self.signed.get(value, Record(value, number)) for number, value in enumerate(self.log)]
        found = found[self.next_offset :][:2]
        self.next_offset += len(found)
        return {P0: found}

    async def send_and_wait(self, topic: str, value: bytes, key: bytes, *, headers: list[tuple[str, bytes]]) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError
        if topic == "losses":
            message = decode(INPUT_LOSSES, value)
            assert isinstance(message, InputLoss)
            assert key == f"netbot/{message.topic}/{message.partition}".encode()
            self.losses.append(message)
            return
        result = json.loads(value)
        assert (topic, key.decode(), result["actor"]) == ("results", result["remediationId"], "netbot")
        self.results.append(result)
        self.headers = headers
        if result["outcome"] == "ACCEPTED" and self.confirms:
            more = {"state": "ACCEPTED", "actor": "netbot", "instance": result["instance"]}
            self.append(remediation_json(result["remediationId"], revision=CONFIRMED, **more))

    def append(self, value: bytes | None) -> None:
        self.log.append(value)
        self.arrived.set()

    async def until(self, results: int) -> list[str]:
        """Return the outcomes, once there are so many results."""
        await until(lambda: len(self.results) >= results, every_s=0.001)
        return [result["outcome"] for result in self.results]


@asynccontextmanager
async def running(
    kafka: FakeKafka, folder: Path, devices: Devices | None = None, verifier: Verifier | None = None
) -> AsyncIterator[Journal]:
    """Run the service on settings in memory."""
    journal = Journal(folder / "journal.jsonl")
    answers = KafkaAnswers(kafka, "results", ACTOR, lambda: NOW_NS, ConnectionError, retry_s=0.001, losses="losses")
    engine = Engine(journal, MemoryPlanner(devices or Devices()), answers, ACTOR, lambda: NOW_NS)
    task = asyncio.create_task(Service(kafka, engine, journal, answers=answers, check_s=0.001, verifier=verifier).run())
    try:
        yield journal
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        journal.close()


async def test_own_changes_are_checked_while_the_service_runs(tmp_path: Path) -> None:
    """Another party puts the link back into service."""
    kafka, devices = FakeKafka(), Devices()
    kafka.append(remediation_json())
    async with running(kafka, tmp_path, devices):
        assert await kafka.until(2) == ["ACCEPTED", "DONE"]
        devices.values = dict.fromkeys(devices.values, "in")
        assert (await kafka.until(3))[-1] == "EXTERNAL"


async def test_an_approval_is_answered_twice_and_its_offset_is_stored(tmp_path: Path) -> None:
    """ACCEPTED before the action and DONE after it; the next start begins behind the record."""
    kafka = FakeKafka([remediation_json()])
    async with running(kafka, tmp_path) as journal:
        assert await kafka.until(2) == ["ACCEPTED", "DONE"]
        await until(lambda: journal.positions == {"0": 2}, every_s=0.001)
    async with running(kafka, tmp_path):
        kafka.append(remediation_json("r2", "RESTORE_LINK"))
        assert await kafka.until(4) == ["ACCEPTED", "DONE"] * 2
    assert kafka.next_offset == 4


async def test_an_approval_that_was_revoked_meanwhile_is_not_carried_out(tmp_path: Path) -> None:
    """The topic is read to its end before anything is done, however many polls that takes."""
    kafka = FakeKafka([remediation_json("r1"), remediation_json("r9"), remediation_json("r2")])
    kafka.log += [remediation_json("r1", revision=2, verdict="REVOKED"), remediation_json("r9", revision=2)]
    async with running(kafka, tmp_path):
        await kafka.until(4)
    assert {result["remediationId"] for result in kafka.results} == {"r2", "r9"}


async def test_tombstones_and_invalid_records_are_skipped(tmp_path: Path) -> None:
    """A record that is no remediation stops nothing."""
    kafka = FakeKafka([None, b"{}", b"\xff", remediation_json()])
    async with running(kafka, tmp_path):
        assert await kafka.until(2) == ["ACCEPTED", "DONE"]


async def test_an_answer_is_repeated_until_kafka_has_it(tmp_path: Path) -> None:
    """An action is not begun before Kafka has its acceptance."""
    kafka = FakeKafka([remediation_json()], failures=3)
    async with running(kafka, tmp_path):
        assert await kafka.until(2) == ["ACCEPTED", "DONE"]
    assert kafka.failures == 0


async def test_a_topic_that_was_made_again_is_read_from_its_begin(tmp_path: Path) -> None:
    """Its offsets are below those of the journal."""
    journal = Journal(tmp_path / "journal.jsonl")
    journal.move({"0": 500})
    journal.close()
    kafka = FakeKafka([remediation_json()])
    async with running(kafka, tmp_path):
        assert await kafka.until(2) == ["ACCEPTED", "DONE"]
    assert kafka.losses == [loss(0, 0, is_recreated=True)]


async def test_records_that_retention_deleted_are_reported(tmp_path: Path) -> None:
    """From the position of the journal to the first record; a start without a journal has lost nothing."""
    journal = Journal(tmp_path / "journal.jsonl")
    journal.move({"0": 1})
    journal.close()
    kafka = FakeKafka([remediation_json()] * 4, begin=3)
    async with running(kafka, tmp_path):
        assert await kafka.until(2) == ["ACCEPTED", "DONE"]
    assert kafka.losses == [loss(1, 2, is_recreated=False)]
    another = FakeKafka([remediation_json()] * 4, begin=3)
    async with running(another, tmp_path / "another"):
        assert await another.until(2) == ["ACCEPTED", "DONE"]
    assert another.losses == []


def loss(first: int, records: int, *, is_recreated: bool) -> InputLoss:
    return InputLoss("netbot", P0.topic, 0, first, records, NOW_NS, is_recreated=is_recreated)


async def test_what_was_interrupted_is_resumed_at_the_start(tmp_path: Path) -> None:
    """An acceptance in the journal whose record is no longer delivered."""
    journal = Journal(tmp_path / "journal.jsonl")
    journal.accept(decode_remediation(remediation_json()), NOW_NS)
    journal.begin("r1")
    journal.close()
    kafka = FakeKafka()
    async with running(kafka, tmp_path):
        assert await kafka.until(1) == ["FAILED"]
    assert kafka.results[0]["detail"] == "interrupted by a restart; nothing was changed"


async def test_with_trusted_keys_only_a_signed_order_is_carried_out(tmp_path: Path) -> None:
    """An unsigned record is skipped like an unreadable one, and the next one is carried out."""
    key = load_private_key(new_private_key(), "decide.pem")
    value = remediation_json("r2")
    signed = Signer(key, "east", "decide").sign(WireRecord(REMEDIATIONS, TARGET.encode(), value), NOW_NS)
    kafka = FakeKafka([remediation_json("r1"), value], confirms=False)
    kafka.signed[value] = Record(value, 1, signed.key, signed.headers)
    async with running(kafka, tmp_path, verifier=Verifier([public_text(key)], "east")):
        assert await kafka.until(1) == ["ACCEPTED"]
    assert {result["remediationId"] for result in kafka.results} == {"r2"}

"""The reader of the inventory's topics, given records as Kafka has them."""

import asyncio
import weakref
from dataclasses import dataclass, replace

import pytest

from streams.config.kafka import KafkaSettings
from streams.fabric.inventory import Device, Inventory, digest
from streams.runtime.inventory_reader import InventoryReader
from streams.simulation.clos import GenerateParams, generate
from streams.wire.inventory_topic import to_chunks
from streams.wire.models import Job
from streams.wire.topics import INVENTORY, JOBS, Record, encode, tombstone
from tests.worlds.small_fabric import inventory


@dataclass
class Read:
    """A record as the consumer hands it out."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    offset: int = 0


def _read(record: Record) -> Read:
    return Read(record.topic.name, record.key, record.value, record.headers)


def _version(own: Inventory, effective_ns: int) -> list[Read]:
    return [_read(encode(INVENTORY, chunk)) for chunk in to_chunks(own, effective_ns)]


async def _take(reader: InventoryReader, *records: Read) -> None:
    for record in records:
        reader.take(record)
    await reader.settle()


async def test_a_version_is_known_once_all_of_it_was_read() -> None:
    """Whoever waits for the first one waits until then."""
    reader = InventoryReader(KafkaSettings())
    assert not reader.first.is_set()
    await _take(reader, *_version(inventory(), 5))
    assert reader.first.is_set()
    assert reader.versions.holds(digest(inventory()), 5)


async def test_a_version_that_is_told_again_is_no_news() -> None:
    """After the brokers were away the topic is read once more; another effective time of the same content is news."""
    reader = InventoryReader(KafkaSettings())
    await _take(reader, *_version(inventory(), 5))
    await _take(reader, *_version(inventory(), 5))
    assert reader.versions.changes == 1
    await _take(reader, *_version(inventory(), 7))
    assert (reader.versions.changes, reader.versions.after(5)) == (2, 7)


async def test_of_past_versions_only_the_data_are_kept() -> None:
    """What is over is put together only for a stage that asks, and kept only as long as one works with it."""
    reader, past = InventoryReader(KafkaSettings()), Inventory(devices=(Device("a", "host", "host"),))
    await _take(reader, *_version(past, 5), *_version(inventory(), 6))
    asked, again = reader.versions.at(5), reader.versions.at(5)
    assert asked is not None and again is not None and asked[1] is again[1]
    assert list(asked[1].devices) == ["a"]
    gone = weakref.ref(asked[1])
    del asked, again
    assert gone() is None
    now, later = reader.versions.at(7), reader.versions.at(7)
    assert now is not None and later is not None and now[1] is later[1]


async def test_a_past_version_stays_with_the_stage_that_has_its_jobs_too() -> None:
    """News of jobs make nobody put the fabric together again."""
    reader, past = InventoryReader(KafkaSettings()), Inventory(devices=(Device("a", "host", "host"),))
    await _take(reader, *_version(past, 5), *_version(inventory(), 6))
    reader.versions.set_job("j/a", Job("j", "a", 1))
    before = reader.versions.at(5)
    reader.versions.set_job("k/a", Job("k", "a", 1))
    after = reader.versions.at(5)
    assert before is not None and after is not None
    assert (before[1].jobs_on(["a"], 2), after[1].jobs_on(["a"], 2)) == (("j",), ("j", "k"))
    assert before[1].devices is after[1].devices


@pytest.mark.parametrize("broken_ns", [5, 7])
async def test_a_version_that_is_not_its_digest_never_takes_effect(broken_ns: int) -> None:
    """Past or present, it is as if it had not been published."""
    reader = InventoryReader(KafkaSettings())
    chunks = (replace(chunk, digest="d" * 64) for chunk in to_chunks(generate(GenerateParams(gpus=8)), broken_ns))
    await _take(reader, *_version(inventory(), 6), *(_read(encode(INVENTORY, chunk)) for chunk in chunks))
    for time_ns in (5, 6, 8):
        found = reader.versions.at(time_ns)
        assert found is not None and found[1].digest == digest(inventory())


async def test_the_worker_goes_on_while_a_version_is_put_together() -> None:
    """Other tasks have their turns before a version of 16,384 GPUs is whole."""
    reader, turns = InventoryReader(KafkaSettings()), 0
    taking = asyncio.create_task(_take(reader, *_version(generate(GenerateParams(gpus=16_384)), 5)))
    while not taking.done():
        await asyncio.sleep(0.001)
        turns += 1
    await taking
    assert reader.versions
    assert turns > 3, "the loop had to wait for it"


async def test_its_arrays_are_made_before_a_finding_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the largest fabric take 0.3 s, in which nothing else of the worker would go on."""
    reader = InventoryReader(KafkaSettings())
    await _take(reader, *_version(inventory(), 5))
    monkeypatch.delattr("streams.fabric.topology.Graph")
    found = reader.versions.at(5)
    assert found is not None
    assert set(found[1].graph.names) == set(found[1].devices)


async def test_what_cannot_be_read_is_passed_over() -> None:
    """Records of foreign bytes stop nothing: the version after them is taken."""
    reader = InventoryReader(KafkaSettings())
    await _take(reader, Read(INVENTORY.name, b"x", b"\xff\xff"), Read(JOBS.name, None, b"\xff\xff"))
    await _take(reader, *_version(inventory(), 5))
    assert reader.versions


async def test_jobs_come_and_go() -> None:
    """A job's record is its stay, a tombstone its end."""
    reader = InventoryReader(KafkaSettings())
    record = encode(JOBS, Job("j", "p1-h1", 1))
    await _take(reader, *_version(inventory(), 5), _read(record))
    at = reader.versions.at(5)
    assert at is not None and at[1].jobs_on(["p1-h1"], 2) == ("j",)
    await _take(reader, _read(tombstone(JOBS, record.key.decode())))
    at = reader.versions.at(5)
    assert at is not None and at[1].jobs_on(["p1-h1"], 2) == ()

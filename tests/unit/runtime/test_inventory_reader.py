"""The reader assembles versions of the inventory and jobs from the records of their topics."""

import asyncio
import logging
import weakref
from dataclasses import dataclass, replace

import pytest

from streams.config.kafka import KafkaSettings
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.inventory import Device, Inventory, digest
from streams.runtime.inventory_reader import InventoryReader
from streams.wire.inventory_topic import to_chunks
from streams.wire.models import Job
from streams.wire.topics import INVENTORY, JOBS, Record, encode, tombstone
from tests.worlds.small_fabric import inventory


@dataclass
class ConsumedRecord:
    """A record as the consumer returns it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    offset: int = 0


def _consumed(record: Record) -> ConsumedRecord:
    return ConsumedRecord(record.topic.name, record.key, record.value, record.headers)


def _version(inventory: Inventory, effective_ns: int) -> list[ConsumedRecord]:
    return [_consumed(encode(INVENTORY, chunk)) for chunk in to_chunks(inventory, effective_ns)]


async def _take(reader: InventoryReader, *records: ConsumedRecord) -> None:
    for record in records:
        reader.take(record)
    await reader.settle()


async def test_a_version_is_available_once_all_its_chunks_are_read() -> None:
    """The event `first` is set with the first complete version."""
    reader = InventoryReader(KafkaSettings())
    assert not reader.first.is_set()
    await _take(reader, *_version(inventory(), 5))
    assert reader.first.is_set()
    assert reader.versions.holds(digest(inventory()), 5)


async def test_a_repeated_version_is_not_a_change() -> None:
    """The topic is read again after an outage; the same content with another effective time is a change."""
    reader = InventoryReader(KafkaSettings())
    await _take(reader, *_version(inventory(), 5))
    await _take(reader, *_version(inventory(), 5))
    assert reader.versions.changes == 1
    await _take(reader, *_version(inventory(), 7))
    assert (reader.versions.changes, reader.versions.after(5)) == (2, 7)


async def test_a_process_logs_the_version_in_effect_and_each_later_one(caplog: pytest.LogCaptureFixture) -> None:
    """With its time; a past version, and one that is read again, are not logged."""
    caplog.set_level(logging.INFO, "streams.runtime.inventory_reader")
    reader, past = InventoryReader(KafkaSettings()), Inventory(devices=(Device("a", "host", "host"),))
    await _take(reader, *_version(past, 5), *_version(inventory(), 10**9))
    await _take(reader, *_version(inventory(), 10**9))
    assert caplog.messages == [f"inventory version={digest(inventory())[:12]} effective=1970-01-01 00:00:01Z"]
    await _take(reader, *_version(past, 4 * 10**18))
    assert caplog.messages[1:] == [f"inventory version={digest(past)[:12]} effective=2096-10-02 07:06:40Z"]


async def test_past_versions_are_stored_as_data_only() -> None:
    """The topology of a past version is built when a stage requests it, and evicted when no stage uses it."""
    reader, past = InventoryReader(KafkaSettings()), Inventory(devices=(Device("a", "host", "host"),))
    await _take(reader, *_version(past, 5), *_version(inventory(), 6))
    first, second = reader.versions.at(5), reader.versions.at(5)
    assert first is not None and second is not None and first[1] is second[1]
    assert list(first[1].devices) == ["a"]
    reference = weakref.ref(first[1])
    del first, second
    assert reference() is None
    now, later = reader.versions.at(7), reader.versions.at(7)
    assert now is not None and later is not None and now[1] is later[1]


async def test_a_change_of_jobs_does_not_rebuild_a_past_version() -> None:
    """The topologies before and after a change of jobs share their devices."""
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
async def test_a_version_with_a_wrong_digest_never_takes_effect(broken_ns: int) -> None:
    """A past or current version with a wrong digest is ignored."""
    reader = InventoryReader(KafkaSettings())
    chunks = (replace(chunk, digest="d" * 64) for chunk in to_chunks(generate(GenerateParams(gpus=8)), broken_ns))
    await _take(reader, *_version(inventory(), 6), *(_consumed(encode(INVENTORY, chunk)) for chunk in chunks))
    for time_ns in (5, 6, 8):
        found = reader.versions.at(time_ns)
        assert found is not None and found[1].digest == digest(inventory())


async def test_the_event_loop_runs_while_a_version_is_built() -> None:
    """Other tasks run before a version of 16,384 GPUs is complete."""
    reader, turns = InventoryReader(KafkaSettings()), 0
    taking = asyncio.create_task(_take(reader, *_version(generate(GenerateParams(gpus=16_384)), 5)))
    while not taking.done():
        await asyncio.sleep(0.001)
        turns += 1
    await taking
    assert reader.versions
    assert turns > 3, "the build blocked the event loop"


async def test_unreadable_records_are_skipped() -> None:
    """A version after records with invalid bytes is read."""
    reader = InventoryReader(KafkaSettings())
    await _take(reader, ConsumedRecord(INVENTORY.name, b"x", b"\xff\xff"), ConsumedRecord(JOBS.name, None, b"\xff\xff"))
    await _take(reader, *_version(inventory(), 5))
    assert reader.versions


async def test_jobs_are_added_and_removed() -> None:
    """A record adds a job, and a tombstone removes it."""
    reader = InventoryReader(KafkaSettings())
    record = encode(JOBS, Job("j", "p1-h1", 1))
    await _take(reader, *_version(inventory(), 5), _consumed(record))
    at = reader.versions.at(5)
    assert at is not None and at[1].jobs_on(["p1-h1"], 2) == ("j",)
    await _take(reader, _consumed(tombstone(JOBS, record.key.decode())))
    at = reader.versions.at(5)
    assert at is not None and at[1].jobs_on(["p1-h1"], 2) == ()

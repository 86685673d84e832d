"""The reader of the inventory's topics, given records as Kafka has them."""

import asyncio
from dataclasses import dataclass

from streams.config.kafka import KafkaSettings
from streams.fabric.generate import GenerateParams, generate
from streams.fabric.inventory import Inventory, digest
from streams.runtime.inventory_reader import InventoryReader
from streams.wire.inventory_topic import to_chunks
from streams.wire.models import Job
from streams.wire.topics import INVENTORY, JOBS, Record, encode, tombstone
from tests.unit.fabric.made import inventory


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
        await reader.take(record)


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
    await _take(reader, *_version(inventory(), 5), *_version(inventory(), 5))
    assert reader.versions.changes == 1
    await _take(reader, *_version(inventory(), 7))
    assert (reader.versions.changes, reader.versions.after(5)) == (2, 7)


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

"""A compacted topic is read to its end: the newest message of each key, without those that tombstones removed."""

import asyncio
from dataclasses import replace

import pytest

from streams.wire.models import Control, ControlKind, Finding
from streams.wire.standalone_consumer import CompactedTopic, read_compacted
from streams.wire.topics import CONTROLS, FACTS, FINDINGS_OPEN, Record, encode, tombstone
from tests.fakes.log_consumer import LogConsumer
from tests.fixtures import wire_examples
from tests.fixtures.findings import finding


def control(identity: str, actor: str) -> Record:
    return encode(CONTROLS, Control(identity, ControlKind.EXCLUDE, "link:1", actor=actor))


def content_of(*records: Record) -> CompactedTopic:
    consumer = LogConsumer()
    consumer.add(0, *records)
    return asyncio.run(read_compacted(consumer, records[0].topic))


def actors(content: CompactedTopic) -> dict[bytes, str]:
    return {key: message.actor for key, message in content.newest.items() if isinstance(message, Control)}


def test_the_newest_message_of_a_key_counts_and_a_tombstone_removes_it() -> None:
    """The topic has more records than one fetch returns."""
    records = [control(f"c{number % 7}", f"person {number}") for number in range(30)]
    content = content_of(*records, tombstone(CONTROLS, "c1"), control("c2", "the last"))
    assert actors(content) == {
        b"c0": "person 28", b"c2": "the last", b"c3": "person 24", b"c4": "person 25", b"c5": "person 26",
        b"c6": "person 27",
    }  # fmt: skip


def test_an_unreadable_record_leaves_the_message_before_it_and_marks_its_key() -> None:
    """Readers of states use the last that they understand; who publishes the topic replaces or removes the record."""
    unreadable = Record(CONTROLS, b"c1", b"no json")
    content = content_of(control("c1", "ann"), unreadable, Record(CONTROLS, b"c2", b"[]"))
    assert actors(content) == {b"c1": "ann"}
    assert content.readable() == {}
    assert content.keys == {b"c1", b"c2"}
    assert content_of(unreadable, control("c1", "bob"), tombstone(CONTROLS, "c2")).unreadable == set()


@pytest.mark.parametrize("revisions", [(1, 2), (2, 1)])
def test_of_a_finding_the_highest_revision_counts(revisions: tuple[int, int]) -> None:
    """A replaced owner may publish a lower one later."""
    records = [encode(FINDINGS_OPEN, replace(finding("f"), revision=one), key="f") for one in revisions]
    (found,) = content_of(*records).newest.values()
    assert isinstance(found, Finding)
    assert found.revision == 2


def test_all_partitions_are_read() -> None:
    """Facts are spread over the partitions of telemetry."""
    consumer = LogConsumer()
    for partition in range(3):
        consumer.add(partition, encode(FACTS, wire_examples.FACTS, key=f"device-{partition}"))
    content = asyncio.run(read_compacted(consumer, FACTS, 3))
    assert set(content.newest) == {b"device-0", b"device-1", b"device-2"}

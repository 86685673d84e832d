"""What is said arrives whole and in order, or the partition was lost."""

import asyncio

import pytest
from aiokafka.errors import KafkaTimeoutError

from streams.instrument.metrics import NullMetrics
from streams.runtime.reliable_sender import PartitionLost, ReliableSender
from streams.wire import topics
from streams.wire.topics import Partitions, Record
from tests.fakes.producer import Producer
from tests.fixtures.runtime_bindings import MID, symptom


def records(count: int) -> list[Record]:
    return [topics.encode(MID, symptom(number, number), key="pod") for number in range(count)]


def sender(producer: Producer | None, owned: bool = True) -> ReliableSender:
    return ReliableSender(
        lambda: producer, Partitions(2, 1), lambda: owned, stage="s", partition=0, metrics=NullMetrics(), again_s=0
    )


async def test_the_offsets_come_back_in_the_order_of_the_records() -> None:
    """Each record's offset is answered, once all are acknowledged."""
    producer = Producer()
    assert await sender(producer).send(records(3)) == [0, 1, 2]
    assert await sender(producer).send([]) == []
    assert [value for _, value in producer.log["mid", 0]] == [record.value for record in records(3)]


async def test_what_follows_a_failure_is_sent_again_behind_it() -> None:
    """A delivery that fails is repeated with all that came after it, so that the last pass is in order."""
    producer = Producer(fail={1: KafkaTimeoutError()})
    await sender(producer).send(records(4))
    sent = [record.value for record in records(4)]
    assert [value for _, value in producer.log["mid", 0]][-3:] == sent[1:]
    assert {value for _, value in producer.log["mid", 0]} == set(sent)


async def test_a_producer_that_refuses_is_asked_again() -> None:
    """Where nothing can even be queued, as while the metadata is unknown, it is tried until it can."""
    producer = Producer(refuse={0: KafkaTimeoutError(), 1: KafkaTimeoutError()})
    assert len(await sender(producer).send(records(2))) == 2


async def test_who_lost_the_partition_says_nothing_more() -> None:
    """Without ownership nothing is sent."""
    producer = Producer()
    with pytest.raises(PartitionLost):
        await sender(producer, owned=False).send(records(1))
    assert not producer.log


async def test_a_bug_is_not_retried() -> None:
    """What is no fault of the brokers ends the owner."""
    with pytest.raises(AssertionError):
        await sender(Producer(fail={0: AssertionError()})).send(records(1))


async def test_without_a_producer_it_waits_for_one() -> None:
    """Before Faust's producer has started there is none; what is to be said waits."""
    held: list[Producer] = []
    box = ReliableSender(
        lambda: held[0] if held else None,
        Partitions(),
        lambda: True,
        stage="s",
        partition=0,
        metrics=NullMetrics(),
        again_s=0,
    )
    sending = asyncio.create_task(box.send(records(1)))
    await asyncio.sleep(0)
    assert not sending.done()
    held.append(Producer())
    assert await sending == [0]

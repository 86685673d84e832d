"""All records are delivered in order, unless the partition is lost."""

import asyncio

import pytest
from aiokafka.errors import KafkaTimeoutError

from streams.instrument.metrics import NullMetrics
from streams.runtime.reliable_sender import PartitionLost, ReliableSender
from streams.wire import topics
from streams.wire.topics import Partitions, Record
from tests.fakes.producer import FakeProducer
from tests.fixtures.runtime_bindings import MID, symptom


def records(count: int) -> list[Record]:
    return [topics.encode(MID, symptom(number, number), key="pod") for number in range(count)]


def sender(producer: FakeProducer | None, owned: bool = True) -> ReliableSender:
    return ReliableSender(
        lambda: producer, Partitions(2, 1), lambda: owned, stage="s", partition=0, metrics=NullMetrics(), again_s=0
    )


async def test_the_offsets_are_in_the_order_of_the_records() -> None:
    """The offset of each record is returned once all are acknowledged."""
    producer = FakeProducer()
    assert await sender(producer).send(records(3)) == [0, 1, 2]
    assert await sender(producer).send([]) == []
    assert [value for _, value in producer.log["mid", 0]] == [record.value for record in records(3)]


async def test_the_records_after_a_failure_are_sent_again() -> None:
    """A failed delivery is repeated with all records after it, so that the last pass is in order."""
    producer = FakeProducer(fail={1: KafkaTimeoutError()})
    await sender(producer).send(records(4))
    sent = [record.value for record in records(4)]
    assert [value for _, value in producer.log["mid", 0]][-3:] == sent[1:]
    assert {value for _, value in producer.log["mid", 0]} == set(sent)


async def test_a_send_that_raises_is_retried() -> None:
    """If the producer cannot queue a record, as without metadata, the sender retries until it can."""
    producer = FakeProducer(refuse={0: KafkaTimeoutError(), 1: KafkaTimeoutError()})
    assert len(await sender(producer).send(records(2))) == 2


async def test_an_owner_that_lost_its_partition_sends_nothing() -> None:
    """The send raises PartitionLost before the first record."""
    producer = FakeProducer()
    with pytest.raises(PartitionLost):
        await sender(producer, owned=False).send(records(1))
    assert not producer.log


async def test_an_unexpected_error_is_not_retried() -> None:
    """An error that is not from the brokers ends the owner."""
    with pytest.raises(AssertionError):
        await sender(FakeProducer(fail={0: AssertionError()})).send(records(1))


async def test_the_sender_waits_for_a_producer() -> None:
    """Before Faust's producer has started, records wait."""
    producers: list[FakeProducer] = []
    waiting_sender = ReliableSender(
        lambda: producers[0] if producers else None,
        Partitions(),
        lambda: True,
        stage="s",
        partition=0,
        metrics=NullMetrics(),
        again_s=0,
    )
    sending = asyncio.create_task(waiting_sender.send(records(1)))
    await asyncio.sleep(0)
    assert not sending.done()
    producers.append(FakeProducer())
    assert await sending == [0]

"""A batch that decompresses to more than the limit is one unreadable record, and reading goes on behind it."""

import aiokafka.consumer.fetcher as fetcher
import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from streams.wire import bounded_batches, topics
from streams.wire.batch_fetch import drain_fetched
from streams.wire.bounded_batches import BoundedRecords, bound_batches
from streams.wire.errors import Reject
from tests.fakes.kafka_fetcher import IN, Consumer, batch

CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LIMIT = 1 << 20


@pytest.fixture(autouse=True)
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that a test exceeds in no time."""
    monkeypatch.setattr(bounded_batches, "MAX_BATCH_BYTES", LIMIT)
    bound_batches()


def bomb(first: int, codec: int) -> bytes:
    """A batch of two records of 4 MiB of zeros."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 16 << 20)
    for delta in (0, 1):
        assert builder.append(delta, 1_000, b"key", bytes(4 << 20), [])
    data = builder.build()
    data[:8] = first.to_bytes(8, "big")
    assert len(data) < LIMIT // 2
    return bytes(data)


@pytest.mark.parametrize("codec", CODECS)
async def test_a_bomb_is_one_unreadable_record_between_others(codec: str) -> None:
    """Its offsets pass, and the batches around it are read."""
    number = CODECS[codec]
    data = batch(0, 0, 1, codec=number) + bomb(2, number) + batch(4, 0, codec=number)
    records = list(PartitionRecords(TopicPartition("in", 3), BoundedRecords(data), [], 0, None, None, True, 0))
    assert [(record.offset, record.value) for record in records] == [
        (0, b"value 0"), (1, b"value 1"), (3, b""), (4, b"value 4"),
    ]  # fmt: skip
    with pytest.raises(Reject, match="unreadable-batch"):
        topics.decode(topics.EVENTS, records[2].value, records[2].headers)


async def test_a_batch_with_a_header_that_is_no_text_is_one_unreadable_record() -> None:
    """It ended the reader with a UnicodeDecodeError, and again after each restart."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 16 << 20)
    assert builder.append(0, 1_000, b"key", b"value", [("name", b"")])
    data = bytearray(bytes(builder.build()).replace(b"name", b"\xbeame"))
    data[17:21] = calc_crc32c(bytes(data[21:])).to_bytes(4, "big")
    data[:8] = (1).to_bytes(8, "big")
    both = batch(0, 0) + bytes(data) + batch(2, 0)
    records = list(PartitionRecords(TopicPartition("in", 3), BoundedRecords(both), [], 0, None, None, True, 0))
    assert [(record.offset, record.value) for record in records] == [(0, b"value 0"), (1, b""), (2, b"value 2")]


@pytest.mark.parametrize("codec", CODECS)
async def test_the_readers_that_drain_batches_pass_it_too(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner and the sink read without `getmany`; a fetch may begin in the middle of the batch."""
    monkeypatch.setattr("tests.fakes.kafka_fetcher.MemoryRecords", BoundedRecords)
    number = CODECS[codec]
    consumer = Consumer()
    result = consumer.fetched(IN, bomb(2, number) + batch(4, 0, codec=number), 3)
    ((_, records),) = drain_fetched(consumer)
    assert [record.offset for record in records] == [3, 4]
    assert result._partition_records.next_fetch_offset == 5


def test_consumers_use_bounded_records() -> None:
    """A fetch response becomes BoundedRecords."""
    assert fetcher.MemoryRecords is BoundedRecords

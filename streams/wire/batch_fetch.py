"""Takes what aiokafka's consumer has fetched as its batches hold it, without the Python that it spends on each record.

`getmany` goes through two generators and makes a record of its own of each, 4 µs a record; what a batch itself answers
has all that a stage's runner and the sink look at, for 0.6. And it goes through all partitions in one go, during which
nothing else of the process happens: here whoever takes decides when it goes on.
This relies on names of aiokafka 0.14.0 that are not public; tests/contract/runtime/test_private_names.py holds them.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import FetchError
from aiokafka.errors import CorruptRecordException


class FetchedRecord(Protocol):
    """What of aiokafka's ConsumerRecord its readers look at."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int:
        """When the broker took it, in ms."""
        ...

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


async def wait_for_fetch(consumer: Any, within_s: float) -> None:
    """Wait until something was fetched, or the time is over; raises what a fetch was refused with."""
    fetcher = consumer._fetcher  # noqa: SLF001 — see above, here and below
    if fetcher._records:  # noqa: SLF001
        return
    waiter = fetcher._create_fetch_waiter()  # noqa: SLF001
    done, _ = await asyncio.wait([waiter], timeout=within_s)
    if done:
        waiter.result()
    else:
        waiter.cancel()


def drain_fetched(consumer: Any) -> Iterator[tuple[TopicPartition, list[FetchedRecord]]]:
    """What was fetched of each partition; the consumer fetches on once the last one was taken.

    Raises what a fetch failed with. Between two partitions others may go on, but nobody may seek or assign.
    """
    fetcher = consumer._fetcher  # noqa: SLF001
    try:
        for tp in list(fetcher._records):  # noqa: SLF001
            result = fetcher._records[tp]  # noqa: SLF001
            if isinstance(result, FetchError):
                del fetcher._records[tp]  # noqa: SLF001
                result.check_raise()
            elif result.check_assignment(tp):
                records = _unpacked(tp, result._partition_records)  # noqa: SLF001
                result._update_position()  # noqa: SLF001
                del fetcher._records[tp]  # noqa: SLF001
                if records:
                    yield tp, records
            else:
                del fetcher._records[tp]  # noqa: SLF001
    finally:
        fetcher._notify(fetcher._wait_consume_future)  # noqa: SLF001


def _unpacked(tp: TopicPartition, found: Any) -> list[FetchedRecord]:
    """The records from where the fetch began; it begins with a whole batch, whose first ones may lie before."""
    batches, start = found._records, found.next_fetch_offset  # noqa: SLF001
    records: list[FetchedRecord] = []
    while batches.has_next():
        batch = batches.next_batch()
        if found._check_crcs and not batch.validate_crc():  # noqa: SLF001
            raise CorruptRecordException(f"{tp.topic}/{tp.partition}: a batch is not what was written")
        if not batch.is_control_batch:
            records += batch
        # Of the batch, not of its last record: compaction may have taken that.
        found.next_fetch_offset = batch.next_offset
    return records if not records or records[0].offset >= start else [one for one in records if one.offset >= start]

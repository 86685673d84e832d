"""Drains the records that aiokafka's consumer fetched directly from its batches, without Python code for each record.

`getmany` uses two generators and creates a ConsumerRecord for each record, 4 µs each; the records of a batch have all
fields that the runner and the sink read, for 0.6 µs. `getmany` also blocks the process until all partitions are done;
here the caller decides when to continue. This uses private names of aiokafka 0.14.0;
tests/contract/runtime/test_private_names.py checks them.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import FetchError
from aiokafka.errors import CorruptRecordException


class FetchedRecord(Protocol):
    """The fields of aiokafka's ConsumerRecord that readers use."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int:
        """Return the time at which the broker appended the record, in ms."""
        ...

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


async def wait_for_fetch(consumer: Any, within_s: float) -> None:
    """Wait until records were fetched, or until the timeout; raises the error of a failed fetch."""
    fetcher = consumer._fetcher  # noqa: SLF001 — see the module docstring, here and below
    if fetcher._records:  # noqa: SLF001
        return
    waiter = fetcher._create_fetch_waiter()  # noqa: SLF001
    done, _ = await asyncio.wait([waiter], timeout=within_s)
    if done:
        waiter.result()
    else:
        waiter.cancel()


def drain_fetched(consumer: Any) -> Iterator[tuple[TopicPartition, list[FetchedRecord]]]:
    """Yield the fetched records of each partition; the consumer resumes fetching after the last one.

    Raises the error of a failed fetch. Other tasks may run between two partitions, but must not seek or assign.
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


def _unpacked(tp: TopicPartition, fetched: Any) -> list[FetchedRecord]:
    """Return the records from the fetch offset on; a fetch begins with a whole batch, which may start before it."""
    batches, start = fetched._records, fetched.next_fetch_offset  # noqa: SLF001
    aborts = bool(fetched._aborted_transactions)  # noqa: SLF001 — none, except in topics of `decide`
    records: list[FetchedRecord] = []
    while batches.has_next():
        batch = batches.next_batch()
        if fetched._check_crcs and not batch.validate_crc():  # noqa: SLF001
            raise CorruptRecordException(f"{tp.topic}/{tp.partition}: the CRC of a batch is wrong")
        is_aborted = aborts and _is_aborted(fetched, batch)
        if not (is_aborted or batch.is_control_batch):
            records += batch
        # Use the next offset of the batch; compaction may have removed its last record.
        fetched.next_fetch_offset = batch.next_offset
    return records if not records or records[0].offset >= start else [one for one in records if one.offset >= start]


def _is_aborted(fetched: Any, batch: Any) -> bool:
    """Return whether a batch belongs to an aborted transaction, as PartitionRecords of aiokafka does.

    Brokers list aborted transactions only for a consumer that reads committed records.
    """
    fetched._consume_aborted_up_to(batch.base_offset)  # noqa: SLF001 — as above
    if batch.is_control_batch and fetched._contains_abort_marker(batch):  # noqa: SLF001
        fetched._aborted_producers.discard(batch.producer_id)  # noqa: SLF001
    return bool(batch.is_transactional and batch.producer_id in fetched._aborted_producers)  # noqa: SLF001

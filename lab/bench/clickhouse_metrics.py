"""Reads from ClickHouse the age of rows when they become readable, their number and their size."""

from collections import Counter
from dataclasses import dataclass, field

from streams.store.clickhouse import ClickHouse

BUCKET_MS = 10


@dataclass(slots=True)
class RowAges:
    """The age of rows when a sample first finds them, in buckets of 10 ms; includes the time between samples.

    It queries the table of messages, which the sink writes after the rows of a block: querying the rows themselves each
    second would be a large part of ClickHouse's measured cost.
    """

    ages: Counter[float] = field(default_factory=Counter)
    offsets: dict[int, int] = field(default_factory=dict)
    """The highest known offset of samples in each partition."""
    messages: int = 0

    def sample(self, clickhouse: ClickHouse) -> None:
        """Find the rows stored since the last sample, and their age now; raise Retry.

        Queries their count first, which costs ClickHouse little: between two blocks there are no new rows.
        """
        ((messages,),) = clickhouse.query("SELECT count() FROM sample_messages")
        if messages == self.messages:
            return
        self.messages = int(messages)
        known = sorted(self.offsets.items())
        newer = ""
        if known:
            partitions, offsets = (", ".join(str(number) for number in column) for column in zip(*known, strict=True))
            # The first condition can use the index of offsets.
            newer = (
                f"WHERE kafka_offset > {min(offset for _, offset in known)} AND kafka_offset >"
                f" transform(toInt64(kafka_partition), [{partitions}], [{offsets}], toInt64(-1))"
            )
        age = f"intDiv(toUnixTimestamp64Milli(now64(3)) - toUnixTimestamp64Milli(sampled_at), {BUCKET_MS})"
        rows = clickhouse.query(
            f"SELECT kafka_partition, {age} AS age, sum(rows), max(kafka_offset) FROM sample_messages {newer}"  # noqa: S608 — own numbers
            " GROUP BY kafka_partition, age"
        )
        for partition, bucket, count, offset in rows:
            self.ages[(int(bucket) + 1) * BUCKET_MS / 1000] += int(count)
            self.offsets[int(partition)] = max(self.offsets.get(int(partition), -1), int(offset))

    def reset(self) -> None:
        """Drop the ages collected so far, which belong to the warm-up."""
        self.ages.clear()


@dataclass(frozen=True, slots=True)
class StoredCounts:
    """The numbers of stored port-samples, of their messages, and of the rows of the collectors' other topics."""

    rows: int
    messages: int
    statuses: int
    events: int


def stored_counts(clickhouse: ClickHouse) -> StoredCounts:
    """Count the stored rows; messages are distinguished by their partition and offset."""
    ((rows, messages),) = clickhouse.query("SELECT count(), uniqExact(kafka_partition, kafka_offset) FROM samples")
    ((statuses, events),) = clickhouse.query(
        "SELECT (SELECT count() FROM collector_status), (SELECT count() FROM events)"
    )
    return StoredCounts(int(rows), int(messages), int(statuses), int(events))


def sample_row_count(clickhouse: ClickHouse) -> int:
    """Return the number of port-samples, from the metadata of ClickHouse's parts."""
    ((rows,),) = clickhouse.query("SELECT count() FROM samples")
    return int(rows)


@dataclass(frozen=True, slots=True)
class TableSize:
    """The size of one table on disk."""

    table: str
    rows: int
    bytes: int
    parts: int


def table_sizes(clickhouse: ClickHouse) -> list[TableSize]:
    """Return the non-empty tables, largest first."""
    found = clickhouse.query(
        "SELECT table, sum(rows), sum(bytes_on_disk), count() FROM system.parts"
        " WHERE active AND database = currentDatabase() GROUP BY table HAVING sum(rows) > 0 ORDER BY 3 DESC"
    )
    return [TableSize(str(table), int(rows), int(size), int(parts)) for table, rows, size, parts in found]

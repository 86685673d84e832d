"""What the benchmark asks ClickHouse: how old rows are when they can be read, how many there are, and their size."""

from collections import Counter
from dataclasses import dataclass, field

from streams.store.clickhouse import ClickHouse

BUCKET_MS = 10


@dataclass(slots=True)
class RowAges:
    """How old rows were when a look first found them, in buckets of 10 ms; the time between looks is part of it.

    It looks at the messages' own table, which the sink writes behind the rows of a block: of so many rows itself, a
    look each second would be a good part of what ClickHouse is said to cost.
    """

    ages: Counter[float] = field(default_factory=Counter)
    offsets: dict[int, int] = field(default_factory=dict)
    """The highest offset of samples seen in each partition."""
    messages: int = 0

    def sample(self, clickhouse: ClickHouse) -> None:
        """Find the rows that came since the last look, and how old they are now; raises Retry.

        How many there are is asked first, which ClickHouse has at hand: between two blocks there is no more to know.
        """
        ((messages,),) = clickhouse.query("SELECT count() FROM sample_messages")
        if messages == self.messages:
            return
        self.messages = int(messages)
        known = sorted(self.offsets.items())
        newer = ""
        if known:
            partitions, offsets = (", ".join(str(number) for number in column) for column in zip(*known, strict=True))
            # The first condition is what the index of offsets can use.
            newer = (
                f"WHERE kafka_offset > {min(offset for _, offset in known)} AND kafka_offset >"
                f" transform(toInt64(kafka_partition), [{partitions}], [{offsets}], toInt64(-1))"
            )
        age = f"intDiv(toUnixTimestamp64Milli(now64(3)) - toUnixTimestamp64Milli(sampled_at), {BUCKET_MS})"
        rows = clickhouse.query(
            f"SELECT kafka_partition, {age} AS age, sum(rows), max(kafka_offset) FROM sample_messages {newer}"  # noqa: S608 — numbers of ours
            " GROUP BY kafka_partition, age"
        )
        for partition, bucket, count, offset in rows:
            self.ages[(int(bucket) + 1) * BUCKET_MS / 1000] += int(count)
            self.offsets[int(partition)] = max(self.offsets.get(int(partition), -1), int(offset))

    def reset(self) -> None:
        """Begin anew from here: what was seen so far is warm-up."""
        self.ages.clear()


@dataclass(frozen=True, slots=True)
class StoredCounts:
    """What is in ClickHouse: port-samples, the messages that they came in, and what other collectors' topics became."""

    rows: int
    messages: int
    statuses: int
    events: int


def stored_counts(clickhouse: ClickHouse) -> StoredCounts:
    """Count what is there; the messages are told apart by their place in Kafka."""
    ((rows, messages),) = clickhouse.query("SELECT count(), uniqExact(kafka_partition, kafka_offset) FROM samples")
    ((statuses, events),) = clickhouse.query(
        "SELECT (SELECT count() FROM collector_status), (SELECT count() FROM events)"
    )
    return StoredCounts(int(rows), int(messages), int(statuses), int(events))


def sample_row_count(clickhouse: ClickHouse) -> int:
    """How many port-samples there are, from what ClickHouse knows of its parts."""
    ((rows,),) = clickhouse.query("SELECT count() FROM samples")
    return int(rows)


@dataclass(frozen=True, slots=True)
class TableSize:
    """One table on disk."""

    table: str
    rows: int
    bytes: int
    parts: int


def table_sizes(clickhouse: ClickHouse) -> list[TableSize]:
    """The tables that hold anything, the largest first."""
    found = clickhouse.query(
        "SELECT table, sum(rows), sum(bytes_on_disk), count() FROM system.parts"
        " WHERE active AND database = currentDatabase() GROUP BY table HAVING sum(rows) > 0 ORDER BY 3 DESC"
    )
    return [TableSize(str(table), int(rows), int(size), int(parts)) for table, rows, size, parts in found]

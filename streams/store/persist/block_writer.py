"""Inserts one block into ClickHouse exactly once, even if a sink stored a part of it before.

The committed offset of a partition is the first record that is not known to be stored. Its metadata has the bounds of a
block that may be stored in part (BlockIntent); this block is stored again with the same bounds and token. The server
skips a token that a table has recorded. After an earlier attempt or another owner's block, the rows are counted too: a
server that was killed between recording a token and storing its rows would otherwise never accept them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import orjson
import structlog

from streams.store.clickhouse import ClickHouse
from streams.store.params import SinkParams
from streams.store.persist.partition_offsets import retry_forever
from streams.store.rows.native_format import NativeBlock, encode_block
from streams.store.rows.row_builder import TableRows

METADATA_VERSION = 1


@dataclass(frozen=True, slots=True)
class BlockIntent:
    """One block of one partition: `first` to `last`, both included; `stamp_ms` is Kafka's time of its first record."""

    topic: str
    partition: int
    first: int
    last: int
    stamp_ms: int

    @property
    def token(self) -> str:
        """ClickHouse's deduplication token of the block; the stamp distinguishes a topic from one recreated later."""
        return f"{self.topic}/{self.partition}/{self.first}-{self.last}@{self.stamp_ms}"

    def metadata(self) -> str:
        """Return the metadata of the offset `first` while the block is being stored."""
        return orjson.dumps({"v": METADATA_VERSION, "last": self.last, "stamp": self.stamp_ms}).decode()


@dataclass(frozen=True, slots=True)
class Committed:
    """An offset before which all records are stored; `newest_ms` is Kafka's time of the last record."""

    newest_ms: int

    def metadata(self) -> str:
        """Return the metadata of the offset."""
        return orjson.dumps({"v": METADATA_VERSION, "newest": self.newest_ms}).decode()


def parse_metadata(topic: str, partition: int, offset: int, metadata: str) -> BlockIntent | Committed:
    """Return the meaning of a committed offset; with metadata of another writer, all records before it are stored."""
    try:
        fields = orjson.loads(metadata)
        if fields["v"] == METADATA_VERSION and "last" in fields:
            return BlockIntent(topic, partition, offset, int(fields["last"]), int(fields["stamp"]))
        return Committed(int(fields["newest"]))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return Committed(0)


VERIFY_AFTER_S = 5.0
"""Below the shortest session timeout: a sink that was suspended for less than this still owns its partitions."""


class BlockLease:
    """Verifies that this sink still owns a block, because the process may be suspended at any point for any time.

    `commit` repeats the intent of the block, and raises PartitionLost after a takeover.
    """

    def __init__(self, commit: Callable[[], Awaitable[None]]) -> None:
        self._commit = commit
        self._verified_at = time.monotonic()
        self.verifications = 0
        """Counts the calls of `verify`, one before each attempt to store a part of the block."""

    async def verify(self) -> None:
        """Ensure that this sink owned the block within the last VERIFY_AFTER_S."""
        self.verifications += 1
        if time.monotonic() - self._verified_at > VERIFY_AFTER_S:
            await self._commit()
            self._verified_at = time.monotonic()


_log = structlog.get_logger("railsight.persist")

_COUNT = (
    "SELECT {what} FROM `{table}` WHERE kafka_partition = {{p:UInt16}} AND kafka_offset BETWEEN {{first:Int64}}"
    " AND {{last:Int64}} AND arrived_at >= fromUnixTimestamp64Milli({{stamp:Int64}}, 'UTC') - INTERVAL 1 DAY"
)
"""The margin of a day covers differing broker clocks; the condition limits the partitions of the table to read."""

MAX_TOKENS = 8
"""The limit of attempts to store rows if ClickHouse has their token but not the rows."""


@dataclass(frozen=True, slots=True)
class BlockWriter:
    """Stores blocks, without state between them."""

    client: ClickHouse
    params: SinkParams

    async def store(self, intent: BlockIntent, rows: Sequence[TableRows], lease: BlockLease, *, doubtful: bool) -> None:
        """Store the rows of this block in every table, each once; waits while ClickHouse is unavailable.

        Verifies the lease before every attempt: a server retains a limited number of tokens, and a sink that was
        suspended for an hour must not insert with a removed token. Raises PartitionLost.
        """
        for part in rows:
            data = await asyncio.to_thread(encode_block, part.columns)

            async def insert(attempt: int, part: TableRows = part, data: NativeBlock = data) -> None:
                await lease.verify()
                await asyncio.to_thread(self._insert, intent, part, data, doubtful or attempt > 0)

            await retry_forever(self.params, f"insert into {part.table}", insert)

    def _insert(self, intent: BlockIntent, part: TableRows, data: NativeBlock, doubtful: bool) -> None:
        self.client.insert(part.table, part.column_names, data, intent.token)
        # The count is not compared with the expected number: at the edge of the deduplication window a repeated
        # message may be classified differently.
        for retry in range(1, MAX_TOKENS):
            if not doubtful or self._count(intent, part.table):
                return
            _log.warning("ClickHouse has the token of a block without its rows", token=intent.token, table=part.table)
            self.client.insert(part.table, part.column_names, data, f"{intent.token}#{retry}")

    def stored_offsets(self, intent: BlockIntent, table: str) -> int:
        """Return the number of a block's records that have rows in a table; blocks."""
        return self._count(intent, table, "uniqExact(kafka_offset)")

    def _count(self, intent: BlockIntent, table: str, what: str = "count()") -> int:
        found = self.client.query(
            _COUNT.format(table=table, what=what),
            {"p": intent.partition, "first": intent.first, "last": intent.last, "stamp": intent.stamp_ms},
        )
        return int(found[0][0])

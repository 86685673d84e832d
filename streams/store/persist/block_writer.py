"""Inserts one block into ClickHouse exactly once, whatever part of it was stored before and by which sink.

The server skips a token that a table has recorded. In case of doubt (an earlier attempt, a block of another owner) the
rows are counted as well: a server that was killed between recording a token and storing its rows would otherwise
never accept them.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from streams.store.params import SinkParams
from streams.store.persist.block_intent import BlockIntent
from streams.store.persist.block_lease import BlockLease
from streams.store.persist.retry import retry_forever
from streams.store.query_client import InsertClient
from streams.store.rows.native_format import NativeBlock, encode_block
from streams.store.rows.row_builder import TableRows

_log = structlog.get_logger("railsight.persist")

_COUNT = (
    "SELECT {what} FROM `{table}` WHERE kafka_partition = {{p:UInt16}} AND kafka_offset BETWEEN {{first:Int64}}"
    " AND {{last:Int64}} AND arrived_at >= fromUnixTimestamp64Milli({{stamp:Int64}}, 'UTC') - INTERVAL 1 DAY"
)
"""The margin of a day covers differing broker clocks; the condition limits which partitions of the table are read."""

MAX_TOKENS = 8
"""The attempts to store rows whose tokens ClickHouse has without them."""


@dataclass(frozen=True, slots=True)
class BlockWriter:
    """Stores blocks; has no state between them."""

    client: InsertClient
    params: SinkParams

    async def store(self, intent: BlockIntent, rows: Sequence[TableRows], lease: BlockLease, *, doubtful: bool) -> None:
        """Return once every table has the rows of this block, each once; waits while ClickHouse is unavailable.

        Verifies the lease before every attempt: a server remembers a limited number of tokens, and a sink that was
        suspended for an hour must not insert with one that is forgotten. Raises PartitionLost.
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
        """Return how many records of a block have rows in a table; blocks."""
        return self._count(intent, table, "uniqExact(kafka_offset)")

    def _count(self, intent: BlockIntent, table: str, what: str = "count()") -> int:
        found = self.client.query(
            _COUNT.format(table=table, what=what),
            {"p": intent.partition, "first": intent.first, "last": intent.last, "stamp": intent.stamp_ms},
        )
        return int(found[0][0])

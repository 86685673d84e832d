"""One block into ClickHouse, once: whatever was stored of it before, and by whomever.

The token makes the server pass over a table's block that it has. After any doubt (a try before this one, a block
left by another owner) the rows are counted as well: a server killed between noting a token and keeping its rows
would otherwise never take them again.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from streams.store.params import SinkParams
from streams.store.persist.block_intent import BlockIntent
from streams.store.persist.block_lease import BlockLease
from streams.store.persist.retry import retry_forever
from streams.store.rows.native_format import NativeBlock
from streams.store.rows.native_format import encode_block as native
from streams.store.rows.row_builder import TableRows

_log = structlog.get_logger("railsight.persist")

_COUNT = (
    "SELECT count() FROM `{table}` WHERE kafka_partition = {{p:UInt16}} AND kafka_offset BETWEEN {{first:Int64}}"
    " AND {{last:Int64}} AND arrived_at >= fromUnixTimestamp64Milli({{stamp:Int64}}, 'UTC') - INTERVAL 1 DAY"
)
"""The day's slack is for clocks of brokers that differ; it serves to read few partitions of the table."""

_MOST_TOKENS = 8


class InsertClient(Protocol):
    """What the writer needs of ClickHouse; blocking, raising Retry while it is away."""

    def query(self, sql: str, parameters: Any = None) -> Any: ...

    def insert(self, table: str, columns: Sequence[str], block: NativeBlock, token: str) -> None: ...


@dataclass(frozen=True, slots=True)
class BlockWriter:
    """Stores blocks; holds nothing between them."""

    tables: InsertClient
    params: SinkParams

    async def store(self, bounds: BlockIntent, rows: Sequence[TableRows], claim: BlockLease, *, doubtful: bool) -> None:
        """Return once every table has the rows of this block, each once. Waits as long as ClickHouse is away.

        The claim is asked before every try: a server remembers only so many tokens, and a sink that slept for an hour
        must not come with one that is forgotten. It raises Lost.
        """
        for part in rows:
            data = await asyncio.to_thread(native, part.columns)

            async def put(attempt: int, part: TableRows = part, data: NativeBlock = data) -> None:
                await claim.verify()
                await asyncio.to_thread(self._put, bounds, part, data, doubtful or attempt > 0)

            await retry_forever(self.params, f"insert into {part.table}", put)

    def _put(self, bounds: BlockIntent, part: TableRows, data: NativeBlock, doubtful: bool) -> None:
        self.tables.insert(part.table, part.column_names, data, bounds.token)
        # Not compared with how many there should be: what was a message sent again may be judged otherwise at the edge
        # of what is remembered.
        for life in range(1, _MOST_TOKENS):
            if not doubtful or self._count(bounds, part.table):
                return
            _log.warning("ClickHouse knew a block that it did not have", token=bounds.token, table=part.table)
            self.tables.insert(part.table, part.column_names, data, f"{bounds.token}#{life}")

    def _count(self, bounds: BlockIntent, table: str) -> int:
        found = self.tables.query(
            _COUNT.format(table=table),
            {"p": bounds.partition, "first": bounds.first, "last": bounds.last, "stamp": bounds.stamp_ms},
        )
        return int(found[0][0])

"""Runs one statement on the engine and sends its result to the client.

Streams the result of a SELECT in a format of rows while the engine computes it, and the data of an INSERT to the engine
while it arrives. The engine encodes each piece of a result as a document of its own, so a result in another format (one
JSON, one Parquet file) is computed whole; its memory counts for the query. A client's disconnection cancels its SELECT.
"""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

from aiohttp import ClientConnectionResetError, ClientPayloadError, web

from streams.embedded.clickhouse.engine import Connection, Engine, Result
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.gate import INPUT_TABLE, SELECTS, Statement
from streams.embedded.clickhouse.native import (
    handshake_block,
    is_handshake,
    split,
    upgrade,
    wants_blocks,
    zoned_columns,
)
from streams.embedded.clickhouse.request import QueryRequest
from streams.embedded.clickhouse.response import Response, content_type
from streams.embedded.clickhouse.sessions import create_temporary

# Formats whose documents follow each other as one, and whose document without rows is empty.
_OF_ROWS = frozenset(
    {
        "TabSeparated", "TSV", "TabSeparatedRaw", "TSVRaw", "CSV", "JSONEachRow", "JSONLines", "NDJSON",
        "JSONStringsEachRow", "JSONCompactEachRow", "JSONCompactStringsEachRow", "RowBinary", "LineAsString", "RawBLOB",
        "MsgPack", "BSONEachRow", "Native", "Null",
    }
)  # fmt: skip
_WRITE_BYTES = 1 << 20
_INPUT = INPUT_TABLE.decode()

# Interval of the check for a disconnected client while the engine returns nothing.
_LOOK_UP_EVERY_S = 0.1

T = TypeVar("T")


class Execution:
    """The execution of one statement of a request."""

    def __init__(
        self,
        engine: Engine,
        threads: Executor,
        connection: Connection,
        reply: Response,
        request: web.BaseRequest,
        document_bytes: int,
    ) -> None:
        """Limit a result that is one document to `document_bytes`."""
        self._document_bytes = document_bytes
        self._engine = engine
        self._threads = threads
        self._connection = connection
        self._reply = reply
        self._request = request

    async def run(self, call: QueryRequest, statement: Statement, data: AsyncIterator[bytes]) -> web.StreamResponse:
        """Run the statement and return the response; errors before its first byte are raised to the caller."""
        output_format = statement.format if statement.data_at is None and statement.format else call.default_format
        if statement.returns_rows:
            self._reply.announce(output_format, content_type(output_format))
        revision = call.protocol_version if output_format == "Native" else 0
        if statement.data_at is not None:
            answer = await self._insert(statement, data)
        elif is_handshake(statement.text, revision):
            answer = await self._in_thread(lambda: handshake_block(self._connection, revision))
            await self._reply.write(answer.data)
        elif statement.keyword in SELECTS:
            whole = output_format not in _OF_ROWS or statement.has_totals or call.parameters.get("extremes") == "1"
            return await self._select(statement, call.default_format, revision, whole=whole)
        else:
            answer = await self._in_thread(lambda: self._connection.statement(statement.text, call.default_format))
            if statement.keyword in {b"DROP", b"DETACH", b"RENAME"}:
                await self._in_thread(self._engine.keep_default_database)
            await self._write(answer.data, revision)
        return await self._reply.finish(answer)

    async def _insert(self, statement: Statement, data: AsyncIterator[bytes]) -> Result:
        first = await anext(data, b"")
        if not statement.input_structure:
            return await self._feed(statement.text, statement.format, first, data)
        # The library accepts an INSERT … SELECT … FROM input() only complete and as text.
        create = create_temporary(_INPUT, statement.input_structure.decode(errors="surrogateescape"))
        await self._in_thread(lambda: self._connection.query(create))
        try:
            await self._feed(f"INSERT INTO {_INPUT}".encode(), statement.format, first, data)
            return await self._in_thread(lambda: self._connection.statement(statement.text, "Null"))
        finally:
            drop = f"DROP TEMPORARY TABLE IF EXISTS {_INPUT}"
            await asyncio.shield(self._in_thread(lambda: self._connection.query(drop)))

    async def _feed(self, into: bytes, written_as: str, first: bytes, data: AsyncIterator[bytes]) -> Result:
        """Pass the data to the engine as it arrives; raise ClickHouseError if the engine may not have stored it.

        Checks the space before and after. After an error the client repeats the INSERT with the same token, and the
        engine ignores blocks that it has already written.
        """
        size = len(first)
        self._engine.require_space(size)
        insert = await self._in_thread(lambda: self._connection.insert(into, written_as))
        # The next piece is received while the engine takes the last one.
        writing = asyncio.ensure_future(self._in_thread(partial(insert.append, first)))
        try:
            async for piece in data:
                size += len(piece)
                await writing
                writing = asyncio.ensure_future(self._in_thread(partial(insert.append, piece)))
            await writing
        except (ClickHouseError, ClientPayloadError, ConnectionError, asyncio.CancelledError):
            # The data is truncated or invalid; data without an acknowledgement must not be stored.
            await asyncio.gather(writing, return_exceptions=True)
            with contextlib.suppress(ClickHouseError):
                await asyncio.shield(self._in_thread(insert.cancel))
            raise
        result = await self._in_thread(insert.finish)
        self._engine.require_space(size)
        return result

    async def _select(
        self, statement: Statement, default_format: str, revision: int, *, whole: bool
    ) -> web.StreamResponse:
        mark = f"/* {uuid.uuid4()} */"
        text = statement.text + b"\n" + mark.encode()
        make = upgrade(revision, await self._in_thread(lambda: zoned_columns(self._connection, statement, revision)))
        blocks = None
        try:
            if not whole:
                blocks = await self._in_thread(lambda: self._connection.blocks(text, default_format))
            if blocks is None:  # one document, or WITH … INSERT
                answer = await self._watched(
                    lambda: self._connection.document(text, default_format, self._document_bytes), mark
                )
                await self._write(answer.data, revision)
                return await self._reply.finish(answer)
            total = Result()
            while (block := await self._watched(blocks.next, mark)) is not None:
                total = total.plus(block)
                await self._reply.write(await self._in_thread(partial(make, block.data)))
        except ClickHouseError as error:
            return await self._reply.fail(error)
        finally:
            if blocks is not None:
                await asyncio.shield(self._in_thread(blocks.close))
        return await self._reply.finish(total)

    async def _write(self, data: bytes, revision: int) -> None:
        """Write a whole result, with its blocks as the client's revision has them."""
        make = upgrade(revision, {})
        if wants_blocks(revision):
            for block in split(data):
                await self._reply.write(make(block))
            return
        for start in range(0, len(data), _WRITE_BYTES):
            await self._reply.write(data[start : start + _WRITE_BYTES])

    async def _watched(self, work: Callable[[], T], mark: str) -> T:
        """Wait for a query; meanwhile check whether the client is connected, and send buffered data."""
        coming = asyncio.ensure_future(self._in_thread(work))
        try:
            while not (await asyncio.wait([coming], timeout=_LOOK_UP_EVERY_S))[0]:
                await self._look_up()
        except BaseException:
            while not coming.done():
                await asyncio.shield(self._in_thread(lambda: self._engine.kill(mark)))
                await asyncio.wait([coming], timeout=_LOOK_UP_EVERY_S)
            coming.exception()
            raise
        return coming.result()

    async def _look_up(self) -> None:
        if self._request.transport is None or self._request.transport.is_closing():
            raise ClientConnectionResetError("the client is gone")
        await self._reply.begin_early()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

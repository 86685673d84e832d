"""Runs one statement on the engine and sends its result to the client.

Streams the result of a SELECT through a pipe while the engine computes it, and the data of an INSERT to the engine
while it arrives. All other results are small and sent whole. A client's disconnection cancels its statement.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

from aiohttp import ClientConnectionResetError, ClientPayloadError, web

from streams.embedded.clickhouse.engine import Blocks, Connection, Engine, Result
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.native import (
    handshake_block,
    is_handshake,
    upgrade,
    wants_blocks,
    zoned_columns,
)
from streams.embedded.clickhouse.native_blocks import split
from streams.embedded.clickhouse.request import QueryRequest
from streams.embedded.clickhouse.response import Response, content_type
from streams.embedded.clickhouse.result_pipe import ResultPipe
from streams.embedded.clickhouse.staging import staging_table
from streams.embedded.clickhouse.statement import Statement

# Interval of the check for a disconnected client while the engine returns nothing.
_LOOK_UP_EVERY_S = 0.1

T = TypeVar("T")


class Execution:
    """The execution of one statement of a request."""

    def __init__(
        self, engine: Engine, threads: Executor, connection: Connection, reply: Response, request: web.Request
    ) -> None:
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
            answer = await self._insert(call, statement, data)
        elif is_handshake(statement.sql, revision):
            answer = await self._in_thread(lambda: handshake_block(self._connection, revision))
            await self._reply.write(answer.data)
        elif statement.kind == "select" and not statement.is_explain:
            if wants_blocks(revision):
                return await self._blocks(statement, revision)
            return await self._select(statement.into, call.default_format)
        else:
            answer = await self._in_thread(lambda: self._connection.query(statement.sql, call.default_format))
            if statement.may_drop_databases:
                await self._in_thread(self._engine.keep_default_database)
            make = upgrade(revision, {})
            for block in split(answer.data) if wants_blocks(revision) else ():
                await self._reply.write(make(block))
            if not wants_blocks(revision):
                await self._reply.write(answer.data)
        return await self._reply.finish(answer)

    async def _insert(self, call: QueryRequest, statement: Statement, data: AsyncIterator[bytes]) -> Result:
        first = await anext(data, b"")
        stage = staging_table(statement.sql)
        if stage is None:
            return await self._feed(statement.sql, statement.format or "", first, data)
        await self._in_thread(lambda: self._connection.query(stage.create))
        try:
            await self._feed(stage.into, statement.format or "", first, data)
            return await self._in_thread(lambda: self._connection.query(stage.sql))
        finally:
            await asyncio.shield(self._in_thread(lambda: self._connection.query(stage.drop)))

    async def _feed(self, into: str, written_as: str, first: bytes, data: AsyncIterator[bytes]) -> Result:
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

    async def _select(self, into: Callable[[str, str], str], default_format: str) -> web.StreamResponse:
        pipe = ResultPipe()
        sql = into(pipe.path, default_format)
        running = asyncio.ensure_future(self._in_thread(lambda: self._connection.query(sql)))
        running.add_done_callback(lambda _: pipe.no_more())
        try:
            await self._pump(pipe, running)
            answer = await running
        except ClickHouseError as error:
            return await self._reply.fail(error)
        except BaseException:
            # The client disconnected, or the server stops.
            await asyncio.shield(self._stop(pipe, running))
            raise
        finally:
            pipe.close()
        return await self._reply.finish(answer)

    async def _blocks(self, statement: Statement, revision: int) -> web.StreamResponse:
        """Stream a SELECT as blocks of the client's revision."""
        plain = statement.sql[: statement.clause_at]
        make = upgrade(revision, await self._in_thread(lambda: zoned_columns(self._connection, plain)))
        blocks = await self._in_thread(lambda: self._connection.blocks(statement.sql, "Native"))
        try:
            while (block := await self._next_block(blocks)) is not None:
                await self._reply.write(await self._in_thread(partial(make, block)))
        except ClickHouseError as error:
            return await self._reply.fail(error)
        finally:
            await asyncio.shield(self._in_thread(blocks.close))
        return await self._reply.finish(Result())

    async def _next_block(self, blocks: Blocks) -> bytes | None:
        """Return the next block; meanwhile check whether the client is connected, and send buffered data."""
        coming = asyncio.ensure_future(self._in_thread(blocks.next))
        try:
            while not (await asyncio.wait([coming], timeout=_LOOK_UP_EVERY_S))[0]:
                await self._look_up()
        except BaseException:
            while not coming.done():
                await asyncio.shield(self._in_thread(lambda: self._engine.kill(blocks.mark)))
                await asyncio.wait([coming], timeout=_LOOK_UP_EVERY_S)
            coming.exception()
            raise
        return coming.result()

    async def _look_up(self) -> None:
        if self._request.transport is None or self._request.transport.is_closing():
            raise ClientConnectionResetError("the client is gone")
        await self._reply.begin_early()

    async def _pump(self, pipe: ResultPipe, running: "asyncio.Future[Result]") -> None:
        while True:
            try:
                piece = await asyncio.wait_for(pipe.read(), _LOOK_UP_EVERY_S)
            except TimeoutError:
                if not running.done():
                    await self._look_up()
                continue
            if not piece:
                return
            await self._reply.write(piece)

    async def _stop(self, pipe: ResultPipe, running: "asyncio.Future[Result]") -> None:
        """Cancel the query and wait until the engine has released its connection."""
        mark = f"OUTFILE '{pipe.path}'"
        while not running.done():
            await self._in_thread(lambda: self._engine.kill(mark))
            # The engine checks for cancellation only between two writes, so the pipe must be drained.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(_drained(pipe), _LOOK_UP_EVERY_S)
        running.exception()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


async def _drained(pipe: ResultPipe) -> None:
    while await pipe.read():
        pass

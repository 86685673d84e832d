"""Serves HTTP: paths, authentication, the shares of users, and the processing of requests.

Each user has its own slots for queries, so that a reader cannot take the writer's. Headers, connections and the time of
a body are bounded; a new connection replaces the oldest without a query.
"""

import asyncio
import contextlib
import socket
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from aiohttp import ClientPayloadError, web

from streams.embedded.clickhouse.engine import Connection, Engine
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.execution import Execution
from streams.embedded.clickhouse.gate import Statement, judge
from streams.embedded.clickhouse.params import ClickHouseParams, User
from streams.embedded.clickhouse.request import (
    QueryRequest,
    authenticate,
    parse_request,
    refuse_foreign,
    server_names,
    settings_for,
)
from streams.embedded.clickhouse.request_body import ExternalTable, RequestBody, read_form
from streams.embedded.clickhouse.response import Response
from streams.embedded.clickhouse.sessions import QueryScope, Sessions
from streams.health.bounded_server import BoundedServer
from streams.health.http_names import HEADER_BYTES

_URL_BYTES = 256 << 10
_HEADERS = 64
_JUDGE_S = 5.0

T = TypeVar("T")


class HttpServer(BoundedServer):
    """The HTTP server of one engine."""

    def __init__(self, engine: Engine, params: ClickHouseParams) -> None:
        limits = params.limits
        super().__init__(
            self._serve,
            limits.connections,
            auto_decompress=False,
            access_log=None,
            # Limits the time for a request's line and headers as well.
            keepalive_timeout=limits.stall_s,
            # Reads the body of an INSERT in pieces of 1 MiB instead of 64 KiB, so that reading and writing alternate
            # less.
            read_bufsize=1 << 20,
            max_line_size=_URL_BYTES,
            max_field_size=HEADER_BYTES // 2,
            max_headers=_HEADERS,
        )
        self._engine = engine
        self._params = params
        self._running: Counter[str] = Counter()
        self._names = server_names((params.host, *params.host_names))
        # The extra threads kill queries without waiting for the threads that run queries.
        self._threads = ThreadPoolExecutor(limits.concurrent_queries * len(params.users) + 8, "clickhouse")
        self._judges = {user.name: ThreadPoolExecutor(1, "statements") for user in params.users}
        clock = asyncio.get_running_loop().time
        self.sessions = {user.name: Sessions(limits.sessions, clock) for user in params.users}

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if sum(len(name) + len(value) for name, value in request.raw_headers) > HEADER_BYTES:
            return web.Response(status=431, text=f"The headers are longer than {HEADER_BYTES} bytes\n")
        if request.path in {"/ping", "/replicas_status"} and request.method in {"GET", "HEAD"}:
            return _ok()
        if request.path != "/" or request.method not in {"GET", "HEAD", "POST"}:
            return web.Response(
                status=404,
                text=f"There is no handle {request.path}\n\nUse / or /ping for health checks.\n"
                "Send queries from your program with POST method or GET /?query=...\n",
            )
        return await self._query(request)

    async def _query(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "POST" and not request.query_string:
            return _ok()
        stall_s = self._params.limits.stall_s
        reply = Response(request, QueryRequest(), self._headers(""), self._engine.version, stall_s)
        try:
            headers = {name.lower(): value for name, value in request.headers.items()}
            refuse_foreign(headers, self._names)
            call = parse_request(request.method, request.query.items(), headers)
            query_id = call.parameters.get("query_id") or str(uuid.uuid4())
            reply = Response(request, call, self._headers(query_id), self._engine.version, stall_s)
            user = authenticate(call, self._params.users)
            with self._query_slot(user, request.transport):
                return await self._answer(request, call, user, reply)
        except ClickHouseError as error:
            return await reply.fail(error)
        except (ConnectionError, ClientPayloadError):
            # The client disconnected or aborted its upload, so this response is not read.
            return web.Response(status=400)

    async def _answer(
        self, request: web.BaseRequest, call: QueryRequest, user: User, reply: Response
    ) -> web.StreamResponse:
        tables: list[ExternalTable] = []
        limits = self._params.limits
        if request.content_type.startswith("multipart/"):
            call, tables = await read_form(request, call, limits)
            text = call.query.encode(errors="surrogateescape")
            statement, data = await self._judged(text, user), _no_data()
        else:
            body = RequestBody(request, call, limits, reader=user.read_only)
            head = None if user.read_only else await self._judge(await body.read_head(), user, complete=False)
            statement = head or await self._judged(await body.read_statement(), user)
            data = body.data_from(statement.data_at or 0)
        settings, read_only = settings_for(user, call)
        # The engine's `readonly` does not stop send_insert() and KILL QUERY, and a session could not leave it again.
        if read_only and not statement.reads:
            raise ClickHouseError(164, "READONLY", f"{user.name}: Cannot execute query in readonly mode")
        scope = QueryScope(settings, call.database, user.read_only, tables)
        async with self._scope(call, user, statement, scope, read_only=read_only) as connection:
            document_bytes = limits.reader_document_bytes if user.read_only else limits.document_bytes
            execution = Execution(self._engine, self._threads, connection, reply, request, document_bytes)
            return await execution.run(call, statement, data)

    async def _judged(self, raw: bytes, user: User) -> Statement:
        statement = await self._judge(raw, user, complete=True)
        assert statement is not None  # a complete text is judged or refused
        return statement

    async def _judge(self, raw: bytes, user: User, *, complete: bool) -> Statement | None:
        """Judge a text in a thread of its user; return None if it is not complete and no INSERT with data."""
        deadline = time.monotonic() + _JUDGE_S
        work = partial(judge, raw, reader=user.read_only, deadline=deadline, complete=complete)
        return await asyncio.get_running_loop().run_in_executor(self._judges[user.name], work)

    @contextlib.asynccontextmanager
    async def _scope(
        self, call: QueryRequest, user: User, statement: Statement, scope: QueryScope, *, read_only: bool
    ) -> AsyncIterator[Connection]:
        """Yield a connection with the request's settings, database and external tables."""
        connect = partial(self._engine.connect, is_reader=user.read_only)
        session_id = call.parameters.get("session_id", "")
        if not session_id:
            # Read-only from its first statement on, before any statement of the client.
            connection = await self._in_thread(lambda: connect(scope.settings, scope.database, read_only=read_only))
            with connection:
                await self._in_thread(lambda: scope.create_tables(connection))
                yield connection
            return
        sessions = self.sessions[user.name]
        session = await sessions.take(
            session_id,
            must_exist=call.flag("session_check"),
            timeout_s=call.session_timeout_s,
            connect=lambda: connect({}, "", read_only=user.read_only),
        )
        try:
            await self._in_thread(lambda: scope.enter(session, statement))
            try:
                yield session.connection
            finally:
                await self._in_thread(lambda: scope.leave(session.connection))
        finally:
            sessions.release(session)

    @contextlib.contextmanager
    def _query_slot(self, user: User, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        limit = self._params.limits.concurrent_queries
        if self._running[user.name] >= limit:
            raise ClickHouseError(
                202, "TOO_MANY_SIMULTANEOUS_QUERIES", f"Too many simultaneous queries. Maximum: {limit}"
            )
        self._running[user.name] += 1
        try:
            with self.busy(transport):
                yield
        finally:
            self._running[user.name] -= 1

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _headers(self, query_id: str) -> dict[str, str]:
        return {
            "X-ClickHouse-Server-Display-Name": socket.gethostname(),
            "X-ClickHouse-Query-Id": query_id,
            "X-ClickHouse-Timezone": self._engine.timezone,
        }


def _ok() -> web.Response:
    return web.Response(text="Ok.\n", content_type="text/html")


async def _no_data() -> AsyncIterator[bytes]:
    """Yield no data, for a statement in a form."""
    no_pieces: tuple[bytes, ...] = ()
    for piece in no_pieces:
        yield piece

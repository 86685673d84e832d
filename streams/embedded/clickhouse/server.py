"""Serves HTTP: routes, authentication, the limit of concurrent queries, and the processing of requests."""

import asyncio
import contextlib
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from aiohttp import ClientPayloadError, web

from streams.embedded.clickhouse.access import authenticate, refuse_writing, settings_for, with_own_grants
from streams.embedded.clickhouse.engine import Connection, Engine
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.execution import Execution
from streams.embedded.clickhouse.origin import OriginCheck
from streams.embedded.clickhouse.params import ClickHouseParams, User
from streams.embedded.clickhouse.query_scope import QueryScope
from streams.embedded.clickhouse.request import QueryRequest, parse_request
from streams.embedded.clickhouse.request_body import ExternalTable, RequestBody, read_form
from streams.embedded.clickhouse.response import Response
from streams.embedded.clickhouse.sessions import Sessions
from streams.embedded.clickhouse.statement import Statement, check_values, parse, parse_head

T = TypeVar("T")


class HttpServer:
    """The HTTP server of one engine."""

    def __init__(self, engine: Engine, params: ClickHouseParams) -> None:
        self._engine = engine
        self._params = params
        self._running = 0
        self._origins = OriginCheck((params.host, *params.host_names))
        limits = params.limits
        # The extra threads kill queries without waiting for the threads that run queries.
        self._threads = ThreadPoolExecutor(limits.concurrent_queries + 8, "clickhouse")
        self.sessions = Sessions(limits.sessions, asyncio.get_running_loop().time)

    def application(self) -> web.Application:
        """Return the routes."""
        app = web.Application(client_max_size=self._params.limits.compressed_body_bytes)
        app.router.add_get("/ping", self._ok)
        app.router.add_get("/replicas_status", self._ok)
        app.router.add_get("/", self._query)
        app.router.add_post("/", self._query)
        app.router.add_route("*", "/{path:.+}", self._not_found)
        return app

    async def _ok(self, _: web.Request) -> web.Response:
        return web.Response(text="Ok.\n", content_type="text/html")

    async def _not_found(self, request: web.Request) -> web.Response:
        return web.Response(
            status=404,
            text=f"There is no handle {request.path}\n\nUse / or /ping for health checks.\n"
            "Send queries from your program with POST method or GET /?query=...\n",
        )

    async def _query(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET" and not request.query_string:
            return await self._ok(request)
        stall_s = self._params.limits.stall_s
        reply = Response(request, QueryRequest(), self._headers(""), self._engine.version, stall_s)
        try:
            headers = {name.lower(): value for name, value in request.headers.items()}
            self._origins.refuse_foreign(headers)
            call = parse_request(request.method, request.query.items(), headers)
            query_id = call.parameters.get("query_id") or str(uuid.uuid4())
            reply = Response(request, call, self._headers(query_id), self._engine.version, stall_s)
            user = authenticate(call, self._params.users)
            with self._query_slot():
                return await self._answer(request, call, user, reply)
        except ClickHouseError as error:
            return await reply.fail(error)
        except (ConnectionError, ClientPayloadError):
            # The client disconnected or aborted its upload, so this response is not read.
            return web.Response(status=400)

    async def _answer(
        self, request: web.Request, call: QueryRequest, user: User, reply: Response
    ) -> web.StreamResponse:
        tables: list[ExternalTable] = []
        body = None
        if request.content_type.startswith("multipart/"):
            call, tables = await read_form(request, call, self._params.limits)
            statement = parse(call.query.encode(), self._engine.is_view)
            data = _no_data()
        else:
            body = RequestBody(request, call, self._params.limits)
            is_view = self._engine.is_view
            head = parse_head(await body.read_head(), is_view)
            statement = head or parse(with_own_grants(await body.read_statement(), user), is_view)
            if statement.data_at is not None and (statement.format or "").lower() == "values":
                check_values((await body.read_statement())[statement.data_at :])
            data = body.data_from(statement.data_at or 0)
        refuse_writing(user, call, statement)
        async with self._scope(call, user, statement, tables) as connection:
            return await Execution(self._engine, self._threads, connection, reply, request).run(call, statement, data)

    @contextlib.asynccontextmanager
    async def _scope(
        self, call: QueryRequest, user: User, statement: Statement, tables: list[ExternalTable]
    ) -> AsyncIterator[Connection]:
        """Yield a connection with the request's settings, database and external tables."""
        settings, read_only = settings_for(user, call)
        scope = QueryScope(settings, call.database, read_only, user.read_only, tables)
        session_id = call.parameters.get("session_id", "")
        if not session_id:
            connection = await self._in_thread(lambda: scope.open(self._engine))
            try:
                yield connection
            finally:
                connection.close()
            return
        session = await self.sessions.take(
            user.name,
            session_id,
            must_exist=call.flag("session_check"),
            timeout_s=call.session_timeout_s,
            connect=lambda: self._engine.connect({}, "", read_only=user.read_only, is_reader=user.read_only),
        )
        try:
            await self._in_thread(lambda: scope.enter(session, statement))
            try:
                yield session.connection
            finally:
                await self._in_thread(lambda: scope.leave(session))
        finally:
            self.sessions.release(session)

    @contextlib.contextmanager
    def _query_slot(self) -> Iterator[None]:
        limit = self._params.limits.concurrent_queries
        if self._running >= limit:
            raise ClickHouseError(
                202,
                "TOO_MANY_SIMULTANEOUS_QUERIES",
                f"Too many simultaneous queries. Maximum: {limit}",
            )
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _headers(self, query_id: str) -> dict[str, str]:
        return {
            "X-ClickHouse-Server-Display-Name": socket.gethostname(),
            "X-ClickHouse-Query-Id": query_id,
            "X-ClickHouse-Timezone": self._engine.timezone,
        }


async def _no_data() -> AsyncIterator[bytes]:
    """Yield no data, for a statement in a form."""
    no_pieces: tuple[bytes, ...] = ()
    for piece in no_pieces:
        yield piece

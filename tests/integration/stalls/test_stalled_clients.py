"""A client of each HTTP face sends half a request and then nothing: it is cut off, and others are served meanwhile."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from railsight_automation.status import Status, StatusParams, serve
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse, Limits, User
from streams.embedded.kafka_data_dir import free_ports
from streams.health.health import Health, HealthParams
from streams.health.status_server import StatusServer
from streams.locality.params import LocalityParams
from streams.report.web.server import http_server, listen

pytestmark = pytest.mark.timeout(120)
STALL_S = 1.0
BOUND_S = 30.0
"""The limit, a response to what is incomplete, and aiohttp's wait of 10 s for the rest, on a busy machine."""
STALLED = 48
"""Clients that stall together; of the statements of ClickHouse two at once are allowed."""
LOGIN = "X-ClickHouse-User: default\r\nX-ClickHouse-Key: writer\r\n"
HALVES = {
    "nothing": "",
    "half a request line": "GET /live",
    "half the headers": "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept",
    "half a body": f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n{LOGIN}Content-Length: 100\r\n\r\nSELECT 1",
    "half a chunk": f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n{LOGIN}Transfer-Encoding: chunked\r\n\r\n64\r\nSELECT 1",
    "half a form": (
        f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n{LOGIN}Content-Type: multipart/form-data; boundary=b\r\n"
        'Content-Length: 200\r\n\r\n--b\r\nContent-Disposition: form-data; name="query"\r\n\r\nSELECT'
    ),
}  # fmt: skip
Face = tuple[int, dict[str, str]]
"""The port of a face, and the headers of its requests."""


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the length of the body, which is read first."""
    body = await Request(scope, receive).body()
    await PlainTextResponse(str(len(body)))(scope, receive, send)


@asynccontextmanager
async def metrics(_: int) -> AsyncIterator[Face]:
    health = Health(HealthParams(), time.monotonic)
    server = StatusServer("127.0.0.1", 0, CollectorRegistry(), health, STALL_S)
    try:
        yield server.port, {}
    finally:
        await asyncio.to_thread(server.close)


@asynccontextmanager
async def locality(_: int) -> AsyncIterator[Face]:
    params = LocalityParams(port=0)
    listener, server = listen(params), http_server(echo, params, STALL_S)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield listener.getsockname()[1], {}
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def automation(_: int) -> AsyncIterator[Face]:
    (port,) = free_ports(1)
    stop = serve(Status(time.monotonic), StatusParams(port=port), STALL_S)
    try:
        yield port, {}
    finally:
        await asyncio.to_thread(stop)


@asynccontextmanager
async def clickhouse(port: int) -> AsyncIterator[Face]:
    yield port, {"X-ClickHouse-User": "default", "X-ClickHouse-Key": "writer"}


@pytest.fixture(scope="module")
def clickhouse_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    limits = Limits(concurrent_queries=STALLED + 2, stall_s=STALL_S)
    params = ClickHouseParams(
        data=tmp_path_factory.mktemp("clickhouse"), users=(User("default", "writer"),), limits=limits
    )
    with EmbeddedClickHouse(params) as server:
        yield server.port


FACES = {"metrics": metrics, "automation": automation, "locality": locality, "clickhouse": clickhouse}


async def is_served(face: Face) -> None:
    """Send a whole request and read its response."""
    port, headers = face
    async with (
        aiohttp.ClientSession(headers=headers) as client,
        client.get(f"http://127.0.0.1:{port}/?query=SELECT+1", timeout=aiohttp.ClientTimeout(total=10)) as answer,
    ):
        assert answer.status == 200, await answer.text()


async def stall(port: int, data: str) -> None:
    """Send some bytes, then wait until the server ends the connection, whatever it answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data.encode())
    with suppress(ConnectionError):
        await writer.drain()
        while await reader.read(1 << 16):
            pass
    writer.close()


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", FACES)
async def test_a_stalled_request_ends_and_others_are_served(name: str, half: str, clickhouse_port: int) -> None:
    """Of a body, only the faces that read one can stall."""
    async with FACES[name](clickhouse_port) as face:
        stalled = [asyncio.create_task(stall(face[0], HALVES[half])) for _ in range(STALLED)]
        await asyncio.sleep(0)
        for _ in range(3):
            await is_served(face)
        async with asyncio.timeout(BOUND_S):
            await asyncio.gather(*stalled)
        await is_served(face)


@pytest.mark.parametrize("name", ["metrics", "automation"])
async def test_more_connections_than_threads_are_refused_until_the_stalled_ones_end(name: str) -> None:
    """The faces of metrics have 64 threads at most."""
    async with FACES[name](0) as face:
        stalled = [asyncio.create_task(stall(face[0], "GET /")) for _ in range(200)]
        async with asyncio.timeout(BOUND_S):
            await asyncio.gather(*stalled)
        await is_served(face)


async def test_a_client_that_reads_nothing_ends_its_query(clickhouse_port: int) -> None:
    """The response of gigabytes is not sent into a full window for ever; the slot of the query is free again."""
    _, writer = await asyncio.open_connection("127.0.0.1", clickhouse_port, limit=1024)
    query = "SELECT number, toString(number) FROM numbers(300000000)"
    writer.write(f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n{LOGIN}Content-Length: {len(query)}\r\n\r\n{query}".encode())

    async def running() -> int:
        port, headers = clickhouse_port, {"X-ClickHouse-User": "default", "X-ClickHouse-Key": "writer"}
        async with (
            aiohttp.ClientSession(headers=headers) as client,
            client.post(
                f"http://127.0.0.1:{port}/", data="SELECT count() FROM system.processes WHERE query LIKE '%3000000%'"
            ) as answer,
        ):
            return int(await answer.text()) - 1

    async with asyncio.timeout(BOUND_S):
        while await running() == 0:
            pass
        while await running() > 0:
            pass
    writer.close()

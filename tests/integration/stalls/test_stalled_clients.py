"""Attacks each HTTP face with half requests, odd bytes, long headers and the Host of a web page; others are served."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

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
from tests.integration.collectors.otlp_clients import listening

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
async def metrics(_: int, stall_s: float = STALL_S) -> AsyncIterator[Face]:
    health = Health(HealthParams(), time.monotonic)
    server = StatusServer("127.0.0.1", 0, CollectorRegistry(), health, stall_s)
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
async def automation(_: int, stall_s: float = STALL_S) -> AsyncIterator[Face]:
    (port,) = free_ports(1)
    stop = serve(Status(time.monotonic), StatusParams(port=port), stall_s)
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


@asynccontextmanager
async def otlp(_: int) -> AsyncIterator[Face]:
    async with listening() as now:
        yield now.ports["http"], {}


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
    await exchange(port, data.encode())


async def exchange(port: int, data: bytes) -> bytes:
    """Send some bytes, and return what the server has answered when it ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    answer = b""
    try:
        with suppress(ConnectionError):
            await writer.drain()
            while part := await reader.read(1 << 16):
                answer += part
    finally:
        writer.close()
    return answer


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


@pytest.mark.parametrize("face_of", [metrics, automation])
async def test_stalled_connections_take_no_thread_from_others(
    face_of: Callable[[int, float], AbstractAsyncContextManager[Face]],
) -> None:
    """The faces of metrics have 64 connections at most; a new one replaces the oldest, or a probe would fail."""
    async with face_of(0, 300.0) as face:
        stalled = [asyncio.create_task(stall(face[0], "GET /")) for _ in range(200)]
        done, _ = await asyncio.wait(stalled, return_when=asyncio.FIRST_COMPLETED, timeout=BOUND_S)
        assert done
        for _ in range(3):
            await is_served(face)
        for one in stalled:
            one.cancel()
        await asyncio.gather(*stalled, return_exceptions=True)


LONG = 1 << 20
ODD = {
    "all bytes": bytes(range(256)),
    "TLS": b"\x16\x03\x01\x02\0\1\0\1\xfc\x03\x03" + bytes(40),
    "bytes of the path": b"GET /\xff\x1b%ff%00?\x80=%1b HTTP/1.1\r\nHost: 127.0.0.1",
    "bytes of a header": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: \xff/\xfe;q=\x1b\r\nX-\xff: \0",
    "a long line": b"GET /%b HTTP/1.1\r\nHost: 127.0.0.1" % (LONG * b"a"),
    "a long header": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nA: %b" % (LONG * b"a"),
    "many headers": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n%b" % b"\r\n".join(b"A%d: b" % n for n in range(90_000)),
    "headers of 60 kB": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n%b" % b"\r\n".join(
        b"A%d: %b" % (n, 60_000 * b"b") for n in range(90)
    ),
    "a negative length": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5",
    "a length and chunks": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
}  # fmt: skip


@pytest.mark.parametrize("name", [*FACES, "otlp"])
async def test_odd_requests_end_without_a_trace(
    name: str, clickhouse_port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """No client may fill a log by bytes that are no request, nor by long headers the memory."""
    async with {**FACES, "otlp": otlp}[name](clickhouse_port) as (port, _):
        for odd, data in ODD.items():
            async with asyncio.timeout(BOUND_S):
                answer = await exchange(port, data + b"\r\nConnection: close\r\n\r\n")
            assert not (len(data) > LONG and b" 200 " in answer[:20]), odd
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("name", "path", "refused"),
    [
        ("metrics", "/", 421), ("metrics", "/livez", 421), ("automation", "/", 421), ("otlp", "/v1/metrics", 421),
        ("clickhouse", "/?query=SELECT+1", 403),
    ],
)  # fmt: skip
async def test_a_web_page_that_rebinds_its_name_reads_nothing(
    name: str, path: str, refused: int, clickhouse_port: int
) -> None:
    """A browser sends the name of the page; `railsight serve` needs the token, which it sends to its own site only."""
    async with {**FACES, "otlp": otlp}[name](clickhouse_port) as (port, _):
        for host, is_refused in (
            ("evil.example", True),
            (f"localhost:{port}", False),
            ("127.0.0.1.evil.example", True),
        ):
            request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{LOGIN}Connection: close\r\n\r\n"
            status = int((await exchange(port, request.encode())).split()[1])
            assert (status == refused) == is_refused, host


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

"""The server process: reads its parameters from a pipe, opens the engine, answers until it is told to stop.

It says on its standard output, as one line of JSON, either that it is ready and on which port, or what is wrong.
"""

import asyncio
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from streams.embedded.clickhouse.data_dir import lock
from streams.embedded.clickhouse.engine import Engine
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.params import ClickHouseParams, from_json
from streams.embedded.clickhouse.server import HttpServer
from streams.embedded.directories import prepare
from streams.instrument.pages import retain_malloc_pages
from streams.wire.errors import Misconfigured

_NEEDS_BYTES = 256 << 20
_STOP_S = 5.0
_ENGINE_MALLOC = "dirty_decay_ms:60000,prof:false"
"""For the engine's own jemalloc: it keeps what a block was in for the next one, ten seconds later, where it gave it
back after five; and nobody asks for a profile of its allocations. Insert 1.16 -> 1.01, merge 0.93 -> 0.85 CPU s a
million rows (tests/bench/clickhouse_parts)."""


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raise Misconfigured if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise Misconfigured(
            f"ClickHouse cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}"
        ) from error
    return listening


async def serve(params: ClickHouseParams, listening: socket.socket, engine: Engine, ready: str) -> None:
    """Answer until SIGTERM or SIGINT; print `ready` once the first request can come."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    face = HttpServer(engine, params)
    runner = web.AppRunner(
        face.application(),
        auto_decompress=False,
        access_log=None,
        shutdown_timeout=_STOP_S,
        # An INSERT's body comes in MiBs, not in 64 KiB: fewer changes between reading and writing.
        read_bufsize=1 << 20,
        # A query may stand in the URL: the server's own bound is http_max_uri_size, 1 MiB.
        max_line_size=1 << 20,
        max_field_size=1 << 20,
    )
    await runner.setup()
    await web.SockSite(runner, listening).start()
    print(ready, flush=True)  # noqa: T201 — the parent reads it
    while not stop.is_set():
        face.sessions.drop_expired()
        try:
            await asyncio.wait_for(stop.wait(), 1.0)
        except TimeoutError:
            continue
    await runner.cleanup()
    face.sessions.close()


def main(arguments: Sequence[str]) -> int:
    """Run the server of the parameters in the file descriptor that the one argument names; return the exit code."""
    retain_malloc_pages()
    os.environ.setdefault("JE_MALLOC_CONF", _ENGINE_MALLOC)
    # As the server does: parts, threads and clients take more descriptors than the usual soft limit.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        with os.fdopen(int(arguments[0]) if arguments else 0) as given:
            params = from_json(json.loads(given.readline()))
        assert params.data is not None
        data = Path(params.data).resolve()
        prepare(data, purpose="ClickHouse's data folder", needs_bytes=_NEEDS_BYTES)
        holding = lock(data)
        listening = bind(params.host, params.port or 0)
        engine = Engine(data, params.limits)
    except (Misconfigured, ClickHouseError) as error:
        print(json.dumps({"error": " ".join(str(error).split())}), flush=True)  # noqa: T201 — the parent reads it
        return 2
    ready = json.dumps({"port": listening.getsockname()[1], "version": engine.version})
    asyncio.run(serve(params, listening, engine, ready))
    os.close(holding)
    # The engine's own threads outlive an interpreter that ends in order; everything acknowledged is on disk.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

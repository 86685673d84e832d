"""Runs the server process: reads its parameters from a pipe, opens the engine, and serves until a signal.

It prints one line of JSON on standard output: the port when it is ready, or the error.
"""

import asyncio
import json
import logging
import os
import resource
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from streams.embedded.clickhouse.data_dir import engine_folder, lock, write_configuration
from streams.embedded.clickhouse.engine import Engine
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.merge_guard import MergeGuard
from streams.embedded.clickhouse.params import WITHOUT_SANDBOX, ClickHouseParams, from_json
from streams.embedded.clickhouse.server import HttpServer
from streams.embedded.directories import prepare
from streams.embedded.sandbox import hide_memory, interpreter_paths, package_paths, restrict
from streams.instrument.memory import retain_malloc_pages
from streams.wire.errors import Misconfigured

_NEEDS_BYTES = 256 << 20
_STOP_S = 5.0
_ENGINE_PACKAGES = ("chdb", "pyarrow", "numpy", "pandas", "dateutil", "pytz", "six", "tzdata")
"""Packages that are loaded inside of the sandbox: chdb imports pyarrow when it connects, with numpy; pandas is another
requirement of its, with packages of its own."""
_WITHOUT = (
    "the embedded ClickHouse needs Linux 5.13 or later with Landlock: add landlock to the kernel's parameter lsm=, let "
    "the container's seccomp profile permit landlock_*, set [store] url to a ClickHouse server, or accept the risk by "
    "--without-sandbox"
)
_GUARD_S = 0.5
_ENGINE_MALLOC = "dirty_decay_ms:60000,prof:false"
"""Options of the engine's jemalloc. It retains freed memory for 60 s instead of 5, because the next block needs it
after ten seconds, and does not profile allocations. CPU s per million rows: insert 1.16 -> 1.01, merge 0.93 -> 0.85
(DECISIONS.md)."""


def is_worth_a_line(record: logging.LogRecord) -> bool:
    """Return False for a request that is no HTTP: anyone may send one, and aiohttp would log a stack trace."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


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


def enter_sandbox(data: Path, config: Path) -> None:
    """Drop all rights of this process that the engine does not need; raise Misconfigured if the system cannot.

    Call it before chdb is imported, because chdb starts threads. The process can still use the engine's folder, read
    the configuration and the libraries, and use its open sockets.
    """
    packages = package_paths(*_ENGINE_PACKAGES)
    enter_folder(data)
    try:
        restrict(
            read=[*interpreter_paths(), *packages, config, config.with_name("users.xml")], write=[engine_folder(data)]
        )
    except Misconfigured as error:
        raise Misconfigured(f"{error}; {_WITHOUT}") from None


def enter_folder(data: Path) -> None:
    """Make the engine's folder the current folder and that of temporary files."""
    folder = engine_folder(data)
    os.umask(0o077)
    os.chdir(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")


async def serve(params: ClickHouseParams, listening: socket.socket, engine: Engine, ready: str) -> None:
    """Serve until SIGTERM or SIGINT; print `ready` once requests are accepted."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    logging.getLogger("aiohttp.server").addFilter(is_worth_a_line)
    server = HttpServer(engine, params)
    runner = web.ServerRunner(server, shutdown_timeout=_STOP_S)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    print(ready, flush=True)  # noqa: T201 — the parent reads it
    guarding = asyncio.create_task(guard_merges(MergeGuard(engine)))
    while not stop.is_set():
        for sessions in server.sessions.values():
            sessions.drop_expired()
        try:
            await asyncio.wait_for(stop.wait(), 1.0)
        except TimeoutError:
            continue
    guarding.cancel()
    await runner.cleanup()
    for sessions in server.sessions.values():
        sessions.close()


async def guard_merges(guard: MergeGuard) -> None:
    """Watch for a full disk until cancelled; print the repaired tables and the errors."""
    while True:
        try:
            repaired, problem = await asyncio.to_thread(guard.watch), ""
        except (ClickHouseError, OSError) as error:
            repaired, problem = [], " ".join(str(error).split())
        if repaired or problem:
            line = {"warning": "tables damaged by a full disk", "loaded_again": repaired, "not_repaired": problem}
            print(json.dumps(line), flush=True)  # noqa: T201 — the server's log
        await asyncio.sleep(_GUARD_S)


def main(arguments: Sequence[str]) -> int:
    """Run the server with the parameters from the file descriptor that the argument names; return the exit code."""
    retain_malloc_pages()
    os.environ.setdefault("JE_MALLOC_CONF", _ENGINE_MALLOC)
    # ClickHouse's server does the same: parts, threads and clients need more descriptors than the usual soft limit.
    maximum = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))
    try:
        with os.fdopen(int(arguments[0]) if arguments else 0) as given:
            params = from_json(given.readline())
        assert params.data is not None
        data = Path(params.data).resolve()
        prepare(data, purpose="ClickHouse's data folder", needs_bytes=_NEEDS_BYTES)
        lock_descriptor = lock(data)
        listening = bind(params.host, params.port or 0)
        config = write_configuration(data, params.limits, without_sandbox=params.without_sandbox)
        if params.without_sandbox:
            enter_folder(data)
        else:
            enter_sandbox(data, config)
        engine = Engine(data, config)
        hide_memory()
    except (Misconfigured, ClickHouseError) as error:
        print(json.dumps({"error": " ".join(str(error).split())}), flush=True)  # noqa: T201 — the parent reads it
        return 2
    if params.without_sandbox:
        print(json.dumps({"warning": WITHOUT_SANDBOX}), flush=True)  # noqa: T201 — the server's log
    ready = json.dumps({"port": listening.getsockname()[1], "version": engine.version})
    asyncio.run(serve(params, listening, engine, ready))
    os.close(lock_descriptor)
    # The engine's threads would outlive a regular exit of the interpreter; acknowledged data is on disk.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Reads NCCL's log files and its RAS subsystem, and emits what they report as events of the host."""

import asyncio
import contextlib
import glob
import socket
from collections.abc import Callable
from pathlib import Path

import structlog

from collectors.core.context import CollectorContext, DeviceEvent
from collectors.core.poll import Pace, poll
from collectors.host.logfile import LogFile
from collectors.host.logs import Place
from collectors.host.nccl import MAX_STATUS_BYTES, NcclReport, RasChanges, parse_status, parse_warning
from collectors.host.params import Params
from collectors.host.ports import KnownPorts
from collectors.host.rate_limit import RateLimiter
from collectors.host.rate_limited_emitter import RateLimitedEmitter
from streams.wire.bounds import clean
from streams.wire.errors import Reject, Retry
from streams.wire.models import EventKind

_log = structlog.get_logger("railsight.host")

_LINES = 1000
_FIND_EVERY_S = 5.0
_LABEL = "nccl"


class NcclWitness:
    """The witness of one host; without settings it reads nothing."""

    def __init__(
        self, params: Params, context: CollectorContext, ports: KnownPorts, emit: Callable[[DeviceEvent, int], None]
    ) -> None:
        self._params = params
        self._context = context
        self._ports = ports
        limit = RateLimiter(params.events_per_s, params.events_burst)
        self._emitter = RateLimitedEmitter(limit, context.metrics, _LABEL, emit)
        self._files: dict[str, LogFile] = {}
        self._has_looked = False
        self._changes = RasChanges(params.nccl_straggler_queries)
        self._own_hosts: frozenset[str] = frozenset()
        self._failure = ""

    async def run(self) -> None:
        """Read until cancelled; returns at once without anything to read."""
        async with asyncio.TaskGroup() as tasks:
            if self._params.nccl_logs:
                tasks.create_task(self._follow_logs())
            if self._params.nccl_ras:
                self._own_hosts = await asyncio.to_thread(_own_hosts, self._params.device_name())
                pace = Pace(self._params.nccl_ras_every_s, self._params.nccl_ras_every_s)
                context = self._context
                tasks.create_task(poll(_LABEL, self._query_ras, pace, context.metrics, context.rng, self._ras_failed))

    def close(self) -> None:
        """Send delayed events, and close the files."""
        self._emitter.end(self._context.clock.now_ns())
        for file in self._files.values():
            file.close()

    async def _follow_logs(self) -> None:
        loop = asyncio.get_running_loop()
        found_s = float("-inf")
        while True:
            if loop.time() - found_s >= _FIND_EVERY_S:
                found_s = loop.time()
                self._find_files(await asyncio.to_thread(_matching, self._params.nccl_logs))
            is_drained = all([self._read(file) for file in self._files.values()])  # noqa: C419 — each file is read
            self._emitter.flush(self._context.clock.now_ns(), loop.time())
            await asyncio.sleep(self._params.log_poll_s if is_drained else 0)

    def _find_files(self, paths: set[str]) -> None:
        """Follow the files that match; those of the first look from their end, later ones from their beginning."""
        for gone in self._files.keys() - paths:
            self._files.pop(gone).close()
        for path in sorted(paths - self._files.keys())[: self._params.nccl_max_files - len(self._files)]:
            self._files[path] = LogFile(Path(path), Place(inode=1) if self._has_looked else None)
        self._has_looked = True

    def _read(self, file: LogFile) -> bool:
        """Read the new lines of a file; return whether these were all."""
        chunk = file.read(_LINES)
        for line in chunk.lines:
            if (report := parse_warning(line.decode(errors="replace"))) is not None:
                self._emit(report)
        return chunk.is_drained

    async def _query_ras(self) -> None:
        host, _, port = self._params.nccl_ras.rpartition(":")
        try:
            reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 20)
            try:
                timeout_s = max(1, int(self._params.nccl_ras_every_s / 2))
                writer.write(f"SET FORMAT json\nTIMEOUT {timeout_s}\nVERBOSE STATUS\n".encode())
                await writer.drain()
                data = bytearray()
                while part := await reader.read(1 << 20):
                    data += part
                    if len(data) > MAX_STATUS_BYTES:
                        raise Reject(f"NCCL RAS: more than {MAX_STATUS_BYTES >> 20} MiB")
            finally:
                writer.close()
        except OSError as error:
            # Without a job on the host nothing listens there: that is no failure.
            raise Retry(f"NCCL RAS at {self._params.nccl_ras}: {error.strerror or error}") from error
        ranks = await asyncio.to_thread(parse_status, bytes(data))
        self._failure = ""
        for report in self._changes.changes(ranks, self._own_hosts):
            self._emit(report)

    def _ras_failed(self, why: str) -> None:
        if why != self._failure:
            self._failure = why
            _log.info("no status of NCCL", why=why)

    def _emit(self, report: NcclReport) -> None:
        port = self._ports.by_rdma(report.hca) if report.hca else None
        name = port.name if port is not None else report.hca
        now_ns, now_s = self._context.clock.now_ns(), asyncio.get_running_loop().time()
        event = DeviceEvent(EventKind.NCCL, clean(name), now_ns, clean(report.detail), report.code)
        self._emitter.emit(event, now_ns, now_s)


def _matching(patterns: tuple[str, ...]) -> set[str]:
    return {path for pattern in patterns for path in glob.glob(pattern)}  # noqa: PTH207 — patterns are absolute


def _own_hosts(device: str) -> frozenset[str]:
    """Return the names and addresses by which NCCL may know this host."""
    name = socket.gethostname()
    addresses: set[str] = set()
    with contextlib.suppress(OSError):
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    return frozenset({device, name, name.partition(".")[0], socket.getfqdn(), *addresses})

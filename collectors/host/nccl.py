"""Reads NCCL's log files and its RAS subsystem (NCCL 2.30), and emits their reports as events of the host."""

import asyncio
import contextlib
import glob
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import structlog

from collectors.core.context import CollectorContext, DeviceEvent
from collectors.core.poll import Pace, poll
from collectors.host.log_file import LogFile
from collectors.host.log_sources import Place
from collectors.host.params import Params
from collectors.host.rate_limit import RateLimitedEmitter
from collectors.kernel.ports import KnownPorts
from streams.instrument.text import clean
from streams.wire.errors import Reject, Retry
from streams.wire.models import EventKind
from streams.wire.nccl_codes import NcclCode

_WARNING = re.compile(r"NCCL WARN (.*)")
_COMPLETION = re.compile(r"NET/IB ?: Got completion from peer \S+ with status=(?:\w+\()?(\d+)\)?")
_HCA = re.compile(r"\bhca ([\w.-]+)")
_ASYNC = re.compile(r"NET/IB ?: ([\w.-]+?):\d+ (?:Got )?(non-fatal )?async (fatal )?event")
_FATAL = "error"
"""Part of the verbs' names of all fatal events, and of no other. Older NCCL and nccl-rdma-sharp-plugins write
`Got async event :` with the name for each event, such as `port active` (net_ib.cc, ncclIbAsyncThreadMain)."""
_CLOSED = re.compile(r"Connection closed by remote peer")
_MAX_RANKS = 1 << 17
"""The largest published cluster has 131,072 GPUs."""
_DETAIL = 500
MAX_STATUS_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class NcclReport:
    """One report; `hca` is empty if NCCL names none."""

    code: int
    detail: str
    hca: str = ""


def parse_warning(line: str) -> NcclReport | None:
    """Return the report of a line of NCCL's log; None for any other line."""
    found = _WARNING.search(line)
    if found is None:
        return None
    message = found[1].strip()[:_DETAIL]
    if completion := _COMPLETION.search(message):
        hca = _HCA.search(message)
        return NcclReport(int(completion[1]), message, hca[1] if hca else "") if int(completion[1]) else None
    if event := _ASYNC.search(message):
        is_fatal = not event[2] and bool(event[3] or _FATAL in message[event.end() :])
        return NcclReport(NcclCode.ASYNC_FATAL if is_fatal else NcclCode.ASYNC_NON_FATAL, message, event[1])
    return NcclReport(NcclCode.CONNECTION_CLOSED, message) if _CLOSED.search(message) else None


@dataclass(frozen=True, slots=True)
class RankStatus:
    """One rank of a communicator; `counts` has its collectives, None if it is missing."""

    communicator: str
    rank: int
    host: str
    counts: int | None
    code: NcclCode | None = None

    @property
    def name(self) -> str:
        """The rank's display name."""
        return f"rank {self.rank} on {self.host} of communicator {self.communicator}"


def parse_status(data: bytes) -> list[RankStatus]:
    """Return the ranks of all communicators in a JSON status; raises Reject for any other answer."""
    begin = data.find(b"{")
    try:
        communicators = orjson.loads(data[max(begin, 0) :])["communicators"]
        ranks = [rank for communicator in communicators for rank in _ranks(communicator)]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise Reject(f"NCCL RAS: {error!r}") from error
    if len(ranks) > _MAX_RANKS:
        raise Reject(f"NCCL RAS: {len(ranks)} ranks, more than {_MAX_RANKS}")
    return ranks


def _ranks(communicator: Mapping[str, Any]) -> Iterator[RankStatus]:
    name = str(communicator["hash"])[:64]
    for rank in communicator.get("ranks") or ():
        counts, status = rank.get("collective_counts"), rank.get("status") or {}
        total = sum(map(int, counts.values())) if isinstance(counts, dict) else int(counts or 0)
        has_error = str(status.get("async_error") or "0") not in ("0", "ncclSuccess", "ncclInProgress")
        yield RankStatus(
            name, int(rank["rank"]), str(rank["host"])[:64], total, NcclCode.ASYNC_ERROR if has_error else None
        )
    for rank in communicator.get("missing_ranks") or ():
        is_dead = bool((rank.get("status") or {}).get("considered_dead"))
        code = NcclCode.DEAD if is_dead else NcclCode.UNRESPONSIVE
        yield RankStatus(name, int(rank["rank"]), str(rank["host"])[:64], None, code)


_TEXT = {
    NcclCode.ASYNC_ERROR: "has an asynchronous error",
    NcclCode.UNRESPONSIVE: "does not respond",
    NcclCode.DEAD: "is considered dead",
    NcclCode.STRAGGLER: "is behind the others",
}


@dataclass(slots=True)
class RasChanges:
    """Compares consecutive statuses; reports each condition of a rank once, until the condition ends."""

    straggler_queries: int
    _reported: set[tuple[str, int, NcclCode]] = field(default_factory=set)
    _behind: dict[tuple[str, int], int] = field(default_factory=dict)
    """Consecutive queries in which a rank was behind."""

    def changes(self, ranks: Iterable[RankStatus], own_hosts: frozenset[str]) -> list[NcclReport]:
        """Return the new conditions of ranks on this host, and of ranks elsewhere if this host reports for them.

        The host of the lowest responding rank reports for the other hosts, so that a dead peer is one event and not one
        event from each host of the job. A host that is not in the status reports for all.
        """
        ranks = list(ranks)
        present = {(one.communicator, one.rank, code): one for one, code in self._conditions(ranks)}
        fresh = [(one, key[2]) for key, one in present.items() if key not in self._reported]
        self._reported = set(present)
        answers_for = _answered(ranks, own_hosts)
        return [
            NcclReport(code, f"{one.name} {_TEXT[code]}")
            for one, code in fresh
            if one.host in own_hosts or one.communicator in answers_for
        ]

    def _conditions(self, ranks: list[RankStatus]) -> Iterator[tuple[RankStatus, NcclCode]]:
        stragglers = self._stragglers(ranks)
        for one in ranks:
            if one.code is not None:
                yield one, one.code
            elif (one.communicator, one.rank) in stragglers:
                yield one, NcclCode.STRAGGLER

    def _stragglers(self, ranks: list[RankStatus]) -> set[tuple[str, int]]:
        """Return the ranks that were behind in enough queries; if half of the ranks are behind, the others lead."""
        counts: dict[str, list[int]] = {}
        for one in ranks:
            if one.counts is not None:
                counts.setdefault(one.communicator, []).append(one.counts)
        behind: dict[tuple[str, int], int] = {}
        for one in ranks:
            own = counts.get(one.communicator, ())
            if one.counts is not None and one.counts < max(own) and sum(c < max(own) for c in own) * 2 < len(own):
                key = one.communicator, one.rank
                behind[key] = self._behind.get(key, 0) + 1
        self._behind = behind
        return {key for key, queries in behind.items() if queries >= self.straggler_queries}


def _answered(ranks: Iterable[RankStatus], own_hosts: frozenset[str]) -> set[str]:
    """Return the communicators for which this host reports ranks elsewhere."""
    lowest: dict[str, RankStatus] = {}
    own: set[str] = set()
    names: set[str] = set()
    for one in ranks:
        names.add(one.communicator)
        if one.counts is None:
            continue
        if one.host in own_hosts:
            own.add(one.communicator)
        if one.communicator not in lowest or one.rank < lowest[one.communicator].rank:
            lowest[one.communicator] = one
    return {name for name in names if name not in own or lowest[name].host in own_hosts}


_log = structlog.get_logger("railsight.host")

_LINES = 1000
_FIND_EVERY_S = 5.0
_LABEL = "nccl"


class NcclWitness:
    """Reads the NCCL sources of one host; without settings it reads nothing."""

    def __init__(
        self, params: Params, context: CollectorContext, ports: KnownPorts, emit: Callable[[DeviceEvent, int], None]
    ) -> None:
        self._params = params
        self._context = context
        self._ports = ports
        self._emitter = RateLimitedEmitter(params.events_per_s, params.events_burst, context.metrics, _LABEL, emit)
        self._files: dict[str, LogFile] = {}
        self._has_looked = False
        self._changes = RasChanges(params.nccl_straggler_queries)
        self._own_hosts: frozenset[str] = frozenset()
        self._failure = ""
        self._warned: set[str] = set()
        self._beyond: set[str] = set()

    async def run(self) -> None:
        """Read until cancelled; return at once if there is nothing to read."""
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
        """Follow the matching files: files of the first search from their end, later files from their beginning."""
        for gone in self._files.keys() - paths:
            self._files.pop(gone).close()
        fresh = sorted(paths - self._files.keys())
        room = self._params.nccl_max_files - len(self._files)
        if beyond := set(fresh[room:]) - self._beyond:
            self._beyond |= beyond
            self._context.metrics.add("out_of_bounds", _LABEL, len(beyond))
            _log.warning("logs of NCCL beyond the limit are not read", files=len(self._beyond), newest=max(beyond))
        for path in fresh[:room]:
            self._files[path] = LogFile(Path(path), Place() if self._has_looked else None)
        self._has_looked = True

    def _read(self, file: LogFile) -> bool:
        """Read the new lines of a file; return True if it has no more."""
        chunk, metrics = file.read(_LINES), self._context.metrics
        for line in chunk.lines:
            text = line.decode(errors="replace")
            if (report := parse_warning(text)) is not None:
                self._emit(report)
            elif _WARNING.search(text):
                metrics.add("unknown", "NCCL")
        if chunk.refused:
            metrics.add("unreadable", _LABEL, chunk.refused)
        if chunk.gaps:
            metrics.add("out_of_bounds", _LABEL, chunk.gaps)
        if file.problem and file.problem not in self._warned:
            self._warned.add(file.problem)
            _log.warning("a log of NCCL is not read", why=file.problem)
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
            # Without a job on the host, no process listens there; this is no failure.
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
        port = self._ports.of_rdma(report.hca) if report.hca else None
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

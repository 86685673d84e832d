"""Publishes the results of nccl-tests, from one output on standard input or from files that are followed.

Each participating host has two messages with the same time: its GPUs with their ranks, and all results. The tables join
them by this time. The nanoseconds of the time contain a digest of the content, which is also the identity of the
messages. So two benchmarks of one second differ, and a benchmark that is published twice is stored once.
"""

import asyncio
import glob
import hashlib
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from collectors.core.columns import CellKey, Layout, Reading
from collectors.core.context import CollectorContext, Emitter
from collectors.core.publisher import KafkaPublisher
from collectors.core.spec import Spec
from collectors.nccl_tests.params import Params
from collectors.nccl_tests.parse import Benchmark, Result, parse
from streams.fabric.catalogue import Metric
from streams.instrument.text import clean
from streams.wire.errors import Misconfigured, Reject, Retry
from streams.wire.models import RowKind, Samples, Source

_DIGEST_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class HostReading:
    """One message of one host; `run` identifies the benchmark."""

    host: str
    row_kind: RowKind
    reading: Reading
    run: int


def readings(benchmark: Benchmark, at_ns: int) -> Iterator[HostReading]:
    """Yield the messages of a benchmark that ended at `at_ns`; each of repeated cycles (`-N`) is a benchmark."""
    for cycle in _cycles(benchmark):
        digest = hashlib.blake2b(repr((benchmark.operation, benchmark.ranks, cycle)).encode(), digest_size=8).digest()
        run = int.from_bytes(digest, "little") | 1
        time_ns = at_ns - at_ns % _DIGEST_NS + run % _DIGEST_NS
        results = _reading(time_ns, at_ns, dict(_result_cells(benchmark, cycle)))
        for host in benchmark.hosts:
            ranks: dict[CellKey, float | None] = {
                CellKey(rank.gpu or f"rank {rank.rank}", Metric.COLLECTIVE_RANK, 0): float(rank.rank)
                for rank in benchmark.ranks
                if rank.host == host
            }
            yield HostReading(host, RowKind.ROW_KIND_GPU, _reading(time_ns, at_ns, ranks), run)
            yield HostReading(host, RowKind.ROW_KIND_COLLECTIVE, results, run)


def _cycles(benchmark: Benchmark) -> Iterator[tuple[Result, ...]]:
    """Yield the results in parts that contain each size once."""
    part: dict[str, Result] = {}
    for result in benchmark.results:
        name = benchmark.row(result)
        if name in part:
            yield tuple(part.values())
            part = {}
        part[name] = result
    yield tuple(part.values())


def _result_cells(benchmark: Benchmark, results: tuple[Result, ...]) -> Iterator[tuple[CellKey, float | None]]:
    size = float(benchmark.group_size)
    for result in results:
        row = benchmark.row(result)
        for index, measured in enumerate(result.placements):
            if measured is not None:
                values = {
                    Metric.COLLECTIVE_SIZE_BYTES: float(result.size_bytes),
                    Metric.COLLECTIVE_ELEMENTS: float(result.elements),
                    Metric.COLLECTIVE_RANKS: size,
                    Metric.COLLECTIVE_TIME_US: measured.time_us,
                    Metric.COLLECTIVE_ALGORITHM_BYTES_PER_S: measured.algorithm_bytes_per_s,
                    Metric.COLLECTIVE_BUS_BYTES_PER_S: measured.bus_bytes_per_s,
                    Metric.COLLECTIVE_WRONG_ELEMENTS: measured.wrong,
                }
                yield from ((CellKey(row, metric, index), value) for metric, value in values.items())


def _reading(sampled_ns: int, received_ns: int, cells: Mapping[CellKey, float | None]) -> Reading:
    layout = Layout(list(cells))
    tables = layout.tables(list(cells.values()))
    return Reading(sampled_ns, max(sampled_ns, received_ns), 0, layout.row, layout.rows_digest, *tables)


_log = structlog.get_logger("railsight.nccl_tests")

MAX_BYTES = 64 << 20
"""The limit of an output: `-I 1` writes the time of each iteration of each process, about 20 MB for 1,000 processes."""
_FLUSH_S = 60.0


def publish(benchmark: Benchmark, at_ns: int, params: Params, context: CollectorContext) -> Iterator[Samples]:
    """Publish a benchmark that ended at `at_ns`; yield its messages."""
    emitters: dict[tuple[str, int], Emitter] = {}
    for one in readings(benchmark, at_ns):
        host = clean(params.host(one.host))
        key = host, one.run
        if key not in emitters:
            emitters[key] = Emitter(context.publisher, context.collector, one.run, Source.SOURCE_BENCHMARK)
        yield emitters[key].samples(host, one.reading, one.row_kind)


def summary(benchmark: Benchmark) -> str:
    """Return a benchmark in one line."""
    average = benchmark.average_bus_bytes_per_s
    bandwidth = "the output ends before its summary" if average is None else f"average bus {average / 1e9:.2f} GB/s"
    return (
        f"{benchmark.operation}: {len(benchmark.hosts)} hosts, {len(benchmark.ranks)} ranks, "
        f"{len(benchmark.results)} results, {bandwidth}"
    )


class FileFollower:
    """Finds complete outputs: files that did not change between two checks."""

    def __init__(self, params: Params) -> None:
        self._params = params
        self._seen: dict[str, tuple[int, int]] = {}
        self._published: dict[str, tuple[int, int]] = {}

    def complete(self, now_ns: int) -> Iterator[tuple[Path, int]]:
        """Yield the files to read now, each with the time at which it was written in ns."""
        found: dict[str, tuple[int, int]] = {}
        for path in sorted({path for pattern in self._params.outputs for path in glob.glob(pattern)}):  # noqa: PTH207 — patterns are absolute
            try:
                state = os.stat(path)  # noqa: PTH116 — beside glob
            except OSError:
                continue
            if now_ns - state.st_mtime_ns <= self._params.max_age_s * 1e9:
                found[path] = state.st_size, state.st_mtime_ns
        ready = [path for path, own in found.items() if self._seen.get(path) == own != self._published.get(path)]
        self._published = {path: own for path, own in self._published.items() if path in found}
        self._seen = found
        for path in ready:
            self._published[path] = found[path]
            yield Path(path), found[path][1]


def _read(path: Path, operation: str) -> list[Benchmark]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Reject(f"{path}: {error.strerror or error}") from error
    return _parsed(data, operation)


def _parsed(data: bytes, operation: str) -> list[Benchmark]:
    if len(data) > MAX_BYTES:
        raise Reject(f"the output has more than {MAX_BYTES >> 20} MiB")
    return parse(data, operation)


def _read_input(operation: str) -> list[Benchmark]:
    """Return the benchmarks of standard input; raises Misconfigured."""
    if sys.stdin.isatty():
        raise Misconfigured("collect nccl_tests: pipe an output into it (all_reduce_perf … |), or set outputs")
    try:
        return _parsed(sys.stdin.buffer.read(MAX_BYTES + 1), operation)
    except Reject as error:
        raise Misconfigured(f"collect nccl_tests: {error}") from error


async def collect(params: Params, context: CollectorContext) -> None:
    """Publish each output of the files once, until cancelled; without files, publish standard input and return."""
    if not params.outputs:
        await _publish_input(params, context)
        return
    follower = FileFollower(params)
    while True:
        for path, at_ns in await asyncio.to_thread(lambda: list(follower.complete(context.clock.now_ns()))):
            try:
                benchmarks = await asyncio.to_thread(_read, path, params.operation)
            except Reject as error:
                context.metrics.add("unreadable", "output")
                _log.warning("output of nccl-tests left out", file=str(path), why=str(error))
                continue
            for benchmark in benchmarks:
                count = sum(1 for _ in publish(benchmark, at_ns, params, context))
                _log.info("published", file=str(path), benchmark=summary(benchmark), messages=count)
        await asyncio.sleep(params.find_every_s)


async def _publish_input(params: Params, context: CollectorContext) -> None:
    """Publish standard input and return when Kafka has it; raises Retry if Kafka does not acknowledge in time."""
    benchmarks = await asyncio.to_thread(_read_input, params.operation)
    at_ns = context.clock.now_ns()
    for benchmark in benchmarks:
        sum(1 for _ in publish(benchmark, at_ns, params, context))
    assert isinstance(context.publisher, KafkaPublisher)
    try:
        async with asyncio.timeout(_FLUSH_S):
            await context.publisher.flushed()
    except TimeoutError:
        raise Retry(
            f"Kafka acknowledged nothing for {_FLUSH_S:g} s; nothing of the results is certain to be published"
        ) from None
    for benchmark in benchmarks:
        print(f"published {summary(benchmark)}", file=sys.stderr)  # noqa: T201


async def read_once(params: Params, context: CollectorContext) -> AsyncIterator[Samples]:
    """Yield the readings of each host from the existing files, or from standard input."""
    now_ns = context.clock.now_ns()
    if params.outputs:
        follower = FileFollower(params)
        list(follower.complete(now_ns))
        try:
            found = [(one, at) for path, at in follower.complete(now_ns) for one in _read(path, params.operation)]
        except Reject as error:
            raise Misconfigured(f"collect nccl_tests: {error}") from error
    else:
        found = [(one, now_ns) for one in await asyncio.to_thread(_read_input, params.operation)]
    for benchmark, at_ns in found:
        for samples in publish(benchmark, at_ns, params, context):
            yield samples


SPEC = Spec(
    "nccl_tests", Params, collect, read_once, example="--once --print < results.txt",
    may_end=lambda params: not params.outputs,
)  # fmt: skip

"""Publishes the results of nccl-tests: of one output on standard input, or of files that are followed."""

import asyncio
import glob
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import structlog

from collectors.core.context import CollectorContext, Emitter
from collectors.core.publisher import KafkaPublisher
from collectors.core.spec import Spec
from collectors.nccl_tests.compose import readings
from collectors.nccl_tests.output import Benchmark
from collectors.nccl_tests.params import Params
from collectors.nccl_tests.parse import parse
from streams.wire.bounds import clean
from streams.wire.errors import Misconfigured, Reject, Retry
from streams.wire.models import Samples, Source

_log = structlog.get_logger("railsight.nccl_tests")

MAX_BYTES = 64 << 20
"""`-I 1` writes the time of each iteration of each process: some 20 MB for 1,000 processes."""
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
    """Finds outputs that are complete: those that did not change between two looks."""

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
    """Publish each output of the files once, until cancelled; without files, standard input, and return."""
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
    """Yield the readings of each host, of the files that are there, or of standard input."""
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

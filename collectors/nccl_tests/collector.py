"""Publishes the results of nccl-tests: of one output on standard input, or of files that are followed."""

import asyncio
import glob
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import structlog

from collectors.core.columns import json_lines
from collectors.core.context import CollectorContext
from collectors.core.emitter import Emitter
from collectors.core.once import NullPublisher
from collectors.core.process import collect_to_kafka
from collectors.core.publisher import KafkaPublisher
from collectors.core.spec import Core, Spec
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
    """Publish each output of the files once, until cancelled."""
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


async def run(params: Params, core: Core) -> None:
    """Follow files until cancelled, or publish standard input until Kafka has it; raises Misconfigured, Retry."""
    if params.publisher.spool is not None:
        raise Misconfigured("collect.nccl_tests: publisher.spool is not supported: outputs can be published again")
    if params.outputs:
        await collect_to_kafka(SPEC.name, core, lambda context: collect(params, context))
        return
    benchmarks = await asyncio.to_thread(_read_input, params.operation)
    await _until_acknowledged(benchmarks, params, core, lambda line: print(line, file=sys.stderr))  # noqa: T201


async def _until_acknowledged(
    benchmarks: list[Benchmark], params: Params, core: Core, report: Callable[[str], None]
) -> None:
    """Publish, and end the collector when nothing waits; raises Retry if Kafka does not acknowledge in time."""
    sent = asyncio.Event()

    async def work(context: CollectorContext) -> None:
        at_ns = context.clock.now_ns()
        for benchmark in benchmarks:
            sum(1 for _ in publish(benchmark, at_ns, params, context))
        assert isinstance(context.publisher, KafkaPublisher)
        await context.publisher.flushed()
        sent.set()
        await asyncio.Event().wait()

    collecting = asyncio.ensure_future(collect_to_kafka(SPEC.name, core, work))
    waiting = asyncio.ensure_future(sent.wait())
    await asyncio.wait((collecting, waiting), timeout=_FLUSH_S, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if collecting.done():
        collecting.result()
    collecting.cancel()
    await asyncio.gather(collecting, return_exceptions=True)
    if not sent.is_set():
        raise Retry(f"Kafka acknowledged nothing for {_FLUSH_S:g} s; nothing of the results is certain to be published")
    for benchmark in benchmarks:
        report(f"published {summary(benchmark)}")


async def once(params: Params, core: Core) -> AsyncIterator[str]:
    """Yield one line of JSON for each row of each host, of the files that are there, or of standard input."""
    context = CollectorContext(NullPublisher(), core.collector or "once")
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
            for line in json_lines(samples):
                yield line


SPEC = Spec("nccl_tests", Params, run, once, example="--once --print < results.txt")

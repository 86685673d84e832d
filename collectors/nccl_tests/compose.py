"""Composes the samples of a benchmark: for each host that took part, its GPUs with their ranks, and all results. Pure.

All hosts have the results of the whole benchmark at the same time, by which they are one benchmark in tables. A digest
of the content is in the nanoseconds of that time and is the identity of the messages, so that two benchmarks of one
second differ, and one that is published twice is stored once.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from collectors.core.columns import CellKey, Layout, Reading
from collectors.nccl_tests.output import Benchmark, Measurement, Result
from streams.fabric.catalogue import Metric
from streams.wire.models import RowKind

_DIGEST_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class HostReading:
    """One message of one host; `run` identifies the benchmark."""

    host: str
    row_kind: RowKind
    reading: Reading
    run: int


def readings(benchmark: Benchmark, at_ns: int) -> Iterator[HostReading]:
    """Yield the messages of a benchmark that ended at `at_ns`; of repeated cycles (`-N`), one benchmark each."""
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
    """Yield the results in parts in which each size is once."""
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
                    **_values(measured),
                }
                yield from ((CellKey(row, metric, index), value) for metric, value in values.items())


def _values(measured: Measurement) -> Mapping[Metric, float | None]:
    return {
        Metric.COLLECTIVE_TIME_US: measured.time_us,
        Metric.COLLECTIVE_ALGORITHM_BYTES_PER_S: measured.algorithm_bytes_per_s,
        Metric.COLLECTIVE_BUS_BYTES_PER_S: measured.bus_bytes_per_s,
        Metric.COLLECTIVE_WRONG_ELEMENTS: measured.wrong,
    }


def _reading(sampled_ns: int, received_ns: int, cells: Mapping[CellKey, float | None]) -> Reading:
    layout = Layout(list(cells))
    tables = layout.tables(list(cells.values()))
    return Reading(sampled_ns, max(sampled_ns, received_ns), 0, layout.row, layout.rows_digest, *tables)

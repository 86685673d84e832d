"""Renders collective benchmarks of a job's hosts as text."""

from collections.abc import Iterator, Sequence

from streams.instrument.time_format import format_time
from streams.report.job.collectives import CollectiveReport

_MAX_SIZES = 3
"""Sizes of one benchmark that are far below their peers; `--json` has all."""


def collective_lines(reports: Sequence[CollectiveReport], limit: int) -> Iterator[str]:
    """Yield the benchmarks, those that are witnesses first, at most `limit` of them."""
    if reports:
        yield "nccl-tests"
    for one in sorted(reports, key=lambda one: (not one.is_witness, one.at_ns))[:limit]:
        rails = f", rails {', '.join(map(str, one.rails))}" if one.rails else ""
        yield f"  {format_time(one.at_ns)}  {len(one.hosts)} hosts, {one.ranks} ranks{rails}; {_best(one)}"
        if one.wrong:
            yield f"    WRONG RESULTS: {one.wrong} elements"
        for slow in one.slow[:_MAX_SIZES]:
            share = slow.bus_bytes_per_s / slow.peer_bytes_per_s
            yield (
                f"    far below its peers: {slow.row} {_gbps(slow.bus_bytes_per_s)}, {share:.0%} of "
                f"{_gbps(slow.peer_bytes_per_s)} (median of {slow.peers})"
            )
        if (more := len(one.slow) - _MAX_SIZES) > 0:
            yield f"    and {more} more sizes (--json has all)"
    if (more := len(reports) - limit) > 0:
        yield f"  and {more} more (--json has all)"


def _best(one: CollectiveReport) -> str:
    best = one.best
    return "no bandwidth" if best is None else f"highest {best.row} {_gbps(best.bus_bytes_per_s or 0.0)}"


def _gbps(value: float) -> str:
    """Return a bandwidth in GB/s, the unit of nccl-tests."""
    return f"{value / 1e9:.2f} GB/s"

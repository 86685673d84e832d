"""Times the parts of a benchmark: the CPU time has the limit, because other processes lengthen the duration."""

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter, thread_time
from typing import NamedTuple, TypeVar

from lab.bench.statistics import Spread, spread_of

T = TypeVar("T")


class Timing(NamedTuple):
    """The CPU time and the duration of one kind of call, in milliseconds, and the limit of the 99th percentile."""

    kind: str
    cpu: Spread
    duration: Spread
    limit_ms: float | None = None

    @property
    def is_passed(self) -> bool:
        """Return True if the 99th percentile of CPU time is within the limit."""
        return self.limit_ms is None or (self.cpu.p99 or 0.0) <= self.limit_ms


def timed(kind: str, calls: Iterable[Callable[[], T]], limit_ms: float | None = None) -> tuple[Timing, list[T]]:
    """Time each call; return the timing and the results."""
    cpu_ms, duration_ms, results = [], [], []
    for call in calls:
        began, cpu_began = perf_counter(), thread_time()
        results.append(call())
        cpu_ms.append((thread_time() - cpu_began) * 1e3)
        duration_ms.append((perf_counter() - began) * 1e3)
    return Timing(kind, spread_of(cpu_ms), spread_of(duration_ms), limit_ms), results


def timing_lines(timings: Iterable[Timing], load_s: float) -> Iterator[str]:
    """Yield the table, and whether all kinds are within their limits.

    The last column is the 99th percentile of CPU time divided by the seconds of the reference load.
    """
    yield f"{'':43}{'CPU time, ms':>30}{'duration, ms':>30}".rstrip()
    columns = "".join(f"{name:>10}" for name in ("p50", "p99", "worst", "p50", "p99", "worst"))
    yield f"{'kind':36}{'count':>7}{columns}{'limit':>9}{'p99/load':>10}"
    is_passed = True
    for timing in timings:
        is_passed &= timing.is_passed
        limit = "" if timing.limit_ms is None else f"{timing.limit_ms:,.0f}"
        times = (value or 0.0 for own in (timing.cpu, timing.duration) for value in (own.p50, own.p99, own.worst))
        figures = "".join(f"{value:10,.3f}" for value in times)
        yield f"{timing.kind:36}{timing.cpu.count:7,}{figures}{limit:>9}{(timing.cpu.p99 or 0.0) / load_s:10,.3f}"
    yield "yes all within their limits" if is_passed else "NO a kind exceeds its limit"

"""Runs the pipeline benchmark in a folder of its own and stops its processes whichever way it ends."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.bench.params import Params
from lab.bench.report import Report
from lab.bench.run import PipelineBenchmark
from streams.runtime.foreground import run_and_stop
from streams.runtime.supervise import Supervisor
from streams.wire.errors import Misconfigured

_PROGRESS_EVERY_S = 0.25


@contextmanager
def run_folder(given: Path | None) -> Iterator[Path]:
    """Yield the given folder, which stays, or a temporary one; raise Misconfigured when the given one is not empty."""
    if given is None:
        with tempfile.TemporaryDirectory(prefix="railsight-bench-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    if given.exists() and any(given.iterdir()):
        raise Misconfigured(f"{given} is not empty; choose another folder, or remove it")
    given.mkdir(parents=True, exist_ok=True)
    yield given.resolve()


def run_benchmark(params: Params, report_progress: Callable[[str], None]) -> Report | None:
    """Run the benchmark once and return its report, None when a signal ended it."""
    supervisor = Supervisor(params.folder)
    benchmark = PipelineBenchmark(params, supervisor)
    background = _report_phases(benchmark, report_progress)
    return run_and_stop(benchmark.run(), background, supervisor.stop, restore_signals=True)


async def _report_phases(benchmark: PipelineBenchmark, report_progress: Callable[[str], None]) -> None:
    """Report the phase whenever it changes."""
    reported = ""
    while True:
        if benchmark.phase != reported:
            reported = benchmark.phase
            report_progress(reported)
        await asyncio.sleep(_PROGRESS_EVERY_S)

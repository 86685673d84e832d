"""Runs one sequence in the foreground, in a folder that is given or temporary."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from streams.chaos.params import ChaosParams
from streams.chaos.report import Report
from streams.chaos.run import ChaosRun
from streams.runtime.foreground import run_until_signalled
from streams.wire.errors import Misconfigured


@contextmanager
def run_folder(given: Path | None) -> Iterator[Path]:
    """Yield the given folder, which stays, or a temporary one; raise Misconfigured when the given one is not empty."""
    if given is None:
        with tempfile.TemporaryDirectory(prefix="railsight-chaos-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    if given.exists() and any(given.iterdir()):
        raise Misconfigured(f"{given} is not empty; choose another folder, or remove it")
    given.mkdir(parents=True, exist_ok=True)
    yield given.resolve()


def sequences(
    folder: Path, seed: int, faults: Sequence[str], seconds: float, runs: int, *, each: bool
) -> Iterator[ChaosParams]:
    """Yield the runs, each with a folder of its own: `runs` consecutive seeds, for each fault alone if `each`."""
    groups = [(name,) for name in faults] if each else [tuple(faults)]
    for group in groups:
        for number in range(seed, seed + runs):
            own = folder / (f"{group[0]}-{number}" if each else f"seed-{number}")
            own.mkdir()
            yield ChaosParams(own, number, group, seconds)


def run_chaos(params: ChaosParams, report_line: Callable[[str], None]) -> Report | None:
    """Run one sequence and return its report, None when a signal ended it."""
    return asyncio.run(run_until_signalled(ChaosRun(params, report_line).run()))

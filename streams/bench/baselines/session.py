"""Runs the comparison with the baselines: chooses them, installs what they need, and measures each twice."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from streams.bench.baselines import environment
from streams.bench.baselines.comparison import run_comparison
from streams.bench.baselines.load import Load
from streams.bench.baselines.registry import BASELINES
from streams.bench.baselines.table import Line, table_lines
from streams.wire.errors import Misconfigured

SMALL = 500
"""Messages of the first run, whose cost is subtracted from that of the second."""


def compare_baselines(
    messages: int, only: Sequence[str], *, install: bool, report_progress: Callable[[str], None]
) -> list[Line]:
    """Measure the baselines whose program name contains one of `only`, or all, and return the table."""
    chosen = [one for one in BASELINES if not only or any(part in one.program for part in only)]
    if not chosen:
        names = ", ".join(one.program for one in BASELINES)
        raise Misconfigured(f"no baseline has a name with {', '.join(only)} (there are {names})")
    python: Path | environment.NotInstalled = environment.NotInstalled("not needed")
    if any(one.is_isolated for one in chosen):
        python = _interpreter(install, report_progress)
    _, small = run_comparison(Load(SMALL, time.time_ns()), chosen, python, report_progress)
    filled, large = run_comparison(Load(messages, time.time_ns()), chosen, python, report_progress)
    return table_lines(chosen, small, large, filled.port_samples)


def _interpreter(install: bool, report_progress: Callable[[str], None]) -> Path | environment.NotInstalled:
    if (python := environment.installed_python()) is not None:
        return python
    if not install:
        return environment.NotInstalled("run without --no-install, with a package index in reach")
    report_progress("installing Quix Streams and Bytewax into the cache folder")
    try:
        return environment.install()
    except environment.NotInstalled as error:
        return error

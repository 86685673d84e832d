"""Compares the CPU cost of clients of one protocol: the rows that a collector's benchmark returns, and their table.

A benchmark measures railsight's client and the other clients in one run against the same device.
"""

import resource
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from streams.wire.errors import Retry


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one client; a client that was not measured has only `skipped`."""

    load: str
    client: str
    count: int = 0
    """The number of values that the client read."""
    cpu_s: float = 0.0
    """User and system time of the client, with all of its processes."""
    skipped: str = ""
    """The reason why the client was not measured; empty if it was."""


def per(cost: Cost, many: int) -> float:
    """Return the CPU seconds per `many` values; 0 if no value was read."""
    return cost.cpu_s / cost.count * many if cost.count else 0.0


def ratios(costs: Sequence[Cost]) -> list[float]:
    """Return each cost relative to railsight's, the first client of the same load; 0 if either was not measured."""
    reference: dict[str, float] = {}
    found = []
    for cost in costs:
        cost_s = per(cost, 1)
        first = reference.setdefault(cost.load, cost_s)
        found.append(cost_s / first if first else 0.0)
    return found


def lines(costs: Sequence[Cost], many: int, what: str, load_s: float = 1.0) -> list[str]:
    """Return a text table. `what` is the plural of the counted values, `many` the number that a figure is for.

    The last column is the figure divided by the seconds of the reference load.
    """
    first = max([4, *(len(cost.load) for cost in costs)])
    second = max([6, *(len(cost.client) for cost in costs)])
    unit = f"CPU s / {many:,} {what}"
    found = [f"{'load':{first}}  {'client':{second}}  {what:>12}  {unit:>{len(unit)}}  ratio   /load"]
    for cost, ratio in zip(costs, ratios(costs), strict=True):
        head = f"{cost.load:{first}}  {cost.client:{second}}"
        if cost.skipped:
            found.append(f"{head}  skipped: {cost.skipped}")
        else:
            figure = per(cost, many)
            found.append(f"{head}  {cost.count:12,}  {figure:{len(unit)}.2f}  {ratio:5.2f}  {figure / load_s:6.2f}")
    return found


def as_dict(costs: Sequence[Cost], many: int, what: str) -> dict[str, Any]:
    """Return the costs as JSON values; a client that was not measured has nulls."""
    rows = [
        {
            "load": cost.load,
            "client": cost.client,
            "count": None if cost.skipped else cost.count,
            "cpu_s": None if cost.skipped else per(cost, many),
            "ratio": None if cost.skipped else ratio,
            "skipped": cost.skipped or None,
        }
        for cost, ratio in zip(costs, ratios(costs), strict=True)
    ]
    return {"per": many, "what": what, "clients": rows}


@contextmanager
def running(command: list[str]) -> Iterator[str]:
    """Run a server that first prints its address, and yield that line. Raises Retry with the server's last line."""
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            if not line:
                process.wait(30)
                errors.seek(0)
                why = errors.read().strip().splitlines()[-1:] or [f"{command[2]} did not start"]
                raise Retry(why[0].removeprefix("railsight: "))
            yield line
        finally:
            process.terminate()
            process.wait(30)


def cpu_s() -> float:
    """Return user and system time of this process so far, in seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

"""What clients of one protocol cost beside each other: the rows that a collector's benchmark gives, and how they read.

A benchmark is a Typer command under the entry-point group `railsight.benches`: its name is the entry's, its options
and its docstring are its own, it imports what it measures only when it is called, measures ours and the peers in one
run against the same device, and prints `lines` of what it found, or with `--json` what `as_dict` gives.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cost:
    """What one client took. Of one that was not measured nothing is known but why."""

    load: str
    client: str
    count: int = 0
    """How much it read."""
    cpu_s: float = 0.0
    """User and system time of the client, all of it together."""
    skipped: str = ""
    """Why it was not measured; empty where it was."""


def per(cost: Cost, many: int) -> float:
    """CPU seconds for so many; 0 where nothing was read."""
    return cost.cpu_s / cost.count * many if cost.count else 0.0


def ratios(costs: Sequence[Cost]) -> list[float]:
    """How many times as much as the first client of the same load, which is ours; 0 where either was not measured."""
    ours: dict[str, float] = {}
    found = []
    for cost in costs:
        mine = per(cost, 1)
        first = ours.setdefault(cost.load, mine)
        found.append(mine / first if first else 0.0)
    return found


def lines(costs: Sequence[Cost], many: int, what: str) -> list[str]:
    """A table for people. `what` is the plural of what is counted, `many` how many of them a figure is for."""
    first = max([4, *(len(cost.load) for cost in costs)])
    second = max([6, *(len(cost.client) for cost in costs)])
    unit = f"CPU s / {many:,} {what}"
    found = [f"{'load':{first}}  {'client':{second}}  {what:>12}  {unit:>{len(unit)}}  ratio"]
    for cost, ratio in zip(costs, ratios(costs), strict=True):
        head = f"{cost.load:{first}}  {cost.client:{second}}"
        if cost.skipped:
            found.append(f"{head}  skipped: {cost.skipped}")
        else:
            found.append(f"{head}  {cost.count:12,}  {per(cost, many):{len(unit)}.2f}  {ratio:5.2f}")
    return found


def as_dict(costs: Sequence[Cost], many: int, what: str) -> dict[str, Any]:
    """The same for programs; what was not measured is null."""
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

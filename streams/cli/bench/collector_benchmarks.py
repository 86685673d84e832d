"""Benchmarks of installed collectors: the commands registered under the entry-point group `railsight.benches`.

Each is a function that Typer turns into a command with the entry's name (see collectors/core/costs.py).
"""

from collections.abc import Callable
from importlib.metadata import entry_points

GROUP = "railsight.benches"


def benches() -> dict[str, Callable[..., None]]:
    """Return the commands by name. Their modules import what they measure only when they are called."""
    return {entry.name: entry.load() for entry in sorted(entry_points(group=GROUP))}

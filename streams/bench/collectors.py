"""The benchmarks that collectors bring: whatever registers a command under the entry-point group `railsight.benches`.

Each is a function that Typer makes a command of, by the entry's name (collectors/core/costs.py says what it does).
"""

from collections.abc import Callable
from importlib.metadata import entry_points

GROUP = "railsight.benches"


def benches() -> dict[str, Callable[..., None]]:
    """The commands by name. Their modules import what they measure only when they are called."""
    return {entry.name: entry.load() for entry in sorted(entry_points(group=GROUP))}

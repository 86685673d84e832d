"""Subcommands of `railsight bench`: each parses its options, calls `lab.bench`, and prints the result."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import typer

from streams.cli.printing import echo, print_text, progress

if TYPE_CHECKING:
    from lab.bench.reference_load import MachineSpeed


@dataclass(frozen=True, slots=True)
class Run:
    """A benchmark that runs: the speed of the machine meanwhile, and the display of its steps."""

    speed: "MachineSpeed"
    step: Callable[[str], None]


def require(*modules: str) -> None:
    """Raise ModuleNotFoundError if one of these, which a benchmark's processes import later, is not installed."""
    for name in modules:
        if find_spec(name) is None:
            raise ModuleNotFoundError(name=name)


@contextmanager
def measured(text: str, expected_s: float) -> Iterator[Run]:
    """Yield a run: measure the machine's speed around it, and print its expected duration and its steps."""
    from lab.bench.reference_load import machine_speed

    print_text(f"{text}: takes about {_duration(expected_s)} on an idle machine", err=True)
    with progress(text, print_steps=True) as bar, machine_speed() as speed:
        yield Run(speed, bar.step)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def print_result(
    values: Any, lines: Iterable[str], *, as_json: bool, is_passed: bool = True, speed: "MachineSpeed | None" = None
) -> None:
    """Print `values` as JSON, or the lines, both with the machine's speed; exit 1 if the benchmark did not pass."""
    import orjson

    if as_json:
        found = orjson.loads(orjson.dumps(values))
        echo(orjson.dumps(found if speed is None else found | {"machine_speed": speed.as_dict()}).decode())
    else:
        for line in (*lines, *(() if speed is None else speed.lines())):
            echo(line)
    if not is_passed:
        raise typer.Exit(1)

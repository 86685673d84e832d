"""Shows the progress of long work on a terminal, on standard error; without a terminal nothing is printed."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_Item = TypeVar("_Item")


class Bar:
    """One line with a text, the elapsed time, and the share that is done where the total is known."""

    def __init__(self, shown: "Progress", task: "TaskID", text: str) -> None:
        self._shown = shown
        self._task = task
        self._text = text

    def step(self, text: str) -> None:
        """Show the present step behind the name of the work."""
        self._shown.update(self._task, description=f"{self._text}: {text}")

    def completed(self, amount: float) -> None:
        """Show how much of the total is done."""
        self._shown.update(self._task, completed=amount)

    def echo(self, line: str | bytes) -> None:
        """Print one line of the result, without the bar."""
        self._shown.stop()
        typer.echo(line)
        self._shown.start()

    def counted(self, items: Iterable[_Item], noun: str) -> Iterator[_Item]:
        """Yield the items, and show their number about every thousand."""
        for number, item in enumerate(items, 1):
            if number % 1000 == 0:
                self.step(f"{number} {noun}")
            yield item


@contextmanager
def progress(text: str, total: float | None = None) -> Iterator[Bar]:
    """Yield the bar of a piece of work; it is removed at the end, before its result is printed."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = () if total is None else (BarColumn(),)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *bar, TimeElapsedColumn())
    # Results go to standard output while the bar is drawn: rich must not redirect it.
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
        redirect_stdout=False, redirect_stderr=False,
    ) as shown:  # fmt: skip
        yield Bar(shown, shown.add_task(text, total=total), text)

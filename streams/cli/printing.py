"""Prints texts, tables and the progress of long work; a terminal must not execute what devices report.

In a pipe nothing is cut, broken or colored, so that `grep` and `awk` see whole values; `-o wide` cuts nothing either,
and has more columns. NO_COLOR (https://no-color.org) turns colors off.
"""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import typer

from streams.wire.bounds import clean
from streams.wire.models import Severity

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


_Item = TypeVar("_Item")
_COMMAND = re.compile(r"`[^`]+`")
_LABEL = re.compile(r" *\S+ {2,}")
_NO_BREAK = "\N{NO-BREAK SPACE}"


def echo(text: str | bytes) -> None:
    """Print one line without control characters, as it is: JSON, a line of a log."""
    typer.echo(clean(text.decode(errors="replace") if isinstance(text, bytes) else text))


def print_text(text: str, *, err: bool = False) -> None:
    """Print lines for people without control characters; a terminal that is too narrow gets them broken between words.

    In a pipe each stays one line, so that `grep` finds it whole.
    """
    stream = sys.stderr if err else sys.stdout
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    for line in text.split("\n"):
        for part in broken_lines(clean(line), width):
            typer.echo(part, err=err)


def print_lines(lines: Iterable[str]) -> None:
    """Print each of these lines for people."""
    for line in lines:
        print_text(line)


def fail(command: str, reason: object, code: int = 1) -> NoReturn:
    """Print why a command fails, and end with its exit code."""
    print_text(f"railsight {command}: {reason}", err=True)
    raise typer.Exit(code)


def broken_lines(line: str, width: int | None) -> list[str]:
    """Return a line as lines of at most `width` characters, all but the first two characters further right.

    Below a label, which two blanks separate from its text, they begin with the text.
    A path, an address or a command in backquotes is not broken, whatever its length: a terminal copies it as one.
    """
    if width is None or len(line) <= width:
        return [line]
    label = _LABEL.match(line)
    first = label.end() if label else len(line) - len(line.lstrip()) + 2
    indent = " " * min(first, width // 2)
    protected = _COMMAND.sub(lambda command: command[0].replace(" ", _NO_BREAK), line)
    parts = textwrap.wrap(
        protected, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
        replace_whitespace=False,
    )  # fmt: skip
    return [part.replace(_NO_BREAK, " ") for part in parts]


class Output(StrEnum):
    """The forms of output."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


OutputForm = Annotated[
    Output, typer.Option("--output", "-o", help="table; wide: more columns, nothing cut; json: one object per line.")
]
SEVERITY_COLORS = {
    Severity.INFO: typer.colors.CYAN,
    Severity.WARNING: typer.colors.YELLOW,
    Severity.CRITICAL: typer.colors.RED,
}
_GAP = "  "
_LEAST = 16
"""Characters of the cut column on a terminal that is too narrow for all."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and its color."""

    text: str
    color: str | None = None


def form_of(output: Output, as_json: bool) -> Output:
    """Return the form of output: `--json` is `-o json`."""
    return Output.JSON if as_json else output


def print_table(header: Sequence[str], rows: Iterable[Sequence[Cell | str]], output: Output = Output.TABLE) -> None:
    """Print rows with their header; the last column is cut where a terminal is too narrow."""
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal and output is Output.TABLE else None
    cells = [[_cell(value) for value in row] for row in rows]
    for line in table_lines(header, cells, width, colored=is_terminal and not os.environ.get("NO_COLOR")):
        typer.echo(line)


def print_rows(
    form: Output,
    found: Sequence[_Item],
    as_json: Callable[[_Item], str | bytes],
    header: Sequence[str],
    cells: Callable[[_Item], Sequence[Cell | str]],
    empty: str = "",
) -> None:
    """Print a line of JSON or a row of a table for each; for people `empty`, if it is given and there is none."""
    if form is Output.JSON:
        for one in found:
            echo(as_json(one))
    elif found or not empty:
        print_table(header, map(cells, found), form)
    else:
        typer.echo(empty)


def table_lines(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], width: int | None, *, colored: bool
) -> Iterable[str]:
    """Yield the lines of a table, no line longer than `width`."""
    widths = [max(len(name), *(len(row[i].text) for row in rows), 0) for i, name in enumerate(header)]
    if width is not None:
        others = sum(widths[:-1]) + len(_GAP) * (len(header) - 1)
        widths[-1] = max(_LEAST, min(widths[-1], width - others))
    for row in ([Cell(name, typer.colors.BRIGHT_BLACK) for name in header], *rows):
        pieces = []
        for i, cell in enumerate(row):
            text = cell.text if len(cell.text) <= widths[i] else f"{cell.text[: widths[i] - 1]}…"
            padding = "" if i == len(row) - 1 else " " * (widths[i] - len(text))
            pieces.append((typer.style(text, fg=cell.color) if colored and cell.color else text) + padding)
        yield _GAP.join(pieces).rstrip()


def _cell(value: Cell | str) -> Cell:
    """Return a cell without control characters, which a terminal would execute."""
    return Cell(clean(value.text), value.color) if isinstance(value, Cell) else Cell(clean(value))


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

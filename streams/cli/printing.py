"""Prints texts, tables and progress bars without control characters, because a terminal would execute a device's text.

In a pipe nothing is cut, wrapped or colored, so that `grep` and `awk` get whole values; `-o wide` does not cut either,
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

from streams.instrument.text import clean
from streams.wire.models import Severity

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


_Item = TypeVar("_Item")
_COMMAND = re.compile(r"`[^`]+`")
_LABEL = re.compile(r" *\S+ {2,}")
_NO_BREAK = "\N{NO-BREAK SPACE}"


def echo(text: str | bytes) -> None:
    """Print one line, such as JSON or a log line, without control characters and otherwise unchanged."""
    typer.echo(clean(text.decode(errors="replace") if isinstance(text, bytes) else text))


def print_text(text: str, *, err: bool = False) -> None:
    """Print lines for people without control characters; wrap them between words on a narrow terminal.

    In a pipe lines are not wrapped, so that `grep` finds whole lines.
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
    """Print the reason of a command's failure, and exit with its code."""
    print_text(f"railsight {command}: {reason}", err=True)
    raise typer.Exit(code)


def broken_lines(line: str, width: int | None) -> list[str]:
    """Wrap a line at `width` characters; further lines are indented by two more characters.

    After a label, which two blanks separate from its text, further lines align with the text.
    A path, an address or a command in backquotes is never broken, so that a terminal copies it whole.
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
"""The fewest characters of the cut column on a narrow terminal."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and its color."""

    text: str
    color: str | None = None


def form_of(output: Output, as_json: bool) -> Output:
    """Return the form of output; `--json` is equal to `-o json`."""
    return Output.JSON if as_json else output


def print_table(header: Sequence[str], rows: Iterable[Sequence[Cell | str]], output: Output = Output.TABLE) -> None:
    """Print rows with their header; on a narrow terminal the last column is cut."""
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
    """Print a line of JSON or a row of a table for each item; without items, print `empty` for people, if set."""
    if form is Output.JSON:
        for one in found:
            echo(as_json(one))
    elif found or not empty:
        print_table(header, map(cells, found), form)
    else:
        print_text(empty)


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
    """Return a cell without control characters, because a terminal would execute them."""
    return Cell(clean(value.text), value.color) if isinstance(value, Cell) else Cell(clean(value))


class Bar:
    """One line with a text, the elapsed time, and the completed share if the total is known."""

    def __init__(self, shown: "Progress", task: "TaskID", text: str, *, printed: bool = False) -> None:
        self._shown = shown
        self._task = task
        self._text = text
        self._printed = printed

    def step(self, text: str) -> None:
        """Show the present step after the name of the work."""
        self._shown.update(self._task, description=f"{self._text}: {text}")
        if self._printed:
            print_text(f"{self._text}: {text}", err=True)

    def completed(self, amount: float) -> None:
        """Show the completed amount of the total."""
        self._shown.update(self._task, completed=amount)

    def echo(self, line: str | bytes) -> None:
        """Print one line of the result, without the bar."""
        self._shown.stop()
        echo(line)
        self._shown.start()

    def counted(self, items: Iterable[_Item], noun: str) -> Iterator[_Item]:
        """Yield the items, and show their number about every thousand."""
        for number, item in enumerate(items, 1):
            if number % 1000 == 0:
                self.step(f"{number} {noun}")
            yield item


@contextmanager
def progress(text: str, total: float | None = None, *, print_steps: bool = False) -> Iterator[Bar]:
    """Yield a progress bar, which is removed at the end, before the result is printed.

    Without a terminal nothing is shown, or with `print_steps` each step as a line of standard error.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = () if total is None else (BarColumn(),)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *bar, TimeElapsedColumn())
    # rich must not redirect standard output, because results are printed there while the bar is drawn.
    is_terminal = sys.stderr.isatty()
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not is_terminal, redirect_stdout=False,
        redirect_stderr=False,
    ) as shown:  # fmt: skip
        yield Bar(shown, shown.add_task(text, total=total), text, printed=print_steps and not is_terminal)

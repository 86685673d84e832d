"""Prints tables for people: aligned columns with a header, cut to the terminal's width, colored on a terminal.

In a pipe nothing is cut or colored, so that `grep` and `awk` see whole values; `-o wide` cuts nothing either, and has
more columns. NO_COLOR (https://no-color.org) turns colors off.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from streams.wire.bounds import clean
from streams.wire.models import Severity


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

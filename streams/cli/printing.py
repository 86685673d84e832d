"""Prints texts that contain what devices report: a terminal must not execute it."""

import re
import shutil
import sys
import textwrap

import typer

from streams.wire.bounds import clean

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

"""Texts of devices are printed without what a terminal executes; lines for people break between words."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streams.cli.printing import broken_lines, echo

BLIND = (
    "blind: no collector reads 8 of the inventory's devices of kind host (pod1-host1, pod1-host2, pod1-host3,"
    " pod1-host4, pod2-host1 and 3 more): run `railsight collect nic` and `railsight collect host` on it"
)


@pytest.mark.parametrize("text", ["e1\x1b]0;owned\x07", "e1\x9b2J", "a\u202eb", b"e1\x1b[31m"])
def test_control_characters_are_not_printed(text: str | bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """Escapes of 7 and 8 bits, and characters that change the direction of the text, are replaced."""
    echo(text)
    printed = capsys.readouterr().out
    assert printed.endswith("\n")
    assert printed[:-1].isprintable()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_line_breaks_between_words(width: int) -> None:
    """No line is longer than the terminal is wide, and joined the lines are the text."""
    lines = broken_lines(BLIND, width)
    assert max(map(len, lines)) <= width
    assert " ".join(line.strip() for line in lines) == BLIND
    assert all(line.startswith("  ") for line in lines[1:])


def test_an_indent_stays() -> None:
    """Lines that continue an indented one are two characters further right than it."""
    assert broken_lines("    a bb ccc", 9) == ["    a bb", "    ccc"]
    assert broken_lines("  a bb ccc", 8) == ["  a bb", "    ccc"]


def test_the_text_of_a_label_stays_in_its_column() -> None:
    """As in `railsight explain`; a label of more than half the width takes no more than that."""
    assert broken_lines("  evidence   one two three", 18) == ["  evidence   one", " " * 9 + "two three"]
    assert broken_lines("  why   one two three", 18) == ["  why   one two", "        three"]


@pytest.mark.parametrize("whole", ["/a/path/that/is/longer/than/the/line", "`kcat -F file -C -t topic`"])
def test_what_is_copied_is_not_broken(whole: str) -> None:
    """A path and a command in backquotes are one word."""
    assert broken_lines(f"see {whole} for more", 20) == ["see", f"  {whole}", "  for more"]


def test_a_pipe_gets_one_line() -> None:
    """It has no width."""
    assert broken_lines(BLIND, None) == [BLIND]


def test_a_terminal_of_80_columns_breaks_no_word() -> None:
    """Standard output and standard error of a process on a terminal."""
    code = f"from streams.cli.printing import print_text\nfor err in (False, True): print_text({BLIND!r}, err=err)"
    printed = _on_a_terminal([sys.executable, "-c", code], columns=80)
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 80
    assert re.sub(r"\s+", " ", printed).strip() == f"{BLIND} {BLIND}"


def test_commands_print_by_functions_that_clean() -> None:
    """Nothing in the commands writes a text to a terminal but the functions here: `score` printed names of a file."""
    root = Path(__file__).parents[3]
    paths = [path for folder in ("streams/cli", "lab/cli") for path in (root / folder).rglob("*.py")]
    assert [path.name for path in paths if re.search(r"(typer|click)\.s?echo\(", path.read_text())] == ["printing.py"]


def _on_a_terminal(command: list[str], columns: int) -> str:
    terminal, side = pty.openpty()
    environ = os.environ | {"COLUMNS": str(columns)}
    with os.fdopen(terminal, "rb", buffering=0) as reader:
        with os.fdopen(side, "wb", buffering=0) as writer:
            subprocess.run(command, stdout=writer, stderr=writer, env=environ, timeout=60, check=True)
        return reader.read(65536).decode()

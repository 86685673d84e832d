"""Progress of long work: on a terminal it is drawn and removed, elsewhere its steps are printed only if asked."""

import io
import sys

import pytest

from streams.cli.printing import progress


class Terminal(io.StringIO):
    """Standard error of a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def work() -> list[int]:
    with progress("count", 3) as bar:
        bar.step("the first step")
        bar.completed(1)
        bar.echo("a row")
        return list(bar.counted(range(1500), "rows"))


def test_nothing_is_printed_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the result is."""
    assert len(work()) == 1500
    assert capsys.readouterr() == ("a row\n", "")


def test_steps_are_lines_of_standard_error_without_a_terminal_where_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """A benchmark takes minutes, and its log shows where it is."""
    with progress("bench", print_steps=True) as bar:
        bar.step("warming up")
        bar.step("measuring")
    assert capsys.readouterr() == ("", "bench: warming up\nbench: measuring\n")


def test_a_terminal_shows_the_step_and_is_left_clean(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The step is on standard error; results stay on standard output; the cursor is shown again at the end."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    work()
    drawn = terminal.getvalue()
    assert "the first step" in drawn and "1000 rows" in drawn and "a row" not in drawn
    assert drawn.rfind("\x1b[?25h") > drawn.rfind("\x1b[?25l")
    assert capsys.readouterr().out == "a row\n"

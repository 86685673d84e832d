"""Texts of devices are printed without what a terminal executes."""

import pytest

from streams.cli.printing import echo


@pytest.mark.parametrize("text", ["e1\x1b]0;owned\x07", "e1\x9b2J", "a\u202eb", b"e1\x1b[31m"])
def test_control_characters_are_not_printed(text: str | bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """Escapes of 7 and 8 bits, and characters that change the direction of the text, are replaced."""
    echo(text)
    printed = capsys.readouterr().out
    assert printed.endswith("\n")
    assert printed[:-1].isprintable()

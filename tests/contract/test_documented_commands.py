"""Every `railsight` command in the pages exists with the options that it is written with."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from streams.cli.main import application

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLACEHOLDERS = {"…": "2026-03-01T00:00:00Z"}
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""Click's error for a wrong command line, in the copy of Click that typer has."""


def commands_of(text: str) -> Iterator[str]:
    """Yield the commands of the shell blocks, lines that end with a backslash joined."""
    for language, block in BLOCK.findall(text):
        if language == "sh":
            lines = block.replace("\\\n", " ").splitlines()
            yield from (line for line in lines if line.startswith("railsight "))


def arguments_of(line: str) -> list[str]:
    """Return the arguments of a line, without its comment and redirection."""
    words = shlex.split(line, comments=True)[1:]
    end = next((at for at, word in enumerate(words) if word in ("|", "<", ">", "&&")), len(words))
    return [PLACEHOLDERS.get(word, word) for word in words[:end]]


def parse(arguments: list[str]) -> None:
    """Parse arguments as the command line does, without running the command; raise USAGE_ERROR."""
    command: Any = typer.main.get_command(application(arguments))
    context = command.make_context("railsight", list(arguments))
    while hasattr(command, "resolve_command"):
        given = [*context._protected_args, *context.args]
        if not given and command.invoke_without_command:
            return
        name, command, rest = command.resolve_command(context, given)
        context = command.make_context(name, rest, parent=context)


DOCUMENTED = sorted({(str(page.relative_to(ROOT)), line) for page in PAGES for line in commands_of(page.read_text())})


@pytest.mark.parametrize(("page", "line"), DOCUMENTED)
def test_a_documented_command_parses(page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its subcommand and every option are known, every value is valid, and no argument is missing."""
    arguments = arguments_of(line)
    monkeypatch.chdir(tmp_path)
    for name in arguments:
        if "/" not in name and Path(name).suffix:
            (tmp_path / name).touch()
    try:
        parse(arguments)
    except USAGE_ERROR as error:
        pytest.fail(f"{page}: {line}: {error}")


def test_the_pages_have_commands() -> None:
    """The search finds the commands of all pages that have any."""
    assert len(DOCUMENTED) > 50
    assert {"README.md", "docs/explain.md", "docs/embedded-clickhouse.md"} <= {page for page, _ in DOCUMENTED}


@pytest.mark.parametrize("line", ["railsight findigs", "railsight findings --folow", "railsight explain"])
def test_a_wrong_command_is_refused(line: str) -> None:
    """A misspelt subcommand, a misspelt option, a missing argument."""
    with pytest.raises(USAGE_ERROR):
        parse(arguments_of(line))

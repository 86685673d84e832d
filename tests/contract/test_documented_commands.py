"""Every `railsight` command in the pages exists with the options that it is written with."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.command_lines import USAGE_ERROR, arguments_of, check_parses, parse

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands_of(text: str) -> Iterator[str]:
    """Yield the commands of the shell blocks, lines that end with a backslash joined."""
    for language, block in BLOCK.findall(text):
        if language == "sh":
            lines = block.replace("\\\n", " ").splitlines()
            yield from (line for line in lines if line.startswith("railsight "))


DOCUMENTED = sorted({(str(page.relative_to(ROOT)), line) for page in PAGES for line in commands_of(page.read_text())})


@pytest.mark.parametrize(("page", "line"), DOCUMENTED)
def test_a_documented_command_parses(page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its subcommand and every option are known, every value is valid, and no argument is missing."""
    monkeypatch.chdir(tmp_path)
    check_parses(line, page, tmp_path)


def test_the_pages_have_commands() -> None:
    """The search finds the commands of all pages that have any."""
    assert len(DOCUMENTED) > 50
    assert {"README.md", "docs/operating.md", "docs/scaling.md"} <= {page for page, _ in DOCUMENTED}


@pytest.mark.parametrize("line", ["railsight findigs", "railsight findings --folow", "railsight explain"])
def test_a_wrong_command_is_refused(line: str) -> None:
    """A misspelt subcommand, a misspelt option, a missing argument."""
    with pytest.raises(USAGE_ERROR):
        parse(arguments_of(line))

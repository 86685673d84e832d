"""Every path, module, test and subcommand that a page names exists, in the commit that the page names, if any."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from streams.cli.main import application

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "deploy/automation/README.md")
FOLDERS = ("collectors", "dashboards", "deploy", "docs", "lab", "proto", "streams", "tests")
PROGRAMS = {path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".sh")}


def missing_in(text: str) -> Iterator[str]:
    """Yield what a page names in code and the repository does not have."""
    for code in re.findall(r"`([^`\n]+)`", text):
        path, _, test = code.split(" ")[0].partition("::")
        if re.fullmatch(r"[\w-]+\.(py|sh)", path):
            if path not in PROGRAMS:
                yield code
        elif path.split("/")[0] in FOLDERS and re.fullmatch(r"[\w.-]+(/[\w.@-]+)+/?", path):
            file = ROOT / path
            if not file.exists() or (test and f"def {test}(" not in file.read_text("utf-8")):
                yield code
    for module, commit in re.findall(r"python3? -m ([\w.]+)(?=(?:[^`\n]*` of the commit (\w+))?)", text):
        file = module.replace(".", "/")
        if module.split(".")[0] in FOLDERS and not any(
            _exists(path, commit) for path in (f"{file}.py", f"{file}/__main__.py")
        ):
            yield module
    yield from (
        f"railsight {words}" for words in re.findall(r"`railsight ((?:[a-z][a-z_-]+ ?)+)", text) if unknown(words)
    )


def _exists(path: str, commit: str) -> bool:
    """Return whether the repository has a file now, or had it in a commit; a clone may lack that commit."""
    if not commit:
        return (ROOT / path).exists()

    def has(name: str) -> bool:
        command = ["git", "-C", str(ROOT), "cat-file", "-e", name]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    return not has(commit) or has(f"{commit}:{path}")


def unknown(words: str) -> bool:
    """Return whether the first words of a command line name no command; those after a command are its arguments."""
    command: Any = typer.main.get_command(application(words.split()))
    for word in words.split():
        if not hasattr(command, "commands"):
            return False
        command = command.get_command(None, word)
        if command is None:
            return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_page_names_nothing_that_is_missing(page: Path) -> None:
    """A page that names a moved module or a renamed command is out of date."""
    assert list(missing_in(page.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    "text",
    [
        "`streams/detect/measure/moment_world.py`",
        "`no_such_program.py`",
        "`tests/contract/test_documented_paths.py::test_nothing`",
        "`python -m lab.nothing`",
        "`python -m lab.nothing --quick` of the commit 4e30b1e3",
        "`railsight findigs --follow`",
        "`railsight bench baselines`",
    ],
)
def test_a_missing_name_is_found(text: str) -> None:
    """Each kind of name is looked up."""
    assert len(list(missing_in(text))) == 1

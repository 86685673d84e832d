"""With each extra of the package alone, every command opens, or ends with one line that names the missing extra.

The packages that the extra does not bring, by the metadata of those installed here, cannot be imported. `pytest -s`
prints the table of all commands.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import metadata, packages_distributions
from pathlib import Path

import pytest
import typer
from packaging.utils import canonicalize_name

from deploy.host_agent.__main__ import needed
from streams.cli.commands import commands

EXTRAS = [extra for extra in metadata("railsight").get_all("Provides-Extra") or [] if extra != "all"]

_RUN = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.abc import MetaPathFinder

blocked, lines = json.load(sys.stdin)

class Blocked(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from streams.cli.main import main

for words in lines:
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        try:
            main([*words, "--help"])
        except SystemExit as end:
            code = end.code or 0
        except BaseException as failure:
            code = repr(failure)
    print(json.dumps([" ".join(words), code, out.getvalue(), error.getvalue()]))
"""


@cache
def command_lines() -> list[list[str]]:
    """Return the words of every command and subcommand."""

    def leaves(words: list[str], group: object) -> Iterator[list[str]]:
        for name, command in getattr(group, "commands", {}).items():
            yield from leaves([*words, name], command)
        if not hasattr(group, "commands"):
            yield words

    return [
        words
        for command in commands()
        for target in [command.load()]
        for words in leaves(
            [command.name], typer.main.get_command(target) if isinstance(target, typer.Typer) else target
        )
    ]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "extras", [[], *([extra] for extra in EXTRAS), ["all"]], ids=lambda own: "-".join(own) or "none"
)
def test_every_command_opens_or_names_the_extra_that_it_needs(extras: list[str], tmp_path: Path) -> None:
    """No command ends in a traceback, or names an extra that is installed."""
    own = needed(extras) | {"railsight"}
    modules = packages_distributions().items()
    blocked = [module for module, packages in modules if not {canonicalize_name(one) for one in packages} & own]
    assert "pytest" in blocked and ("faust" in blocked) is not bool({"pipeline", "all"} & {*extras})
    done = subprocess.run(
        [sys.executable, "-c", _RUN], input=json.dumps([blocked, command_lines()]),
        capture_output=True, text=True, timeout=500, check=True, cwd=tmp_path,
    )  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == len(command_lines()) > 70
    for line, code, out, error in rows:
        sys.stdout.write(f"{'+'.join(extras) or 'none':<12}{line:<28}{'works' if code == 0 else error.strip()}\n")
        if code == 0:
            assert "Usage:" in out
        else:
            assert (code, len(error.splitlines())) == (2, 1), (line, code, error)
            assert "is not installed" in error and not any(
                f"'railsight[{one}]'" in error.split(",")[0] for one in extras
            )
    if extras == ["all"]:
        assert {code for _, code, _, _ in rows} == {0}

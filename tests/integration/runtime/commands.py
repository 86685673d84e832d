"""Starts `railsight` as a user does, in a process of its own."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lab.constants import command_with
from tests.integration.runtime.rig import ROOT


def command_line(*arguments: str) -> list[str]:
    """Return the command line of a subcommand."""
    return [sys.executable, "-m", "streams.cli.main", *arguments]


def railsight(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a subcommand to its end, without an answer to its questions."""
    return subprocess.run(
        command_line(*arguments),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def start_in_background(
    log: Path, env: dict[str, str], constants: Mapping[str, object], *arguments: str
) -> subprocess.Popen[bytes]:
    """Start a subcommand with other constants; its output goes to a file."""
    with log.open("wb") as out:
        return subprocess.Popen(command_with(constants, *arguments), stdout=out, stderr=out, cwd=ROOT, env=env)

"""deploy/otlp_peers.sh, run with stand-ins of Go and git that log their calls and make empty programs."""

import os
import re
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "deploy/otlp_peers.sh"
PROGRAMS = ("gnmic", "otelcol", "prometheus", "telemetrygen")
GIT = """#!/bin/sh
echo "git $*" >>{calls}
for folder; do :; done
mkdir "$folder"
"""
GO = """#!/bin/sh
echo "$*" >>{calls}
case "$1" in
    run) cat "$4" >>{calls}; mkdir otelcol; touch otelcol/otelcol; chmod 755 otelcol/otelcol;;
    build) while [ "$1" != -o ]; do shift; done; touch "$2"; chmod 755 "$2";;
esac
"""


class Machine:
    """A path with the stand-ins; `calls` are its calls with the files that they read."""

    def __init__(self, root: Path) -> None:
        self.folder, self.go, self._calls = root / "peers", root / "go", root / "calls"
        for program, body in ((self.go, GO), (root / "git", GIT)):
            program.write_text(body.format(calls=self._calls))
            program.chmod(0o755)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "PATH": f"{self.go.parent}:/usr/bin:/bin"}
        return subprocess.run(
            [str(SCRIPT), *arguments], capture_output=True, text=True, check=False, env=environ, timeout=30
        )

    def calls(self) -> str:
        return self._calls.read_text() if self._calls.exists() else ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine on which nothing is built yet."""
    return Machine(tmp_path)


def test_each_program_is_built_once_of_one_release(machine: Machine) -> None:
    done = machine.run(str(machine.folder))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in machine.folder.iterdir()) == sorted(PROGRAMS)
    calls = machine.calls()
    assert set(re.findall(r"opentelemetry\S+[ @](v\S+)", calls)) == {"v0.161.0", "v1.67.0"}
    assert set(re.findall(r"(?:--branch |prometheus@)(v\S+)", calls)) == {"v0.47.0", "v0.316.0"}
    (machine.folder / "gnmic").unlink()
    assert machine.run(str(machine.folder)).returncode == 0
    again = machine.calls().removeprefix(calls).splitlines()
    assert [line.split()[0] for line in again] == ["git", "build"]


def test_what_is_missing_is_named(machine: Machine) -> None:
    assert machine.run().returncode == 2
    machine.go.unlink()
    done = machine.run(str(machine.folder))
    assert (done.returncode, done.stderr) == (1, "deploy/otlp_peers.sh: go is not installed\n")

"""The benchmarks that collectors bring are subcommands of `railsight bench`."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streams.cli.bench.collector_benchmarks import GROUP, benches
from streams.cli.bench.command import bench

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"
DECLARED = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"][GROUP]


def test_what_is_declared_is_what_is_there() -> None:
    """An installation of another day would miss the newest: install it again."""
    assert set(benches()) == set(DECLARED)


@pytest.mark.parametrize("name", DECLARED)
def test_each_is_a_subcommand_with_help_and_json(name: str) -> None:
    """By the name of its entry, with a line of help, and for programs too."""
    shown = CliRunner().invoke(bench, [name, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert shown.exit_code == 0 and "--json" in shown.output


def test_the_other_benchmarks_do_not_pay_for_them() -> None:
    """Loading the commands imports no client of a protocol."""
    script = (
        "import sys\nimport streams.cli.bench.command\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('pysnmp', 'grpc', 'pyasn1')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"

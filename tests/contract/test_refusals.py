"""The tools that `make check` runs refuse wrong imports, clock calls, type errors and undeclared packages.

Each test spoils a copy of a real module in a copy of the packages; the unspoiled copy is accepted.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent

MODULE = Path("streams/fabric/ids.py")
"""A real module, small and low in the layers, so that each tool has little to read."""

WRONG_IMPORT = "\nfrom streams.wire import topics\n\n__all__ = ['topics']\n"
CLOCK_CALL = "\nimport time\n\n\ndef started() -> float:\n    return time.time()\n"
TYPE_ERROR = '\n\ndef rank_of_hosts() -> str:\n    """The lowest."""\n    return tier_rank("host")\n'


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages and of the configuration of the tools."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("streams", "collectors", "lab"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def copy(copied: Path) -> Path:
    """The copy, with its module as it is in the project."""
    shutil.copy(ROOT / MODULE, copied / MODULE)
    return copied


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        # The copy, not the installed packages, is what the tools find first.
        env={"PYTHONPATH": str(folder), "PATH": str(BIN), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return run(folder, str(BIN / "lint-imports"), "--no-cache")


def ruff(folder: Path) -> subprocess.CompletedProcess[str]:
    return run(folder, str(BIN / "ruff"), "check", "--no-cache", str(MODULE))


def mypy(folder: Path) -> subprocess.CompletedProcess[str]:
    return run(folder, str(BIN / "mypy"), "--cache-dir", str(folder / "cache"), str(MODULE))


Tool = Callable[[Path], subprocess.CompletedProcess[str]]
CASES = [
    pytest.param(lint_imports, WRONG_IMPORT, "streams.fabric.ids -> streams.wire", id="import"),
    pytest.param(ruff, CLOCK_CALL, "TID251", id="clock"),
    pytest.param(mypy, TYPE_ERROR, "Incompatible return value type", id="type"),
]


@pytest.mark.parametrize(("tool", "spoilt", "message"), CASES)
def test_a_spoiled_module_is_refused(copy: Path, tool: Tool, spoilt: str, message: str) -> None:
    """A wrong import, a clock call and a type error in a real module are each refused by their tool, by name."""
    before = tool(copy)
    assert before.returncode == 0, before.stdout + before.stderr
    with (copy / MODULE).open("a") as module:
        module.write(spoilt)
    after = tool(copy)
    assert after.returncode != 0
    assert message in after.stdout + after.stderr


def test_an_undeclared_package_is_refused(copy: Path) -> None:
    """A new folder under streams needs its place in the layers."""
    room = copy / "streams" / "attic"
    room.mkdir()
    (room / "__init__.py").touch()
    try:
        done = lint_imports(copy)
    finally:
        shutil.rmtree(room)
    assert done.returncode != 0
    assert "attic" in done.stdout

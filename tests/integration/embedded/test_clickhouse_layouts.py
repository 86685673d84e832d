"""Tests that the embedded ClickHouse starts in its sandbox wherever its packages are installed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import streams

SITE = Path(pytest.__file__).parent.parent
BASE = Path(sys.base_prefix) / "bin" / "python3"
PROGRAM = """
import sys
from pathlib import Path
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
with EmbeddedClickHouse(ClickHouseParams(data=Path(sys.argv[1]))) as server:
    print("started", server.url)
"""


def linked(folder: Path) -> Path:
    """Make a folder with every package of this environment, as links."""
    folder.mkdir(parents=True)
    for one in SITE.iterdir():
        if one.suffix != ".pth" and one.name != "streams":
            (folder / one.name).symlink_to(one)
    (folder / "streams").symlink_to(Path(streams.__file__).parent)
    return folder


def target(folder: Path) -> tuple[Path, dict[str, str]]:
    """Lay out as `pip install --target`."""
    return BASE, {"PYTHONPATH": str(linked(folder / "target"))}


def linked_files(folder: Path) -> tuple[Path, dict[str, str]]:
    """Lay out as uv with `--link-mode symlink`: the folders are real, each file is a link into a cache."""
    site = linked(folder / "target")
    for name in ("chdb", "chdb_core.libs"):
        real = (site / name).resolve()
        (site / name).unlink()
        for one in real.rglob("*"):
            if one.is_file():
                link = site / name / one.relative_to(real)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(one)
    return BASE, {"PYTHONPATH": str(site)}


def user(folder: Path) -> tuple[Path, dict[str, str]]:
    """Lay out as `pip install --user`."""
    linked(folder / ".local" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages")
    return BASE, {"HOME": str(folder)}


def system_site(folder: Path) -> tuple[Path, dict[str, str]]:
    """Lay out as a virtual environment with `--system-site-packages`; here they are the user's."""
    user(folder)
    options = ("--without-pip", "--system-site-packages")
    subprocess.run([str(BASE), "-m", "venv", *options, str(folder / "venv")], check=True)
    return folder / "venv" / "bin" / "python", {"HOME": str(folder)}


def pth(folder: Path) -> tuple[Path, dict[str, str]]:
    """Lay out as a virtual environment whose .pth file names another folder, as pipx and editable installs do."""
    subprocess.run([BASE, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    (site / "other.pth").write_text(f"{linked(folder / 'other')}\n")
    return folder / "venv" / "bin" / "python", {}


def linked_environment(folder: Path) -> tuple[Path, dict[str, str]]:
    """Lay out as a link to a virtual environment."""
    (folder / "link").symlink_to(sys.prefix)
    return folder / "link" / "bin" / "python", {}


LAYOUTS = (target, linked_files, user, system_site, pth, linked_environment)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda one: one.__name__)
def test_it_starts_in_every_layout(tmp_path: Path, layout: Callable[[Path], tuple[Path, dict[str, str]]]) -> None:
    """The sandbox opens the folders that the import system names, not those that one layout has."""
    python, environment = layout(tmp_path)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **environment}
    done = subprocess.run(
        [python, "-c", PROGRAM, str(tmp_path / "data")],
        capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("started http://127.0.0.1:"), done.stderr[-2000:]

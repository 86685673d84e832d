"""deploy/systemd: each unit runs a command that exists, relies on the notify protocol, and has no further rights."""

import configparser
import re
import shutil
import sys
from pathlib import Path

import pytest

from streams.cli.commands import commands
from streams.cli.options import collector_params
from streams.health.health import HealthParams
from tests.fixtures.external_programs import output_of, program

FOLDER = Path(__file__).parents[3] / "deploy/systemd"
UNITS = sorted(FOLDER.glob("*.service"))
INSTANCES = {"railsight-collect@": "gnmi", "railsight-process@": "measure"}
EXPOSURE = 3.0


def service_of(unit: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit.read_text())
    return parser["Service"]


@pytest.mark.parametrize("unit", UNITS, ids=[unit.stem for unit in UNITS])
def test_a_unit_is_supervised_by_notifications(unit: Path) -> None:
    """The watchdog is longer than the time after which a part counts as stuck, and the stop longer than a part's."""
    service = service_of(unit)
    assert service["Type"] == "notify"
    assert int(service["WatchdogSec"]) > HealthParams().stuck_s
    assert int(service["TimeoutStopSec"]) > 10
    assert service["Restart"] == "always"
    command_path, command, *_ = service["ExecStart"].split()
    assert command_path.endswith("/railsight") and command in {known.name for known in commands()}
    assert unit.name.startswith(f"railsight-{command}")


def test_units_are_there() -> None:
    """The parameters above are not empty, and drop-ins are for collectors that exist."""
    assert UNITS
    instances = {match[1] for path in FOLDER.glob("*.d") if (match := re.search(r"collect@(\w+)\.", path.name))}
    assert instances and instances <= set(collector_params())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root with the units and their drop-ins, and with the program that they start."""
    made = tmp_path_factory.mktemp("root")
    units = made / "etc/systemd/system"
    shutil.copytree(FOLDER, units)
    shipped = Path("/usr/lib/systemd/system")
    (made / "usr/lib/systemd").mkdir(parents=True)
    shutil.copytree(shipped, made / "usr/lib/systemd/system", ignore_dangling_symlinks=True)
    started = made / "opt/railsight/bin/railsight"
    started.parent.mkdir(parents=True)
    shutil.copy(Path(sys.executable).resolve(), started)
    return made


NAMES = [
    *(f"{unit.stem}{INSTANCES.get(unit.stem, '')}.service" for unit in UNITS), "railsight-collect@nic.service",
    "railsight-collect@host.service",
]  # fmt: skip


@pytest.mark.peer("systemd-analyze")
@pytest.mark.parametrize("name", NAMES)
def test_systemd_finds_nothing_wrong_and_little_exposed(root: Path, name: str) -> None:
    """`systemd-analyze verify` prints nothing; `security` rates the unit with its drop-ins below 3."""
    analyze = program("systemd-analyze")
    assert output_of(analyze, f"--root={root}", "verify", name).strip() == ""
    rated = output_of(analyze, f"--root={root}", "--offline=yes", "--no-pager", "security", name)
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", rated)
    assert level is not None and float(level[1]) < EXPOSURE, rated


@pytest.mark.peer("systemd-analyze")
def test_without_the_hardening_a_unit_is_exposed(root: Path, tmp_path: Path) -> None:
    """The drop-in is what lowers the rating: the check sees its absence, and an unknown setting."""
    bare = tmp_path / "root"
    shutil.copytree(root, bare, symlinks=True)
    shutil.rmtree(bare / "etc/systemd/system/railsight-.service.d")
    rated = output_of(program("systemd-analyze"), f"--root={bare}", "--offline=yes", "--no-pager", "security", NAMES[1])
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", rated)
    assert level is not None and float(level[1]) > 2 * EXPOSURE

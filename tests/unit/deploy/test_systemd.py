"""deploy/systemd: each unit runs a command that exists and relies on the notify protocol."""

import configparser
from pathlib import Path

import pytest

from streams.cli.main import COMMANDS
from streams.health.params import HealthParams

FOLDER = Path(__file__).parents[3] / "deploy/systemd"
UNITS = sorted(FOLDER.glob("*.service"))


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
    program, command, *_ = service["ExecStart"].split()
    assert program.endswith("/railsight") and command in {known.name for known in COMMANDS}
    assert unit.name.startswith(f"railsight-{command}")


def test_units_are_there() -> None:
    """The parameters above are not empty."""
    assert UNITS

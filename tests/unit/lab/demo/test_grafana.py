"""The Grafana that the demo starts."""

import json
import stat
from configparser import ConfigParser
from pathlib import Path

import pytest

from lab.demo import grafana
from streams.report.grafana import PLUGIN, BoardReader
from streams.wire.errors import Misconfigured

READER = BoardReader("http://127.0.0.1:8123", "railsight", "grafana", "s3cret")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return the folder of an installed Grafana."""
    home = tmp_path / "installed"
    (home / "conf").mkdir(parents=True)
    (home / "conf/defaults.ini").touch()
    (home / "bin").mkdir()
    program = home / "bin/grafana"
    program.touch(mode=0o755)
    return program


def test_a_grafana_on_path_gets_everything_it_needs(installed: Path, tmp_path: Path) -> None:
    """Loopback, a made password in a file of the owner, the boards of the repository, the plugin."""
    program = grafana.find_program({"PATH": str(installed.parent)})
    assert program == (str(installed), "server")
    folder = tmp_path / "grafana"
    folder.mkdir()
    own = grafana.own_grafana(folder, program, READER, {})
    ini = ConfigParser(interpolation=None)
    ini.read(folder / "grafana.ini")
    assert ini["server"]["http_addr"] == "127.0.0.1" and ini["server"]["http_port"] in own.address
    assert own.part.command[:4] == (*program, "--homepath", str(installed.parents[1]))
    assert stat.S_IMODE(own.password_file.stat().st_mode) == 0o600 and len(own.password_file.read_text()) > 16
    source = json.loads((folder / "provisioning/datasources/railsight.yaml").read_text())["datasources"][0]
    assert source == READER.source
    provider = json.loads((folder / "provisioning/dashboards/railsight.yaml").read_text())["providers"][0]
    assert (Path(provider["options"]["path"]) / "fabric.json").exists()
    assert ini["plugins"]["preinstall"] == PLUGIN


def test_a_plugin_that_is_there_is_not_installed(installed: Path, tmp_path: Path) -> None:
    """A machine without a network brings the plugin in GF_PATHS_PLUGINS."""
    (tmp_path / "plugins" / PLUGIN).mkdir(parents=True)
    program = (str(installed), "server")
    grafana.own_grafana(tmp_path, program, READER, {"GF_PATHS_PLUGINS": str(tmp_path / "plugins")})
    ini = ConfigParser(interpolation=None)
    ini.read(tmp_path / "grafana.ini")
    assert ini["plugins"]["preinstall_disabled"] == "true" and "preinstall" not in ini["plugins"]


def test_a_program_without_its_files_is_named(tmp_path: Path) -> None:
    """Grafana needs its own folder; the message has the variable that names it."""
    with pytest.raises(Misconfigured, match="GF_PATHS_HOME"):
        grafana.own_grafana(tmp_path, (str(tmp_path / "bin/grafana"), "server"), READER, {})


def test_without_a_grafana_there_is_none(tmp_path: Path) -> None:
    """The command then prints how to get one."""
    assert grafana.find_program({"PATH": str(tmp_path)}) is None
    assert any("GRAFANA_URL" in line for line in grafana.HOW_TO)

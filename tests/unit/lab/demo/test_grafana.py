"""The boards in a Grafana of the demo: one that runs, one from PATH, or none."""

import json
import stat
from collections.abc import Iterator
from configparser import ConfigParser
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lab.demo import grafana
from streams.wire.errors import Misconfigured

READER = grafana.Reader("http://127.0.0.1:8123", "railsight", "s3cret")
TOKEN = {"GRAFANA_TOKEN": "t"}


class FakeGrafana(HTTPServer):
    """Records requests; has no data source at first."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str, dict[str, Any]]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: FakeGrafana

    def do_PUT(self) -> None:
        self._answer(404)

    def do_POST(self) -> None:
        self._answer(403 if self.headers["Authorization"] != "Bearer t" else 200)

    def _answer(self, status: int) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.command, self.path, self.headers["Authorization"], body))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def running() -> Iterator[FakeGrafana]:
    """Return a Grafana that listens."""
    with FakeGrafana() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


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


def test_a_running_grafana_gets_the_source_and_all_boards(running: FakeGrafana) -> None:
    """The source is made where an update finds none; the wall's address is returned."""
    assert grafana.upload(running.url, TOKEN, READER) == f"{running.url}d/railsight-fabric"
    assert [(method, path) for method, path, *_ in running.requests[:2]] == [
        ("PUT", "/api/datasources/uid/railsight-clickhouse"),
        ("POST", "/api/datasources"),
    ]
    source = running.requests[1][3]
    assert (source["jsonData"]["host"], source["jsonData"]["port"]) == ("127.0.0.1", 8123)
    assert (source["jsonData"]["username"], source["secureJsonData"]["password"]) == ("grafana", "s3cret")
    boards = [body["dashboard"]["uid"] for _, path, _, body in running.requests if path == "/api/dashboards/db"]
    assert len(boards) == len(grafana.read_boards()) and "railsight-fabric" in boards


def test_a_running_grafana_needs_credentials(running: FakeGrafana) -> None:
    """Without them nothing is sent; with wrong ones the answer names the request."""
    with pytest.raises(Misconfigured, match="GRAFANA_TOKEN"):
        grafana.upload(running.url, {}, READER)
    assert not running.requests
    with pytest.raises(Misconfigured, match="403"):
        grafana.upload(running.url, {"GRAFANA_USER": "a", "GRAFANA_PASSWORD": "b"}, READER)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "file:///etc/passwd"])
def test_an_address_that_is_no_grafana_is_named(url: str) -> None:
    """One line with the address, and what to check."""
    with pytest.raises(Misconfigured, match="GRAFANA_URL"):
        grafana.upload(url, TOKEN, READER)


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
    assert ini["plugins"]["preinstall"] == grafana.PLUGIN


def test_a_plugin_that_is_there_is_not_installed(installed: Path, tmp_path: Path) -> None:
    """A machine without a network brings the plugin in GF_PATHS_PLUGINS."""
    (tmp_path / "plugins" / grafana.PLUGIN).mkdir(parents=True)
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


def test_an_installation_without_the_repository_is_named(tmp_path: Path) -> None:
    """The boards are files of the repository, not of the wheel."""
    with pytest.raises(Misconfigured, match="make demo"):
        grafana.read_boards(tmp_path)

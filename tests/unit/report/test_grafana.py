"""The boards in a running Grafana: its HTTP API gets the data source, the boards and the rules."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from streams.report.grafana import PLUGIN, BoardReader, Grafana, read_boards
from streams.wire.errors import Misconfigured, Retry

READER = BoardReader("http://127.0.0.1:8123", "railsight", "grafana", "s3cret")
TOKEN = {"GRAFANA_TOKEN": "t"}
SOURCE = "/api/datasources/uid/railsight-clickhouse"


class FakeGrafana(HTTPServer):
    """Records requests, and has the paths that were written; `plugin` and `answers` are its state."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, Any]]] = []
        self.has = {f"/api/plugins/{PLUGIN}/settings"}
        self.health: tuple[int, dict[str, str]] = (200, {"status": "OK"})
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: FakeGrafana

    def do_GET(self) -> None:
        if self.path.endswith("/health"):
            self._answer(*self.server.health)
        else:
            self._answer(200 if self.path in self.server.has else 404)

    def do_PUT(self) -> None:
        self._write()

    def do_POST(self) -> None:
        self._write()

    def _write(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.command, self.path, body))
        if uid := body.get("uid"):
            self.server.has.add(f"{self.path}/uid/{uid}" if "datasources" in self.path else f"{self.path}/{uid}")
        self._answer(200)

    def _answer(self, status: int, body: dict[str, str] | None = None) -> None:
        status = status if self.headers["Authorization"] == "Bearer t" else 403
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body or {}).encode())

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


def test_a_grafana_gets_the_source_the_boards_and_the_rules(running: FakeGrafana) -> None:
    """A second time the source is replaced, and the folder stays; the address of the first board is returned."""
    for _ in range(2):
        opened = Grafana(running.url, TOKEN).install(READER, alerts_of_findings=True)
        assert opened == f"{running.url}d/railsight-fabric"
    half = len(running.requests) // 2 + 1
    assert [(method, path) for method, path, _ in running.requests[:2]] == [
        ("POST", "/api/datasources"), ("POST", "/api/folders"),
    ]  # fmt: skip
    assert [(method, path) for method, path, _ in running.requests[half : half + 1]] == [("PUT", SOURCE)]
    source = running.requests[0][2]
    assert (source["jsonData"]["host"], source["jsonData"]["port"]) == ("127.0.0.1", 8123)
    assert (source["jsonData"]["username"], source["secureJsonData"]["password"]) == ("grafana", "s3cret")
    boards = {body["dashboard"]["uid"] for _, path, body in running.requests if path == "/api/dashboards/db"}
    assert len(boards) == len(read_boards()) and "railsight-fabric" in boards
    *_, (method, path, group) = running.requests
    assert (method, path) == ("PUT", "/api/v1/provisioning/folder/railsight/rule-groups/railsight")
    assert len(group["rules"]) == 3 and "$$" not in json.dumps(group)


@pytest.mark.parametrize("alerts_of_findings", [True, False])
def test_findings_alert_where_no_alertmanager_has_them(running: FakeGrafana, *, alerts_of_findings: bool) -> None:
    """Otherwise Grafana would page a second time for each; the rules of the pipeline itself always run."""
    Grafana(running.url, TOKEN).install(READER, alerts_of_findings=alerts_of_findings)
    paused = {rule["uid"] for rule in running.requests[-1][2]["rules"] if rule["isPaused"]}
    assert paused == (set() if alerts_of_findings else {"railsight-critical-finding"})


def test_a_source_by_https_is_secure() -> None:
    """Without a port, it has ClickHouse's own for TLS."""
    data = BoardReader("https://ch.example.net", "railsight", "grafana", "").source["jsonData"]
    assert (data["secure"], data["host"], data["port"]) == (True, "ch.example.net", 8443)


def test_a_grafana_without_the_plugin_gets_nothing(running: FakeGrafana) -> None:
    """The message has the command that installs the plugin."""
    running.has.clear()
    with pytest.raises(Misconfigured, match=f"plugins install {PLUGIN}"):
        Grafana(running.url, TOKEN).install(READER, alerts_of_findings=True)
    assert not running.requests


def test_a_source_that_grafana_cannot_query_is_reported(running: FakeGrafana) -> None:
    """The message has ClickHouse's address, the user and Grafana's words."""
    running.health = (400, {"status": "ERROR", "message": "connection refused"})
    with pytest.raises(Retry, match=r"cannot query http://127.0.0.1:8123 as grafana: .*connection refused"):
        Grafana(running.url, TOKEN).install(READER, alerts_of_findings=True)


def test_a_running_grafana_needs_credentials(running: FakeGrafana) -> None:
    """Without them nothing is sent; with wrong ones the answer names the request."""
    with pytest.raises(Misconfigured, match="GRAFANA_TOKEN"):
        Grafana(running.url, {})
    with pytest.raises(Misconfigured, match="403"):
        Grafana(running.url, {"GRAFANA_USER": "a", "GRAFANA_PASSWORD": "b"}).install(READER, alerts_of_findings=True)
    assert not running.requests


@pytest.mark.parametrize(
    ("url", "kind"), [("http://127.0.0.1:1", Retry), ("file:///etc/passwd", Misconfigured)], ids=["away", "no URL"]
)
def test_an_address_that_is_no_grafana_is_named(url: str, kind: type[Exception]) -> None:
    """One line with the address."""
    with pytest.raises(kind, match=url):
        Grafana(url, TOKEN).install(READER, alerts_of_findings=True)


def test_an_installation_without_boards_is_named(tmp_path: Path) -> None:
    """The boards are files of the wheel."""
    with pytest.raises(Misconfigured, match="incomplete"):
        read_boards(tmp_path)

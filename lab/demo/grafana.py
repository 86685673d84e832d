"""Provisions a Grafana with the boards of `dashboards/json`, for `demo --grafana`.

GRAFANA_URL names a running Grafana, which gets the data source and the boards by its HTTP API. Otherwise a `grafana` or
`grafana-server` on PATH is started for the demo, with an administrator whose password is generated. Grafana installs
the data source's plugin itself (`plugins.preinstall`) if its plugin folder has none.
"""

import base64
import os
import secrets
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from streams.embedded.kafka_data_dir import free_ports
from streams.instrument.shipped import shipped
from streams.runtime.supervise import Part
from streams.wire.errors import Misconfigured

BOARDS = shipped("dashboards/json")
PLUGIN = "grafana-clickhouse-datasource"
SOURCE_UID = "railsight-clickhouse"
WALL_UID = "railsight-fabric"
READER = "grafana"
"""The read-only user of the embedded ClickHouse."""
TIMEOUT_S = 15.0

HOW_TO = (
    "no Grafana: neither GRAFANA_URL nor a `grafana` or `grafana-server` on PATH",
    "  with a Grafana of your own: GRAFANA_URL=https://grafana.example GRAFANA_TOKEN=… railsight demo --grafana",
    "  on this machine: install Grafana 11 or later (grafana.com/docs), run it again",
    "  in containers: deploy/compose has Grafana with the boards; docs/dashboards.md has pictures of them",
)


@dataclass(frozen=True, slots=True)
class Reader:
    """The ClickHouse from which the boards read."""

    url: str
    database: str
    password: str
    user: str = READER

    @property
    def source(self) -> dict[str, Any]:
        """The data source in the format of Grafana's API and provisioning."""
        address = urlsplit(self.url)
        return {
            "name": "railsight", "uid": SOURCE_UID, "type": PLUGIN, "access": "proxy", "isDefault": True,
            "jsonData": {
                "protocol": "http", "host": address.hostname, "port": address.port, "username": self.user,
                "defaultDatabase": self.database, "dialTimeout": "10", "queryTimeout": "30",
            },
            "secureJsonData": {"password": self.password},
        }  # fmt: skip


def read_boards(folder: Path = BOARDS) -> dict[str, dict[str, Any]]:
    """Return the boards by name; raise Misconfigured if the repository is not installed from its source."""
    boards = {path.stem: orjson.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}
    if not boards:
        raise Misconfigured(f"--grafana: no boards in {folder}; run the demo from the repository (`make demo`)")
    return boards


def find_program(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the command that starts Grafana's server; None if none is on PATH."""
    path = environment.get("PATH")
    if (program := shutil.which("grafana", path=path)) is not None:
        return program, "server"
    server = shutil.which("grafana-server", path=path)
    return None if server is None else (server,)


def upload(url: str, environment: Mapping[str, str], reader: Reader) -> str:
    """Send the data source and the boards to a running Grafana; return the address of the wall.

    Raises Misconfigured with Grafana's answer.
    """
    base = url.rstrip("/")
    headers = {"Content-Type": "application/json", "Authorization": _authorization(url, environment)}
    try:
        _call("PUT", f"{base}/api/datasources/uid/{SOURCE_UID}", headers, reader.source)
    except FileNotFoundError:
        _call("POST", f"{base}/api/datasources", headers, reader.source)
    for made in read_boards().values():
        _call("POST", f"{base}/api/dashboards/db", headers, {"dashboard": made, "overwrite": True})
    return f"{base}/d/{WALL_UID}"


def _authorization(url: str, environment: Mapping[str, str]) -> str:
    if token := environment.get("GRAFANA_TOKEN"):
        return f"Bearer {token}"
    user, password = environment.get("GRAFANA_USER"), environment.get("GRAFANA_PASSWORD")
    if user and password:
        return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    raise Misconfigured(
        f"GRAFANA_URL={url} needs GRAFANA_TOKEN (a service account's), or GRAFANA_USER and GRAFANA_PASSWORD"
    )


def _call(method: str, url: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> None:
    """Send one request; raise FileNotFoundError for 404, else Misconfigured."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise Misconfigured(f"GRAFANA_URL: {url} is no http or https URL")
    request = urllib.request.Request(url, orjson.dumps(body), dict(headers), method=method)  # noqa: S310 — checked
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S):  # noqa: S310 — checked
            return
    except urllib.error.HTTPError as error:
        if error.code == 404:
            raise FileNotFoundError(url) from error
        answer = error.read(500).decode(errors="replace")
        raise Misconfigured(f"Grafana refused {method} {url}: {error.code} {answer}") from error
    except OSError as error:
        raise Misconfigured(f"cannot reach Grafana at {url} ({error}); check GRAFANA_URL") from error


@dataclass(frozen=True, slots=True)
class OwnGrafana:
    """A Grafana that the demo starts."""

    part: Part
    address: str
    password_file: Path


def own_grafana(folder: Path, program: tuple[str, ...], reader: Reader, environment: Mapping[str, str]) -> OwnGrafana:
    """Write the configuration and the provisioning of a Grafana in a folder; return the part that runs it."""
    read_boards()
    (port,) = free_ports(1)
    provisioning = folder / "provisioning"
    for name in ("datasources", "dashboards", "plugins", "alerting"):
        (provisioning / name).mkdir(parents=True, exist_ok=True)
    _write_secret(
        provisioning / "datasources/railsight.yaml", orjson.dumps({"apiVersion": 1, "datasources": [reader.source]})
    )
    provider = {
        "name": "railsight", "folder": "railsight", "type": "file", "disableDeletion": True, "allowUiUpdates": False,
        "options": {"path": str(BOARDS)},
    }  # fmt: skip
    (provisioning / "dashboards/railsight.yaml").write_bytes(orjson.dumps({"apiVersion": 1, "providers": [provider]}))
    password_file = folder / "admin.secret"
    _write_secret(password_file, secrets.token_urlsafe(16).encode())
    plugins = environment.get("GF_PATHS_PLUGINS", str(folder / "plugins"))
    has_plugin = (Path(plugins) / PLUGIN).exists()
    ini = folder / "grafana.ini"
    ini.write_text(
        f"""[server]
http_addr = 127.0.0.1
http_port = {port}
[paths]
data = {folder / "data"}
logs = {folder / "logs"}
plugins = {plugins}
provisioning = {provisioning}
[security]
admin_password = $__file{{{password_file}}}
[analytics]
reporting_enabled = false
check_for_updates = false
check_for_plugin_updates = false
[plugins]
{f"allow_loading_unsigned_plugins = {PLUGIN}" if has_plugin else f"preinstall = {PLUGIN}"}
preinstall_disabled = {str(has_plugin).lower()}
[dashboards]
default_home_dashboard_path = {BOARDS / "fabric.json"}
""",
        encoding="utf-8",
    )
    command = (*program, "--homepath", str(_home(program[0], environment)), "--config", str(ini))
    return OwnGrafana(Part("grafana", command), f"http://127.0.0.1:{port}/d/{WALL_UID}", password_file)


def _home(program: str, environment: Mapping[str, str]) -> Path:
    """Return the folder of Grafana's own files: the package's, or the one above the program's folder."""
    candidates = [
        Path(environment["GF_PATHS_HOME"]) if "GF_PATHS_HOME" in environment else None,
        Path(program).resolve().parent.parent,
        Path("/usr/share/grafana"),
    ]
    for folder in filter(None, candidates):
        if (folder / "conf" / "defaults.ini").exists():
            return folder
    raise Misconfigured(f"{program} has no conf/defaults.ini beside it; set GF_PATHS_HOME to Grafana's folder")


def _write_secret(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)

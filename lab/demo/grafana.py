"""Provisions a Grafana with the boards of `dashboards/json`, for `demo --grafana`.

GRAFANA_URL names a running Grafana, which gets the data source and the boards by its HTTP API. Otherwise a `grafana` or
`grafana-server` on PATH is started for the demo, with an administrator whose password is generated. Grafana installs
the data source's plugin itself (`plugins.preinstall`) if its plugin folder has none.
"""

import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from streams.embedded.kafka_data_dir import free_ports
from streams.report.grafana import BOARDS, PLUGIN, WALL_UID, BoardReader, read_boards
from streams.runtime.supervise import Part
from streams.wire.errors import Misconfigured

HOW_TO = (
    "no Grafana: neither GRAFANA_URL nor a `grafana` or `grafana-server` on PATH",
    "  with a Grafana of your own: GRAFANA_URL=https://grafana.example GRAFANA_TOKEN=… railsight demo --grafana",
    "  on this machine: install Grafana 11 or later (grafana.com/docs), run it again",
    "  in containers: deploy/compose has Grafana with the boards; docs/dashboards.md has pictures of them",
)


def find_program(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the command that starts Grafana's server; None if none is on PATH."""
    path = environment.get("PATH")
    if (program := shutil.which("grafana", path=path)) is not None:
        return program, "server"
    server = shutil.which("grafana-server", path=path)
    return None if server is None else (server,)


@dataclass(frozen=True, slots=True)
class OwnGrafana:
    """A Grafana that the demo starts."""

    part: Part
    address: str
    password_file: Path


def own_grafana(
    folder: Path, program: tuple[str, ...], reader: BoardReader, environment: Mapping[str, str]
) -> OwnGrafana:
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

"""Gives a Grafana the data source, the boards and the alert rules, by its HTTP API."""

import base64
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from streams.instrument.shipped import shipped
from streams.store.users import CONDITION_CACHE
from streams.wire.errors import Misconfigured, Retry

BOARDS = shipped("dashboards/json")
RULES = shipped("dashboards/provisioning/alerting/railsight.json")
PLUGIN = "grafana-clickhouse-datasource"
SOURCE_UID = "railsight-clickhouse"
WALL_UID = "railsight-fabric"
FOLDER = "railsight"
"""The UID and the title of the folder of boards and rules."""
TIMEOUT_S = 15.0
_HEALTH_PAUSES_S = (0.0, 0.5, 1.5)
"""A query in progress may still use the previous address of the data source."""


@dataclass(frozen=True, slots=True)
class BoardReader:
    """The ClickHouse from which the boards read, and the login of a user that may only read."""

    url: str
    database: str
    user: str
    password: str

    @property
    def source(self) -> dict[str, Any]:
        """The data source in the format of Grafana's API and provisioning."""
        address = urlsplit(self.url)
        is_secure = address.scheme == "https"
        return {
            "name": "railsight", "uid": SOURCE_UID, "type": PLUGIN, "access": "proxy", "isDefault": True,
            "jsonData": {
                "protocol": "http", "secure": is_secure, "host": address.hostname,
                "port": address.port or (8443 if is_secure else 8123), "username": self.user,
                "defaultDatabase": self.database, "dialTimeout": "10", "queryTimeout": "30",
                "customSettings": [{"setting": CONDITION_CACHE, "value": "0"}],
            },
            "secureJsonData": {"password": self.password},
        }  # fmt: skip


def read_boards(folder: Path = BOARDS) -> dict[str, dict[str, Any]]:
    """Return the boards by name; raises Misconfigured if the installation has none."""
    boards = {path.stem: orjson.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}
    if not boards:
        raise Misconfigured(f"no boards in {folder}: the installation is incomplete; install railsight again")
    return boards


class Grafana:
    """The HTTP API of a running Grafana, with the login in the environment.

    GRAFANA_TOKEN is the token of a service account; GRAFANA_USER and GRAFANA_PASSWORD replace it.
    """

    def __init__(self, url: str, environ: Mapping[str, str]) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise Misconfigured(f"{url} is no http or https URL of a Grafana")
        self._base = url.rstrip("/")
        self._headers = {
            "Content-Type": "application/json",
            "Authorization": _authorization(url, environ),
            "X-Disable-Provenance": "true",  # people may change the rules in Grafana
        }

    def install(self, reader: BoardReader, *, alerts_of_findings: bool) -> str:
        """Create or replace the data source, the boards and the rules, and let Grafana query the source.

        Without `alerts_of_findings` the rule of critical findings is paused, because an Alertmanager has them.
        Return the address of the first board. Raises Misconfigured with Grafana's answer, and Retry if Grafana cannot
        query ClickHouse.
        """
        if not self._exists(f"/api/plugins/{PLUGIN}/settings"):
            raise Misconfigured(f"Grafana has no plugin {PLUGIN}; install it (`grafana cli plugins install {PLUGIN}`)")
        if self._exists(f"/api/datasources/uid/{SOURCE_UID}"):
            self._call("PUT", f"/api/datasources/uid/{SOURCE_UID}", reader.source)
        else:
            self._call("POST", "/api/datasources", reader.source)
        if not self._exists(f"/api/folders/{FOLDER}"):
            self._call("POST", "/api/folders", {"uid": FOLDER, "title": FOLDER})
        for board in read_boards().values():
            self._call("POST", "/api/dashboards/db", {"dashboard": board, "folderUid": FOLDER, "overwrite": True})
        for group in _rule_groups(alerts_of_findings=alerts_of_findings):
            path = f"/api/v1/provisioning/folder/{FOLDER}/rule-groups/{group['title']}"
            self._call("PUT", path, group)
        health: dict[str, Any] = {}
        for pause_s in _HEALTH_PAUSES_S:
            time.sleep(pause_s)
            health = self._call("GET", f"/api/datasources/uid/{SOURCE_UID}/health")
            if health.get("status") == "OK":
                break
        else:
            raise Retry(
                f"installed, but Grafana cannot query {reader.url} as {reader.user}: {health.get('message', health)};"
                " is the address reachable from Grafana's host (--clickhouse)?"
            )
        return f"{self._base}/d/{WALL_UID}"

    def _exists(self, path: str) -> bool:
        try:
            self._call("GET", path)
        except FileNotFoundError:
            return False
        return True

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer to one request; raises FileNotFoundError for 404, Misconfigured, or Retry."""
        url = self._base + path
        data = None if body is None else orjson.dumps(body)
        request = urllib.request.Request(url, data, self._headers, method=method)  # noqa: S310 — checked
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 — checked
                return dict(orjson.loads(answer.read() or b"{}"))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise FileNotFoundError(url) from error
            text = error.read(500).decode(errors="replace")
            if path.endswith("/health"):
                return {"message": text}
            raise Misconfigured(f"Grafana refused {method} {url}: {error.code} {text}") from error
        except ValueError as error:
            raise Misconfigured(f"{url} answers without JSON; is {self._base} a Grafana?") from error
        except OSError as error:
            raise Retry(f"cannot reach Grafana at {self._base} ({error}); check the address") from error


def _authorization(url: str, environ: Mapping[str, str]) -> str:
    if token := environ.get("GRAFANA_TOKEN"):
        return f"Bearer {token}"
    user, password = environ.get("GRAFANA_USER"), environ.get("GRAFANA_PASSWORD")
    if user and password:
        return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    raise Misconfigured(f"{url} needs GRAFANA_TOKEN (a service account's), or GRAFANA_USER and GRAFANA_PASSWORD")


def _rule_groups(*, alerts_of_findings: bool) -> list[dict[str, Any]]:
    """Return the groups of alert rules in the format of the API; the provisioned file escapes each dollar sign."""
    groups = orjson.loads(RULES.read_bytes().replace(b"$$", b"$"))["groups"]
    return [
        {
            "title": group["name"], "folderUid": FOLDER, "interval": 60,
            "rules": [
                {**rule, "orgID": group["orgId"], "folderUID": FOLDER, "ruleGroup": group["name"],
                 "isPaused": rule["isPaused"] and not alerts_of_findings}
                for rule in group["rules"]
            ],
        }
        for group in groups
    ]  # fmt: skip

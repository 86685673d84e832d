"""Provides a small fabric with known results in the real tables, for the dashboard's queries."""

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest

from dashboards.queries.query import NONE, Query
from lab.constants import params_of
from lab.preview.reading import View
from streams.store import migrate
from streams.store.clickhouse import ClickHouse as Store
from streams.store.params import StoreParams
from tests.integration.fixtures_clickhouse import ClickHouse

NOW = int(time.time()) // 60 * 60 - 60
"""The view's end: a whole minute, at least one ago."""
FROM = NOW - 600

Rows = list[dict[str, Any]]


def at(second: float) -> str:
    """Return a time of the view, in seconds before its end."""
    return datetime.fromtimestamp(NOW - second, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def finding(identity: str, severity: str, started: float, **more: Any) -> dict[str, Any]:
    return {
        "id": identity, "revision": 1, "detector": "link/down", "condition": "link_down", "status": "open",
        "severity": severity, "subject_id": f"link:{identity}", "pod": "pod-1", "rail": 4, "started_at": at(started),
        "observed_at": at(started), "summary": f"{identity} is down", "cause": "cable", "confidence": 0.9,
        "evidence": ["carrier lost", "both ends"], "hosts": ["host-1"], "jobs": ["llama"], "arrived_at": at(started),
    } | more  # fmt: skip


FINDINGS = [
    finding("critical", "critical", 300),
    finding("critical", "critical", 300, revision=2, status="updated", summary="still down"),
    finding("child", "warning", 290, parent_id="critical"),
    finding("warning", "warning", 100, detector="link/flap", runbook_url="https://x/flap"),
    finding("elsewhere", "warning", 100, pod="pod-2", rail=None, jobs=[]),
    finding("homeless", "info", 90, pod="", rail=None),
    finding("over", "critical", 500),
    finding("over", "critical", 500, revision=2, status="resolved", resolved_at=at(400)),
    finding("never", "critical", 200, revision=3, status="retracted", resolved_at=at(150)),
    finding("shadow", "critical", 200, shadow=True),
    finding("later", "critical", -30),
]
DEVICES = [("host-1", "pod-1"), ("leaf-1", "pod-1"), ("host-2", "pod-2"), ("host-3", "pod-2")]
# host-1 and host-2 report until the end, leaf-1 until 120 s before it, host-3 never.
RECEIVED = [
    ("host-1", range(0, 600, 10)),
    ("host-2", range(0, 600, 10)),
    ("leaf-1", range(120, 600, 10)),
]


def inventory_rows() -> dict[str, Rows]:
    old = {"digest": "old", "effective_at": at(5000), "arrived_at": at(5000)}
    new = {"digest": "new", "effective_at": at(1000), "arrived_at": at(1000)}
    later = {"digest": "later", "effective_at": at(-1000), "arrived_at": at(1000)}
    links = [("pod-1", 4), ("pod-1", 5), ("pod-1", None), ("pod-2", None)]
    return {
        "inventory_devices": [
            *({**new, "name": name, "pod": pod} for name, pod in DEVICES),
            {**old, "name": "gone", "pod": "pod-1"},
            {**later, "name": "planned", "pod": "pod-1"},
        ],
        "inventory_links": [{**new, "id": f"l{i}", "pod": pod, "rail": rail} for i, (pod, rail) in enumerate(links)]
        + [{**old, "id": "x", "pod": "pod-9", "rail": 1}],
    }


def telemetry_rows() -> dict[str, Rows]:
    received = [
        {"device": device, "source": "gnmi", "rows": 8, "sampled_at": at(s + 0.5), "arrived_at": at(s)}
        for device, seconds in RECEIVED
        for s in seconds
    ]
    status = [
        {"device": device, "source": "gnmi", "at": at(when), "reachable": reachable, "error": error}
        | {"cadence_ns": 10_000_000_000, "arrived_at": at(when)}
        for device, when, reachable, error in [
            ("host-1", 600, True, ""),
            ("host-2", 600, True, ""),
            ("leaf-1", 600, True, ""),
            ("leaf-1", 100, False, "connection refused"),
        ]
    ]
    return {"sample_messages": received, "collector_status": status}


def pipeline_rows() -> dict[str, Rows]:
    progress = [
        {"stage": stage, "partition": partition, "epoch": 1 + (s < 300), "watermark": at(s + 2), "lag": 5}
        # A second epoch: its owner counts from the beginning.
        | {"records": 100 * ((600 if s >= 300 else 300) - s), "arrived_at": at(s)}
        for stage in ("measure", "attribute")
        for partition in range(2)
        for s in range(0, 600, 5)
    ]
    rejected = [
        {"topic": "samples", "partition": 0, "offset": i, "stage": "measure", "reason": "not a Samples"}
        | {"at": at(50), "arrived_at": at(50 + i)}
        for i in range(3)
    ]
    remediations = [
        {"id": "r1", "revision": revision, "action": "drain_link", "verdict": verdict, "subject_id": "link:critical"}
        | {"finding_ids": ["critical"], "state": "drained" if revision == 1 else "denied"}
        | {"constraint_name": "surviving-capacity", "constraint_limit": 0.75, "constraint_observed": 0.5}
        | {"surviving_capacity_ratio": 0.5, "decided_at": at(200), "arrived_at": at(200)}
        for revision, verdict in [(1, "needs_approval"), (2, "denied")]
    ]
    return {"progress": progress, "rejected": rejected, "remediations": remediations}


class Board:
    """The dashboards over one database."""

    def __init__(self, server: ClickHouse, database: str) -> None:
        # As Grafana's source does: the database beside the query, tables without it.
        self._server = ClickHouse(f"{server.url}/?database={database}", server.user, server.password)
        self._params = params_of(
            StoreParams, {"url": server.url, "user": server.user, "password": server.password, "database": database}
        )
        self.with_store(lambda store: migrate.apply(store, migrate.shipped_migrations()))

    def with_store(self, step: Callable[[Store], object]) -> None:
        """Run a step as the sink does."""
        store = Store(self._params)
        step(store)
        store.close()

    def fill(self, tables: dict[str, Rows]) -> None:
        for table, rows in tables.items():
            lines = "\n".join(json.dumps(row) for row in rows)
            self._server.execute(f"INSERT INTO {table} FORMAT JSONEachRow\n{lines}")

    def execute(self, sql: str) -> None:
        """Run a statement that returns no rows."""
        self._server.execute(sql)

    def ask(
        self,
        query: Query,
        pods: tuple[str, ...] = ("pod-1", "pod-2", NONE),
        interval_s: int = 10,
        to: int = NOW,
        texts: Mapping[str, str] | None = None,
        since: int = FROM,
    ) -> Rows:
        """Return the rows of a query; `texts` are the values of text boxes."""
        opened = {
            "pod": pods, "severity": ("critical", "warning", "info"), "finding": ("critical",), "shown": ("critical",),
            "runbooks": ("https://git/",), "device": ("",), "rail": ("",), "job": ("",), "team": ("",),
        }  # fmt: skip
        sql = View(since, to, interval_s, opened | {name: (value,) for name, value in (texts or {}).items()}).expand(
            query.sql
        )
        return self.run(sql)

    def run(self, sql: str, **parameters: str) -> Rows:
        """Run a query with typed parameters; an error fails the test with the server's message."""
        given = urlencode({f"param_{name}": value for name, value in parameters.items()})
        asked = ClickHouse(f"{self._server.url}&{given}", self._server.user, self._server.password)
        try:
            answer = asked.execute(f"{sql}\nFORMAT JSON")
        except HTTPError as error:
            pytest.fail(f"{error.read().decode()}\n{sql}")
        rows: Rows = json.loads(answer)["data"]
        return rows

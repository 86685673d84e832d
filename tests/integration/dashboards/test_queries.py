"""Every query of the Fabric board, on the real tables and on a small fabric of which we know the answers."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.error import HTTPError

import pytest

from dashboards import queries
from dashboards.queries import Query
from streams.store import migrate
from streams.store.clickhouse import ClickHouse as Store
from streams.store.params import StoreParams
from tests.integration.fixtures_clickhouse import ClickHouse
from tests.unit.dashboards.macros import View

NOW = int(time.time()) // 60 * 60 - 60
"""The view's end: a whole minute, at least one ago."""
FROM = NOW - 600

Rows = list[dict[str, Any]]
QUERIES = {name: query for name, query in vars(queries).items() if isinstance(query, Query)}


def at(second: float) -> str:
    """A time of the view, in seconds before its end."""
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
# host-1 and host-2 are heard until the end, leaf-1 until 120 s before it, host-3 never.
HEARD = [
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
    heard = [
        {"device": device, "source": "gnmi", "rows": 8, "sampled_at": at(s + 0.5), "arrived_at": at(s)}
        for device, seconds in HEARD
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
    return {"sample_messages": heard, "collector_status": status}


def pipeline_rows() -> dict[str, Rows]:
    progress = [
        {"stage": stage, "partition": partition, "epoch": 1 + (s < 300), "watermark": at(s + 2), "lag": 5}
        # A second epoch begins anew: its owner counts from its own beginning.
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
        | {"constraint_name": "surviving-capacity", "constraint_limit": 0.75, "constraint_observed": 0.5}
        | {"surviving_capacity_ratio": 0.5, "decided_at": at(200), "arrived_at": at(200)}
        for revision, verdict in [(1, "needs_approval"), (2, "denied")]
    ]
    return {"progress": progress, "rejected": rejected, "remediations": remediations}


class Board:
    """The board over one database."""

    def __init__(self, server: ClickHouse, database: str) -> None:
        # As Grafana's source does: the database beside the query, tables without it.
        self._server = ClickHouse(f"{server.url}/?database={database}", server.user, server.password)
        store = Store(
            StoreParams.model_validate(
                {"url": server.url, "user": server.user, "password": server.password, "database": database}
            )
        )
        migrate.apply(store, migrate.shipped())
        store.close()

    def fill(self, tables: dict[str, Rows]) -> None:
        for table, rows in tables.items():
            lines = "\n".join(json.dumps(row) for row in rows)
            self._server.execute(f"INSERT INTO {table} FORMAT JSONEachRow\n{lines}")

    def ask(
        self,
        query: Query,
        pods: tuple[str, ...] = ("pod-1", "pod-2", queries.NONE),
        interval_s: int = 10,
        to: int = NOW,
    ) -> Rows:
        chosen = {"pod": pods, "severity": ("critical", "warning", "info"), "finding": ("critical",)}
        sql = View(FROM, to, interval_s, chosen).expand(query.sql)
        try:
            answer = self._server.execute(f"{sql}\nFORMAT JSON")
        except HTTPError as error:
            pytest.fail(f"{error.read().decode()}\n{sql}")
        rows: Rows = json.loads(answer)["data"]
        return rows


@pytest.fixture
def empty(clickhouse: ClickHouse, clickhouse_database: Callable[[], str]) -> Board:
    """Return the board over tables without a row."""
    return Board(clickhouse, clickhouse_database())


@pytest.fixture
def board(empty: Board) -> Board:
    """Return the board over the small fabric."""
    empty.fill({"findings": FINDINGS} | inventory_rows() | telemetry_rows() | pipeline_rows())
    return empty


def test_every_query_answers_with_its_columns_and_is_not_empty(board: Board) -> None:
    """No panel is blank where there is something to show, and none relies on a column that is not there."""
    for name, query in QUERIES.items():
        rows = board.ask(query)
        assert rows, name
        assert tuple(rows[0]) == query.columns, name


def test_every_query_runs_on_empty_tables(empty: Board) -> None:
    """A new installation shows an empty board and no error."""
    for query in QUERIES.values():
        empty.ask(query, pods=("",))


def test_open_findings_are_the_newest_revisions_of_what_is_true(board: Board) -> None:
    """What is over, retracted, shadow or yet to come is not there; causes come first, the gravest on top."""
    rows = board.ask(queries.OPEN_FINDINGS)
    assert [row["id"] for row in rows] == ["critical", "elsewhere", "warning", "homeless", "child"]
    assert rows[0]["summary"] == "still down"
    assert rows[0]["lasts"] == "5 minutes"
    assert [rows[0]["runbook"], rows[2]["runbook"]] == ["docs/runbooks/link-down.md", "https://x/flap"]
    assert board.ask(queries.CRITICAL_COUNT) == [{"critical": 1}]
    assert board.ask(queries.OTHER_COUNT) == [{"warning": 2, "info": 1, "explained": 1}]


def test_the_past_is_shown_as_it_was(board: Board) -> None:
    """With the view ending earlier, what was open then is open."""
    assert [row["id"] for row in board.ask(queries.OPEN_FINDINGS, to=NOW - 450)] == ["over"]


def test_a_chosen_pod_hides_the_others(board: Board) -> None:
    """The variable reaches findings, health and coverage."""
    assert [row["id"] for row in board.ask(queries.OPEN_FINDINGS, pods=("pod-2",))] == ["elsewhere"]
    assert {row["place"] for row in board.ask(queries.HEALTH, pods=("pod-2",))} == {"pod-2 fabric"}
    assert {row["pod"] for row in board.ask(queries.COVERAGE, pods=("pod-2",))} == {"pod-2"}
    assert [row["pod"] for row in board.ask(queries.PODS)] == [queries.NONE, "pod-1", "pod-2"]


def test_health_shows_the_worst_and_tells_unseen_from_well(board: Board) -> None:
    """Rail 4 was critical in its time, rail 5 never ill; a pod that nobody heard is neither."""
    rows = board.ask(queries.HEALTH, interval_s=60)
    place: dict[str, list[int]] = {}
    for row in rows:
        place.setdefault(row["place"], []).append(row["health"])
    assert place["pod-1 rail 5"] == place["pod-1 fabric"] == [0] * 10
    # over: 500 to 400 s before the end; critical: from 300 s before it.
    assert place["pod-1 rail 4"] == [0, 3, 3, 3, 0, 3, 3, 3, 3, 3]
    assert place["pod-2 fabric"] == [0] * 8 + [2, 2]
    board.fill(
        {
            "inventory_links": [
                {"digest": "new", "effective_at": at(1000), "arrived_at": at(0), "pod": "pod-3", "rail": 0}
            ]
        }
    )
    unseen = [row["health"] for row in board.ask(queries.HEALTH, pods=("pod-3",), interval_s=60)]
    assert unseen == [-1] * 10


def test_coverage_counts_what_is_expected_and_not_only_what_is_heard(board: Board) -> None:
    """leaf-1 fell silent, host-3 was never heard; an older and a later inventory's devices are not expected."""
    by_source = {(row["pod"], row["source"]): row for row in board.ask(queries.COVERAGE)}
    assert {key: (row["expected"], row["seen"], row["stale"]) for key, row in by_source.items()} == {
        ("pod-1", "gnmi"): (2, 1, 1),
        ("pod-2", "gnmi"): (1, 1, 0),
        ("pod-2", queries.NONE): (1, 0, 1),
    }
    assert board.ask(queries.COVERAGE_COUNT) == [{"seen": 0.5}]
    stale = {row["device"]: row for row in board.ask(queries.STALE)}
    assert set(stale) == {"leaf-1", "host-3"}
    assert (stale["leaf-1"]["silent_for"], stale["leaf-1"]["error"]) == ("2 minutes and 1 second", "connection refused")
    assert (stale["host-3"]["last_sample"], stale["host-3"]["silent_for"]) == (None, "")


def test_a_finding_is_explained_by_its_evidence(board: Board) -> None:
    """The newest revision's words and each line of evidence; what it does not say is left out."""
    rows = [(row["what"], row["said"]) for row in board.ask(queries.EXPLAIN)]
    assert rows[:4] == [
        ("summary", "still down"),
        ("state", "updated, critical, revision 2"),
        ("evidence", "carrier lost"),
        ("evidence", "both ends"),
    ]
    assert "explained by" not in dict(rows)


def test_lag_backlog_and_rates_are_those_of_the_rows(board: Board) -> None:
    """2 s behind, 5 records in each of two partitions, 100 records a second in each, 8 rows a message."""
    assert {row["lag"] for row in board.ask(queries.WATERMARK_LAG)} == {2}
    assert {int(row["behind"]) for row in board.ask(queries.BEHIND)} == {10}
    rates = sorted(row["rate"] for row in board.ask(queries.STAGE_RATE, interval_s=60) if row["stage"] == "measure")
    # Each owner's first word has nothing before it; every other minute is exact.
    assert rates[-6:] == [200] * 6 and rates[0] >= 0
    assert max(row["rate"] for row in board.ask(queries.ROW_RATE, interval_s=60)) == pytest.approx(3 * 8 / 10)
    assert {row["delay"] for row in board.ask(queries.ARRIVAL_DELAY)} == {0.5}


def test_the_sinks_delay_is_against_the_clock(board: Board) -> None:
    """The newest row is as old as the view's end."""
    (row,) = board.ask(queries.SINK_DELAY)
    assert row["delay"] == pytest.approx(time.time() - NOW, abs=5)


def test_the_last_word_on_a_remediation_is_shown(board: Board) -> None:
    """One row an intent, with the guard that bound it."""
    (row,) = board.ask(queries.REMEDIATIONS)
    assert (row["verdict"], row["constraint"], row["limit"], row["surviving_percent"]) == (
        "denied",
        "surviving-capacity",
        0.75,
        50,
    )


def test_rejected_messages_are_counted_by_reason(board: Board) -> None:
    """Three of a kind are one row."""
    assert board.ask(queries.REJECTED_COUNT) == [{"rejected": 3}]
    assert [(row["reason"], row["times"]) for row in board.ask(queries.REJECTED)] == [("not a Samples", 3)]

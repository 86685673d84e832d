"""Tests every query of the Fabric dashboard on the real tables and on a small fabric with known results."""

import time

import pytest

from dashboards import queries
from dashboards.queries import Query
from tests.integration.dashboards.fabric import NOW, Board, at

QUERIES = {name: query for name, query in vars(queries).items() if isinstance(query, Query)}


def test_every_query_returns_its_columns_and_rows(board: Board) -> None:
    """No panel is blank if there are data, and none uses a missing column."""
    for name, query in QUERIES.items():
        rows = board.ask(query)
        assert rows, name
        assert tuple(rows[0]) == query.columns, name


def test_every_query_runs_on_empty_tables(empty: Board) -> None:
    """A new installation shows an empty dashboard and no error."""
    for query in QUERIES.values():
        empty.ask(query, pods=("",))


def test_open_findings_are_the_newest_revisions(board: Board) -> None:
    """Closed, retracted, shadow and future findings are not listed; roots come first, by severity."""
    rows = board.ask(queries.OPEN_FINDINGS)
    assert [row["id"] for row in rows] == ["critical", "elsewhere", "warning", "homeless", "child"]
    assert rows[0]["summary"] == "still down"
    assert rows[0]["lasts"] == "5 minutes"
    assert [rows[0]["runbook"], rows[2]["runbook"]] == [
        "https://git/docs/runbooks/link-down.md",
        "https://git/docs/runbooks/link-flap.md",
    ]
    assert board.ask(queries.CRITICAL_COUNT) == [{"critical": 1}]
    assert board.ask(queries.OTHER_COUNT) == [{"warning": 2, "info": 1, "explained": 1}]


def test_a_past_view_shows_the_past_state(board: Board) -> None:
    """With the view ending earlier, findings that were open then are open."""
    assert [row["id"] for row in board.ask(queries.OPEN_FINDINGS, to=NOW - 450)] == ["over"]


def test_a_chosen_pod_hides_the_others(board: Board) -> None:
    """The variable filters findings, health and coverage."""
    assert [row["id"] for row in board.ask(queries.OPEN_FINDINGS, pods=("pod-2",))] == ["elsewhere"]
    assert {row["place"] for row in board.ask(queries.HEALTH, pods=("pod-2",))} == {"pod-2 fabric"}
    assert {row["pod"] for row in board.ask(queries.COVERAGE, pods=("pod-2",))} == {"pod-2"}
    assert [row["pod"] for row in board.ask(queries.PODS)] == [queries.NONE, "pod-1", "pod-2"]


def test_health_shows_the_worst_severity_and_separates_unobserved_from_healthy(board: Board) -> None:
    """Rail 4 was critical in that time, rail 5 never faulty; a pod without reports is neither."""
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


def test_coverage_is_relative_to_the_expected_devices(board: Board) -> None:
    """leaf-1 became silent, host-3 never reported; devices of older and later inventories are not expected."""
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


def test_a_finding_is_shown_with_its_evidence(board: Board) -> None:
    """The newest revision's fields and each line of evidence; absent fields are omitted."""
    rows = [(row["item"], row["value"]) for row in board.ask(queries.EXPLAIN)]
    assert rows[:4] == [
        ("summary", "still down"),
        ("state", "updated, critical, revision 2"),
        ("evidence", "carrier lost"),
        ("evidence", "both ends"),
    ]
    assert "explained by" not in dict(rows)


def test_lag_backlog_and_rates_are_those_of_the_rows(board: Board) -> None:
    """The stage is 2 s behind; each of two partitions has 5 records and 100 records/s; a message has 8 rows."""
    assert {row["lag"] for row in board.ask(queries.WATERMARK_LAG)} == {2}
    assert {int(row["behind"]) for row in board.ask(queries.BEHIND)} == {10}
    rates = sorted(row["rate"] for row in board.ask(queries.STAGE_RATE, interval_s=60) if row["stage"] == "measure")
    # The first message of each owner has no predecessor; every other minute is exact.
    assert rates[-6:] == [200] * 6 and rates[0] >= 0
    assert max(row["rate"] for row in board.ask(queries.ROW_RATE, interval_s=60)) == pytest.approx(3 * 8 / 10)
    assert {row["delay"] for row in board.ask(queries.ARRIVAL_DELAY)} == {0.5}


def test_the_sinks_delay_is_measured_against_the_clock(board: Board) -> None:
    """The newest row is as old as the view's end."""
    (row,) = board.ask(queries.SINK_DELAY)
    assert row["delay"] == pytest.approx(time.time() - NOW, abs=5)


def test_the_last_revision_of_a_remediation_is_shown(board: Board) -> None:
    """Each intent has one row, with the guard that denied it."""
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

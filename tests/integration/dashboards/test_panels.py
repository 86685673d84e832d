"""Tests what a person sees on the Fabric dashboard: healthy, faulty, not observed, without a pipeline, without data."""

import json
from typing import Any

import pytest

from dashboards.__main__ import BOARDS, FOLDER
from dashboards.board import FILTERS, shown_queries
from dashboards.looks import CRITICAL, HEALTHY, INFO, UNKNOWN, UNOBSERVED, WARNING
from lab.preview.reading import Shown, View, opened, stat, state
from tests.integration.dashboards.fabric import FROM, NOW, Board, at, finding, inventory_rows, pipeline_rows

STATS = ("Critical", "Other open findings", "Sources observed", "Not collected", "Findings lag")


@pytest.fixture
def fabric() -> dict[str, Any]:
    """Return the Fabric dashboard as Grafana reads it."""
    return dict(json.loads((FOLDER / "fabric.json").read_text()))


def panel(fabric: dict[str, Any], title: str) -> dict[str, Any]:
    (found,) = (one for one in fabric["panels"] if one["title"] == title)
    return dict(found)


def rows_of(fabric: dict[str, Any], title: str, board: Board, to: int = NOW) -> list[dict[str, Any]]:
    """Return the rows of a panel on a dashboard that was just opened."""
    view = opened(fabric, board.run, View(FROM, to, 60, {}))
    (target,) = panel(fabric, title)["targets"]
    return board.run(view.expand(target["rawSql"]))


def colors(fabric: dict[str, Any], board: Board, to: int = NOW) -> dict[str, list[str]]:
    """Return the colors of the stat panels."""
    return {
        title: [tile.color for tile in stat(panel(fabric, title), rows_of(fabric, title, board, to))] for title in STATS
    }


def places(fabric: dict[str, Any], board: Board) -> dict[str, Shown]:
    """Return the last state of each place."""
    title = "Health over time"
    return {row["place"]: state(panel(fabric, title), float(row["health"])) for row in rows_of(fabric, title, board)}


def samples(*devices: str) -> list[dict[str, Any]]:
    return [
        {"device": device, "source": "gnmi", "rows": 8, "sampled_at": at(s + 0.5), "arrived_at": at(s)}
        for device in devices for s in range(0, 600, 10)
    ]  # fmt: skip


def status(*devices: str) -> list[dict[str, Any]]:
    return [
        {"device": device, "source": "gnmi", "at": at(600), "reachable": True, "cadence_ns": 10_000_000_000,
         "arrived_at": at(600)}
        for device in devices
    ]  # fmt: skip


ALL = ("host-1", "leaf-1", "host-2", "host-3")


def test_a_healthy_fabric_is_green(fabric: dict[str, Any], empty: Board) -> None:
    """Every device is read, nothing is open, nothing was rejected."""
    healthy = pipeline_rows() | {"rejected": []}
    tables = healthy | inventory_rows() | {"sample_messages": samples(*ALL), "collector_status": status(*ALL)}
    empty.fill({name: rows for name, rows in tables.items() if rows})
    assert set(places(fabric, empty).values()) == {Shown("healthy", HEALTHY)}
    shown = colors(fabric, empty)
    delay = shown.pop("Findings lag")  # its age is against the clock: the rows are a minute old
    assert {color for tiles in shown.values() for color in tiles} == {HEALTHY}
    assert delay in ([HEALTHY], [WARNING], [CRITICAL])


def test_faults_have_the_color_of_their_severity(fabric: dict[str, Any], board: Board) -> None:
    """A critical finding, warnings, a device that no collector reads, a rejected message."""
    shown = colors(fabric, board)
    assert shown["Critical"] == [CRITICAL]
    assert shown["Other open findings"] == [WARNING] * 3
    assert (shown["Sources observed"], shown["Not collected"]) == ([CRITICAL], [INFO])
    assert places(fabric, board)["pod-1 rail 4"] == Shown("critical", CRITICAL)
    assert places(fabric, board)["pod-2 fabric"] == Shown("warning", WARNING)


def test_without_a_pipeline_no_count_is_green(fabric: dict[str, Any], board: Board) -> None:
    """Two minutes after the last progress, a count of zero proves nothing."""
    board.fill({"findings": [finding("new", "critical", 1)]})
    shown = colors(fabric, board, to=NOW + 200)
    grey = {title for title in STATS if shown[title] == [UNOBSERVED] * len(shown[title])}
    assert {"Critical", "Other open findings"} <= grey
    assert HEALTHY not in {color for title in STATS if title != "Findings lag" for color in shown[title]}


def test_without_data_and_without_clickhouse_everything_is_grey(fabric: dict[str, Any], empty: Board) -> None:
    """A new installation, and a failed query: unknown, in grey."""
    assert {color for tiles in colors(fabric, empty).values() for color in tiles} == {UNOBSERVED}
    for title in STATS:
        assert stat(panel(fabric, title), None) == [Shown(UNKNOWN, UNOBSERVED)]
    assert state(panel(fabric, "Health over time"), None).color == UNOBSERVED


def test_ad_hoc_filters_select_findings_by_their_newest_revision(fabric: dict[str, Any], board: Board) -> None:
    """Counts, tables and places show what matches; a finding that once was critical is none."""
    eased = [finding("eased", "critical", 80), finding("eased", "warning", 80, revision=2, rail=5)]
    board.fill({"findings": eased})

    def shown(title: str, filters: str) -> list[dict[str, Any]]:
        view = opened(fabric, board.run, View(FROM, NOW, 60, {}), {"filters": filters})
        (target,) = panel(fabric, title)["targets"]
        return board.run(view.expand(target["rawSql"]))

    def ids(filters: str) -> set[str]:
        return {row["id"] for row in shown("Open findings", filters)}

    assert ids('severity="critical"') == {"critical"}
    assert ids('severity="warning",pod="pod-1"') == {"child", "warning", "eased"}
    assert ids('severity!="info",pod!="pod-1"') == {"elsewhere"}
    assert (ids('detector=~"flap"'), ids('detector!~"link"')) == ({"warning"}, set())
    assert ids('severity<"info"') == ids('summary!="x"') == ids('pod="it\'s"') == set(), "not known: no match"
    assert shown("Critical", 'severity="warning"') == [{"critical": 0}]
    places = {(row["pod"], row["place"]): row["health"] for row in shown("Health by pod and rail", 'pod="pod-2"')}
    assert places["pod-1", "rail 4"] == 0 and places["pod-2", "fabric"] == 2, "what devices report is not filtered"


@pytest.mark.parametrize("name", [name for name in BOARDS if "adhoc" in (FOLDER / f"{name}.json").read_text()])
def test_every_panel_takes_every_filter_that_is_offered(name: str, board: Board) -> None:
    """The columns of the list are those of each table and view that the boards filter; it has values of each."""
    made = json.loads((FOLDER / f"{name}.json").read_text())
    (offered,) = (one["query"] for one in made["templating"]["list"] if one["type"] == "constant")
    rows = board.run(offered)
    assert tuple(rows[0]) == FILTERS
    values = {column: sorted({row[column] for row in rows} - {None}) for column in FILTERS}
    assert values["severity"] == ["critical", "info", "warning"] and values["detector"] == ["link/down", "link/flap"]
    chosen = ",".join(f'{column}=~"x"' for column in FILTERS)
    view = opened(made, board.run, View(FROM, NOW, 60, {}), {"filters": chosen})
    for sql in shown_queries(made):
        board.run(view.expand(sql))


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_over_empty_tables_has_no_invalid_query(name: str, empty: Board) -> None:
    """A new installation shows empty boards and no error, though no variable has an option."""
    made = json.loads((FOLDER / f"{name}.json").read_text())
    view = opened(made, empty.run, View(FROM, NOW, 60, {}))
    for sql in shown_queries(made):
        empty.run(view.expand(sql))

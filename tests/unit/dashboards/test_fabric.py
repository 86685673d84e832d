"""The Fabric board: current, valid, and whole."""

import json
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from dashboards import queries
from dashboards.clickhouse import PLUGIN
from dashboards.fabric import FILE, UID, as_json
from dashboards.queries import Query
from tests.recordings import DATA

SCHEMA = DATA / "interop/grafana-dashboard.jsonschema.json"
PROVISIONING = FILE.parents[1] / "provisioning"


@pytest.fixture
def board() -> dict[str, Any]:
    """Return the board as Grafana reads it."""
    return dict(json.loads(FILE.read_text()))


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def test_the_file_is_what_the_code_makes() -> None:
    """`python -m dashboards.fabric` was run after the last change."""
    assert FILE.read_text() == as_json()


@pytest.mark.skipif(not SCHEMA.exists(), reason="Grafana's schema is not on this machine")
def test_the_board_is_valid_against_grafanas_schema(board: dict[str, Any]) -> None:
    """Grafana's own description of a dashboard finds nothing wrong, and would find a wrong key."""
    validator = Draft7Validator(json.loads(SCHEMA.read_text()))
    assert [error.message for error in validator.iter_errors(board)] == []
    assert list(validator.iter_errors(board | {"pannels": []}))


def test_every_query_is_on_the_board_and_no_other(board: dict[str, Any]) -> None:
    """Every query of queries.py is shown, and everything shown is tested with it."""
    shown = {target["rawSql"] for panel in panels(board) for target in panel["targets"]}
    shown |= {one["query"] for one in board["templating"]["list"] if one["type"] == "query"}
    assert shown == {query.sql for query in vars(queries).values() if isinstance(query, Query)}


def test_every_panel_is_explained_and_asks_the_chosen_source(board: dict[str, Any]) -> None:
    """A person who sees it for the first time reads what it is; no data source of ours is wired in."""
    for panel in panels(board):
        assert panel["description"].endswith(".")
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert sources == [{"type": PLUGIN, "uid": "${datasource}"}] * 2


def test_series_are_drawn_and_tables_are_not(board: dict[str, Any]) -> None:
    """The plugin's format fits the panel's kind."""
    for panel in panels(board):
        drawn = panel["type"] in ("timeseries", "state-timeline")
        assert [target["format"] for target in panel["targets"]] == [0 if drawn else 1]


def test_panels_do_not_overlap_and_fill_the_width(board: dict[str, Any]) -> None:
    """Each cell of the grid has one panel at most."""
    cells = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert {x for x, _ in cells} == set(range(24))
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_findings_lead_to_their_explanation_and_runbook(board: dict[str, Any]) -> None:
    """A row's links open this board on that finding, and its runbook; both come from columns that the query has."""
    (open_findings,) = (panel for panel in panels(board) if panel["title"] == "Open findings")
    links = {link["title"]: link["url"] for link in open_findings["fieldConfig"]["defaults"]["links"]}
    assert links["Runbook"] == "${__data.fields.runbook}"
    assert links["Explain"].startswith(f"/d/{UID}?var-finding=${{__data.fields.id}}&")
    assert {"runbook", "id"} <= set(queries.OPEN_FINDINGS.columns)


def test_one_can_choose_pod_severity_source_and_finding(board: dict[str, Any]) -> None:
    """The variables are those that the queries use."""
    assert [one["name"] for one in board["templating"]["list"]] == [
        "datasource",
        "pod",
        "severity",
        "finding",
        "runbooks",
    ]
    severities = next(one for one in board["templating"]["list"] if one["name"] == "severity")
    assert severities["query"] == "critical,warning,info" and severities["includeAll"] and severities["multi"]


def test_provisioning_names_the_plugin_and_takes_secrets_from_files() -> None:
    """Grafana starts with the source and the folder of boards; no password is in the repository."""
    (source,) = yaml.safe_load((PROVISIONING / "datasources/clickhouse.yml").read_text())["datasources"]
    assert source["type"] == PLUGIN
    assert source["jsonData"]["defaultDatabase"] == "railsight"
    assert source["secureJsonData"]["password"].startswith("$__file{")
    (provider,) = yaml.safe_load((PROVISIONING / "dashboards/railsight.yml").read_text())["providers"]
    assert provider["type"] == "file" and provider["options"]["path"] == "/var/lib/grafana/dashboards"

"""The dashboards: current, valid, and whole."""

import json
import re
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from dashboards import queries
from dashboards.__main__ import BOARDS, FOLDER
from dashboards.board import FINDING_UID, as_json, shown_queries
from dashboards.clickhouse import PLUGIN
from dashboards.panels import UNOBSERVED
from dashboards.queries import Query
from tests.fakes.grafana_panels import selected
from tests.recordings import DATA

SCHEMA = DATA / "interop/grafana-dashboard.jsonschema.json"
PROVISIONING = FOLDER.parent / "provisioning"


def read(name: str) -> dict[str, Any]:
    """Return a board as Grafana reads it."""
    return dict(json.loads((FOLDER / f"{name}.json").read_text()))


@pytest.fixture(params=BOARDS)
def board(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return each board."""
    return read(request.param)


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("name", BOARDS)
def test_the_file_is_what_the_code_makes(name: str) -> None:
    """`python -m dashboards` was run after the last change, and the folder has no other file."""
    assert (FOLDER / f"{name}.json").read_text() == as_json(BOARDS[name]())
    assert {path.stem for path in FOLDER.glob("*.json")} == set(BOARDS)


@pytest.mark.skipif(not SCHEMA.exists(), reason="Grafana's schema is not on this machine")
def test_the_board_is_valid_against_grafanas_schema(board: dict[str, Any]) -> None:
    """Grafana's own description of a dashboard finds nothing wrong, and would find a wrong key.

    It refuses every override of a column, so these are left out.
    """
    for panel in panels(board):
        panel["fieldConfig"]["overrides"] = []
    validator = Draft7Validator(json.loads(SCHEMA.read_text()))
    assert [error.message for error in validator.iter_errors(board)] == []
    assert list(validator.iter_errors(board | {"pannels": []}))


def test_every_query_is_on_a_board_and_no_other() -> None:
    """Every query of queries.py is shown, and everything shown is tested with it."""
    shown = {sql for name in BOARDS for sql in shown_queries(read(name))}
    assert shown == {query.sql for query in vars(queries).values() if isinstance(query, Query)}


def test_every_panel_is_explained_and_reads_the_selected_source(board: dict[str, Any]) -> None:
    """A person who sees it for the first time reads what it is; no data source of ours is wired in."""
    for panel in panels(board):
        assert panel["description"].endswith(".")
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert sources == [{"type": PLUGIN, "uid": "${datasource}"}] * 2


def test_absence_of_data_is_grey_and_has_a_text(board: dict[str, Any]) -> None:
    """No panel is green without a value, and a table without rows has a sentence instead of "No data"."""
    for panel in panels(board):
        defaults = panel["fieldConfig"]["defaults"]
        if panel["type"] == "stat":
            assert defaults["thresholds"]["steps"][0] == {"color": UNOBSERVED, "value": None}, panel["title"]
        if panel["type"] in ("stat", "table", "state-timeline"):
            assert defaults["noValue"], panel["title"]


def test_every_column_of_a_table_has_a_title_and_a_look(board: dict[str, Any]) -> None:
    """No raw name is shown, and the columns with a width fit 24 units of 1,366 pixels."""
    for panel in panels(board):
        if panel["type"] != "table":
            continue
        (query,) = (
            q for q in vars(queries).values() if isinstance(q, Query) and q.sql == panel["targets"][0]["rawSql"]
        )
        looks = {
            one["matcher"]["options"]: {own["id"]: own["value"] for own in one["properties"]}
            for one in panel["fieldConfig"]["overrides"]
        }
        assert tuple(looks) == query.columns
        visible = {name: look for name, look in looks.items() if not look.get("custom.hidden")}
        assert all("displayName" in look for look in visible.values())
        fixed = sum(look.get("custom.width", 100) for look in visible.values())
        assert fixed <= 1366, panel["title"]


def test_a_board_that_was_just_opened_has_a_value_of_each_variable(board: dict[str, Any]) -> None:
    """A text box without a value would expand to nothing, and its queries would not parse."""
    values = selected(board, {"pod": ("pod-1",)})
    used = {name for sql in shown_queries(board) for name in re.findall(r"\$\{(\w+):", sql)}
    assert used <= set(values)
    without = {**board, "templating": {"list": [{"type": "textbox", "name": "finding"}]}}
    with pytest.raises(LookupError, match="finding"):
        selected(without, {})


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


def test_findings_lead_to_their_explanation_and_runbook() -> None:
    """A row's links open the board of the finding, and its runbook; both come from columns that the query has."""
    (open_findings,) = (panel for panel in panels(read("fabric")) if panel["title"] == "Open findings")
    (links,) = (
        {link["title"]: link["url"] for link in own["value"]}
        for override in open_findings["fieldConfig"]["overrides"] if override["matcher"]["options"] == "summary"
        for own in override["properties"] if own["id"] == "links"
    )  # fmt: skip
    assert links["Runbook"] == "${__data.fields.runbook}"
    assert links["Explain"].startswith(f"/d/{FINDING_UID}?var-finding=${{__data.fields.id}}&")
    assert "${runbooks:queryparam}" in links["Explain"]
    assert {"runbook", "id"} <= set(queries.OPEN_FINDINGS.columns)
    assert read("finding")["uid"] == FINDING_UID
    assert f"/d/{FINDING_UID}?" in queries.OPEN_FINDINGS.sql


def test_findings_can_be_selected() -> None:
    """By pod, severity, device, rail, job and team; everything is shown at first."""
    variables = {one["name"]: one for one in read("fabric")["templating"]["list"]}
    assert list(variables) == ["datasource", "pod", "severity", "device", "rail", "job", "team", "runbooks"]
    assert variables["severity"]["query"] == "critical,warning,info"
    assert all(variables[name]["includeAll"] and variables[name]["multi"] for name in ("pod", "severity"))


def test_critical_findings_and_remediations_are_annotations() -> None:
    """With the query in the target, where the data source reads it."""
    drawn = {one["name"]: one["target"]["rawSql"] for one in read("fabric")["annotations"]["list"]}
    assert drawn == {"Critical findings": queries.CRITICAL_TIMES.sql, "Remediations": queries.REMEDIATION_TIMES.sql}


def test_provisioning_names_the_plugin_and_takes_secrets_from_files() -> None:
    """Grafana starts with the source and the folder of boards; no password is in the repository."""
    (source,) = yaml.safe_load((PROVISIONING / "datasources/clickhouse.yml").read_text())["datasources"]
    assert source["type"] == PLUGIN
    assert source["jsonData"]["defaultDatabase"] == "railsight"
    assert source["secureJsonData"]["password"].startswith("$__file{")
    (provider,) = yaml.safe_load((PROVISIONING / "dashboards/railsight.yml").read_text())["providers"]
    assert provider["type"] == "file" and provider["options"]["path"] == "/var/lib/grafana/dashboards"

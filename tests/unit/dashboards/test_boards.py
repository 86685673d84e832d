"""The dashboards: current, valid, and whole."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from dashboards import alerts, links, looks
from dashboards.__main__ import ALERTS, BOARDS, FOLDER
from dashboards.board import as_json, opened_panels, shown_queries
from dashboards.clickhouse import PLUGIN
from dashboards.limits import DECIDE, DETECT
from dashboards.looks import UNOBSERVED
from dashboards.queries import fabric as queries
from dashboards.queries.query import FILTERED
from streams.detect.detectors import DETECTORS
from streams.notify import alert
from streams.store.params import SinkParams
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
    return [panel for panel in opened_panels(board) if panel["type"] != "row"]


def overrides(panel: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the overrides of a panel by their field."""
    return {
        one["matcher"]["options"]: {own["id"]: own["value"] for own in one["properties"]}
        for one in panel["fieldConfig"]["overrides"]
    }


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


def test_every_panel_is_explained_and_reads_the_selected_source(board: dict[str, Any]) -> None:
    """A person who sees it for the first time reads what it is; no data source of ours is wired in."""
    for panel in panels(board):
        assert panel["description"].endswith("."), panel["title"]
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert sources == [{"type": PLUGIN, "uid": "${datasource}"}] * (1 + len(panel["targets"]))


def test_absence_of_data_is_grey_and_has_a_text(board: dict[str, Any]) -> None:
    """No panel is green without a value, and none without rows has only "No data"."""
    for panel in panels(board):
        defaults = panel["fieldConfig"]["defaults"]
        if panel["type"] == "stat":
            assert defaults["thresholds"]["steps"][0] == {"color": UNOBSERVED, "value": None}, panel["title"]
        if panel["type"] != "nodeGraph":  # its queries return a placeholder, for Grafana shows an error else
            assert defaults["noValue"], panel["title"]


@pytest.mark.parametrize(
    ("name", "title"), [("rails", "Delivered"), ("rails", "Slowest rail"), ("job", "Traffic against the fabric")]
)
def test_a_chart_of_shares_of_a_speed_names_the_column_that_it_needs(name: str, title: str) -> None:
    """The speed of a link is optional in the inventory; rails that are read would be called unread without it."""
    (panel,) = (one for one in panels(read(name)) if one["title"] == title)
    assert "speed_bps" in panel["fieldConfig"]["defaults"]["noValue"]


def test_every_column_of_a_table_has_a_title_and_fits_a_laptop(board: dict[str, Any]) -> None:
    """No raw name is shown, and the columns with a width fit the panel's share of 1,366 pixels."""
    for panel in panels(board):
        if panel["type"] != "table" or panel.get("transformations"):
            continue
        visible = {name: look for name, look in overrides(panel).items() if not look.get("custom.hidden")}
        assert all("displayName" in look or look.get("custom.width") == 70 for look in visible.values())
        fixed = sum(look.get("custom.width", 80) for look in visible.values())
        assert fixed <= 1366 * panel["gridPos"]["w"] / 24 * 1.1, panel["title"]


def test_every_variable_of_a_query_is_on_the_board(board: dict[str, Any]) -> None:
    """A query with an unknown variable is sent as it is, and fails."""
    known = {one["name"] for one in board["templating"]["list"]}
    used = {name for sql in shown_queries(board) for name in re.findall(r"\$\{(\w+):", sql)}
    assert used <= known
    assert {"datasource", "runbooks"} <= known, "every link passes both on"
    for one in board["templating"]["list"]:
        if one["type"] == "textbox":
            assert one["query"] == "" and one["current"]["value"] == "", "else it expands to nothing"


def test_series_are_drawn_and_tables_are_not(board: dict[str, Any]) -> None:
    """The plugin's format fits the panel's kind."""
    for panel in panels(board):
        drawn = panel["type"] in ("timeseries", "state-timeline")
        assert {target["format"] for target in panel["targets"]} == {0 if drawn else 1}


def test_panels_do_not_overlap_and_rows_are_full(board: dict[str, Any]) -> None:
    """Each cell of the grid has one panel at most, and no row of it has a hole at its right, folded or opened."""
    for shown in (board["panels"], opened_panels(board)):
        _assert_full(shown)
    assert len({panel["id"] for panel in opened_panels(board)}) == len(opened_panels(board))


def _assert_full(shown: list[dict[str, Any]]) -> None:
    cells = [
        (x, y)
        for panel in shown
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert {x for x, _ in cells} == set(range(24))


def test_rows_are_folded_and_the_queries_of_their_panels_wait(board: dict[str, Any]) -> None:
    """Each row has its panels, so that Grafana sends their queries only when a person opens it.

    A panel beside its row, not in it, would be sent and drawn at once.
    """
    for row in (panel for panel in board["panels"] if panel["type"] == "row"):
        assert row["collapsed"] and row["panels"], row["title"]
        tops = [panel["gridPos"]["y"] for panel in row["panels"]]
        assert min(tops) == row["gridPos"]["y"] + 1, "Grafana moves them by the place of the row"


@pytest.mark.parametrize(
    ("name", "metrics"),
    [
        ("link", ("pre_fec_ber", "rx_power_dbm", "pause_rx_frames", "pfc_rx_pause_useconds", "credits_used")),
        ("host", ("pcie_width_lanes", "roce_slow_restarts", "module_temperature_c", "gpu_temperature_c")),
    ],
)
def test_what_only_some_sources_read_is_in_rows_that_state_whether_it_is_read(
    name: str, metrics: tuple[str, ...]
) -> None:
    """A fabric that is read by SNMP has none of these; its boards have no panel that must stay empty."""
    made = read(name)
    open_sql = " ".join(one["rawSql"] for panel in made["panels"] for one in panel.get("targets", ()))
    rows = [panel for panel in made["panels"] if panel["type"] == "row"]
    folded_sql = " ".join(one["rawSql"] for row in rows for panel in row["panels"] for one in panel["targets"])
    for metric in metrics:
        assert metric not in open_sql and metric in folded_sql
    asked = {one["name"]: one["query"] for one in made["templating"]["list"] if one["type"] == "query"}
    for row in rows:
        found = re.search(r"\(\$\{(\w+)\}\)$", row["title"])
        assert found, row["title"]
        in_row = " ".join(one["rawSql"] for panel in row["panels"] for one in panel["targets"])
        given = re.findall(r"(\w+) IS NOT NULL", asked[found[1]]) + re.findall(r"'(\w+_\w+)'", asked[found[1]])
        assert given and all(metric in in_row for metric in given), "it is stated by what its panels show"


def test_boards_refresh_as_often_as_the_sink_stores_progress(board: dict[str, Any]) -> None:
    """A refresh cancels the queries before it: with 10 s a busy server never drew the graph of Fabric."""
    assert board["refresh"] == f"{SinkParams.linger_background_s:g}s"


def test_no_name_of_an_enumeration_is_shown_raw(board: dict[str, Any]) -> None:
    """A cause, an action, a state: gpu off bus, drain link, no answer, as the pages have them."""
    for panel in panels(board):
        looks = overrides(panel)
        for mapping in (one for look in looks.values() for one in look.get("mappings", ())):
            texts = [result["text"] for result in mapping["options"].values() if isinstance(result, dict)]
            assert not any("_" in text for text in texts), panel["title"]
        sql = " ".join(target["rawSql"] for target in panel["targets"])
        for name in {"cause", "action", "step", "verdict"} & looks.keys():
            assert looks[name].get("mappings") or re.search(rf"replaceAll\(.*\)\)? AS {name}\b", sql), panel["title"]
        assert "constraint" not in looks or "'the mode is shadow'" in sql, panel["title"]


def _urls(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("url"), str):
            yield node["url"]
        for value in node.values():
            yield from _urls(value)
    elif isinstance(node, list):
        for value in node:
            yield from _urls(value)


def test_links_lead_to_boards_and_variables_that_exist(board: dict[str, Any]) -> None:
    """A link with another board's uid opens an error, and a variable that a board lacks is ignored."""
    variables = {read(name)["uid"]: {one["name"] for one in read(name)["templating"]["list"]} for name in BOARDS}
    for url in filter(None, _urls(board)):
        if url == "${__data.fields.runbook}":
            continue
        found = re.fullmatch(r"/d/([\w-]+)\?(.*)", url)
        assert found, url
        assert set(re.findall(r"var-(\w+)=", found[2])) <= variables[found[1]], url


def test_links_read_fields_that_the_query_returns(board: dict[str, Any]) -> None:
    """Else Grafana opens the next board with the link's own text."""
    for panel in panels(board):
        sql = " ".join(target["rawSql"] for target in panel["targets"])
        for url in _urls(panel):
            for field in re.findall(r"\$\{__data\.fields\.(\w+)", url):
                assert re.search(rf"\b{field}\b", sql), (panel["title"], field)


@pytest.mark.parametrize(
    ("name", "title", "limit"),
    [
        ("link", "Bit errors before and after FEC", DETECT.degrading.ber),
        ("link", "Time paused", DETECT.storm.paused),
        ("host", "Rails against their peers", DETECT.rail.slow),
        ("host", "GPU heat", DETECT.thermal.gpu_limit_c),
        ("host", "Module heat", DETECT.thermal.module_limit_c),
        ("host", "NICs wait for PCIe", DETECT.rail.stalled),
        ("rails", "Slowest rail", DETECT.rail.slow),
        ("infiniband", "Waiting for credits", DETECT.storm.paused),
        ("congestion", "Uneven uplinks", DETECT.imbalance.uneven),
        ("congestion", "Marks and notifications", DETECT.incast.cnp_per_s),
        ("pipeline", "Watermark lag", DETECT.lateness_s),
    ],
)
def test_limits_are_the_detectors_own(name: str, title: str, limit: float) -> None:
    """A line on a panel is where a finding opens."""
    found = [panel for panel in panels(read(name)) if panel["title"] == title]
    steps = [step["value"] for panel in found for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
    assert limit in steps


def test_the_floor_of_capacity_is_that_of_decide() -> None:
    """The bar of a group changes its color where the guard denies."""
    (panel,) = (one for one in panels(read("remediation")) if one["title"] == "Capacity against the floor")
    steps = overrides(panel)["surviving"]["thresholds"]["steps"]
    assert [step["value"] for step in steps] == [None, DECIDE.capacity_floor]


def test_colors_of_nodes_are_those_of_the_palette() -> None:
    """Each level has an arc with its color and its name, and the query returns all of them."""
    (graph,) = (one for one in panels(read("fabric")) if one["type"] == "nodeGraph")
    arcs = {one["field"]: one["color"] for one in graph["options"]["nodes"]["arcs"]}
    (renamed,) = (one["options"]["renameByName"] for one in graph["transformations"])
    named = {(renamed[arc], color) for arc, color in arcs.items()}
    assert named == set(looks.LEVELS.values()) and arcs.keys() <= set(queries.NODES.columns)


def test_findings_can_be_selected() -> None:
    """By pod, severity, device, rail, job and team; everything is shown at first."""
    variables = {one["name"]: one for one in read("fabric")["templating"]["list"]}
    texts = ["device", "rail", "job", "team"]
    assert list(variables) == ["datasource", "pod", "severity", *texts, "filters", "clickhouse_adhoc_query", "runbooks"]
    assert variables["severity"]["query"] == "critical,warning,info"
    assert all(variables[name]["includeAll"] and variables[name]["multi"] for name in ("pod", "severity"))


def test_ad_hoc_filters_apply_to_findings_only(board: dict[str, Any]) -> None:
    """On a board that has them, every read of findings by the alias has them, and the plugin adds none of its own."""
    kinds = {one["type"]: one["name"] for one in board["templating"]["list"]}
    sent = [target["rawSql"] for panel in panels(board) for target in panel["targets"]]
    sent += [one["target"]["rawSql"] for one in board["annotations"].get("list", ())]
    if "adhoc" not in kinds:
        assert not any("filters" in sql for sql in sent)
        return
    assert (kinds["adhoc"], kinds["constant"]) == ("filters", "clickhouse_adhoc_query"), "the plugin's own name"
    assert all(sql.endswith("\n-- $__adHocFilters('none')") for sql in sent), "with the macro it leaves the query alone"
    filtered = [re.findall(rf"(\w+) AS {FILTERED}\s+WHERE (\(\$\{{filters:sqlstring\}})?", sql) for sql in sent]
    assert any(filtered)
    assert all(table in ("findings", "findings_latest") and filters for reads in filtered for table, filters in reads)


def test_the_path_from_the_wall_to_the_runbook_is_whole() -> None:
    """Wall to pod, pod to link, link to finding, and the runbook of each."""
    path = {name: " ".join(_urls(read(name)["panels"])) for name in ("fabric", "rails", "link")}
    assert links.RAILS in path["fabric"] and "__data.fields.runbook" in path["fabric"]
    assert links.LINK in path["rails"]
    assert links.FINDING in path["link"]
    assert f"/d/{links.FINDING}?" in queries.OPEN_FINDINGS.sql
    assert alert.DASHBOARD_UID == links.FINDING


def test_findings_and_remediations_are_annotations() -> None:
    """With the query in the target, where the data source reads it; without an end, Grafana draws no others either."""
    for name in ("fabric", "finding", "link", "host", "rails", "congestion", "remediation", "job"):
        drawn = read(name)["annotations"]["list"]
        assert drawn and all(" AS timeEnd," in one["target"]["rawSql"] for one in drawn), name


def test_every_detector_has_a_limit_or_a_finding_on_a_board() -> None:
    """No board selects findings of detectors that do not exist."""
    slugs = {detector.slug for detector in DETECTORS}
    used = {
        slug
        for name in BOARDS
        for sql in shown_queries(read(name))
        for slug in re.findall(r"'((?:link|rail|host)/[\w-]+)'", sql)
    }
    assert used <= slugs


def test_provisioning_names_the_plugin_and_takes_secrets_from_files() -> None:
    """Grafana starts with the source and the folder of boards; no password is in the repository."""
    (source,) = yaml.safe_load((PROVISIONING / "datasources/clickhouse.yml").read_text())["datasources"]
    assert source["type"] == PLUGIN
    assert source["jsonData"]["defaultDatabase"] == "railsight"
    assert source["secureJsonData"]["password"].startswith("$__file{")
    (provider,) = yaml.safe_load((PROVISIONING / "dashboards/railsight.yml").read_text())["providers"]
    assert provider["type"] == "file" and provider["options"]["path"] == "/var/lib/grafana/dashboards"


def test_alert_rules_are_for_what_the_pipeline_cannot_report_and_for_critical_findings() -> None:
    """No new row, no ClickHouse, and, paused where an Alertmanager has them, critical findings: on the own source."""
    text = ALERTS.read_text()
    assert text == alerts.rules(), "run python -m dashboards"
    (source,) = yaml.safe_load((PROVISIONING / "datasources/clickhouse.yml").read_text())["datasources"]
    (group,) = json.loads(text)["groups"]
    states = {rule["uid"]: (rule["noDataState"], rule["execErrState"]) for rule in group["rules"]}
    assert states == {
        "railsight-no-new-rows": ("Alerting", "KeepLast"),
        "railsight-no-clickhouse": ("Alerting", "Alerting"),
        "railsight-critical-finding": ("OK", "KeepLast"),
    }, "a dead server is one alert, one failed query ends none and delays none, and no data is none of health"
    for rule in group["rules"]:
        query, threshold = rule["data"]
        assert (query["datasourceUid"], threshold["datasourceUid"]) == (source["uid"], "__expr__")
        assert rule["condition"] == threshold["refId"] and threshold["model"]["expression"] == query["refId"]
        assert query["relativeTimeRange"]["from"] > threshold["model"]["conditions"][0]["evaluator"]["params"][0]
        assert not re.search(r"(?<!\$)\$(?!\$)", json.dumps(rule).replace("$$", "")), "Grafana expands single dollars"

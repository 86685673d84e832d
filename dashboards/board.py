"""Builds the parts that all dashboards have: settings, variables, annotations, and the JSON that Grafana reads."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog import builder as cog_builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from dashboards.clickhouse import PLUGIN, SOURCE, Target
from dashboards.queries.query import FILTERED, Query

COLUMNS = 24
"""The columns of Grafana's grid."""
REFRESH = "30s"
"""The sink stores the stages' progress, without which no count is valid, every 30 s. Grafana cancels the queries that
the next refresh overtakes: with 10 s a busy server never drew the graph of Fabric."""
FILTERS = ("severity", "detector", "cause", "pod", "team", "site", "a_device", "a_port", "z_device", "z_port")
"""The columns of findings that ad-hoc filters offer; all are texts, so that each of Grafana's operators is valid."""
_NAMES = ", ".join(f"'{column}'" for column in FILTERS)
_VALUES = ", ".join(f"toString({column})" for column in FILTERS)
# Grafana passes the filters as severity="critical",pod!="a". An unknown column or operator matches nothing. The
# plugin's additional_table_filters are not used, because the embedded ClickHouse refuses settings that contain SQL.
_MATCHES = f"""(${{filters:sqlstring}} = '' OR arrayAll(
        one -> multiIf(one.1 = '=', one.2 = one.3, one.1 = '!=', one.2 != one.3, one.1 = '=~', match(one.2, one.3),
            one.1 = '!~', NOT match(one.2, one.3), false),
        arrayMap(
            given -> (if(given[1] IN ({_NAMES}), given[2], ''), [{_VALUES}][indexOf([{_NAMES}], given[1])], given[3]),
            extractAllGroupsVertical(${{filters:sqlstring}}, ',?([^=!~<>]*)([=!~<>]+)"([^"]*)"')
        )
    ))"""
_NOT_BY_PLUGIN = "-- $__adHocFilters('none')"
"""Disables the plugin's filters: it would add a filter of the first table to a query without this macro."""
_ALL = dashboard.VariableOption(selected=True, text="All", value="$__all")
_NONE = dashboard.VariableOption(selected=True, text="", value="")


Panel = cog_builder.Builder[dashboard.Panel]
Variable = cog_builder.Builder[dashboard.VariableModel]


def dashboard_of(
    title: str, uid: str, description: str, variables: Sequence[Variable], panels: Iterable[Panel | build.Row],
    marks: Mapping[str, tuple[Query, str]] = MappingProxyType({}),
) -> build.Dashboard:  # fmt: skip
    """Return a dashboard with the data source before the variables, and the runbooks after them.

    `marks` are annotations: name -> the query (time, timeEnd, text, tags) and the color. Grafana 11.6 draws none of a
    panel if the first one has no timeEnd and another one has.
    """
    made = (
        build.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["railsight"])
        .timezone("browser")
        .time("now-1h", "now")
        .refresh(REFRESH)
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .link(_other_boards())
        .readonly()
        .variables([build.DatasourceVariable("datasource").label("ClickHouse").type(PLUGIN), *variables, _runbooks()])
    )
    for name, (query, color) in marks.items():
        mark = build.AnnotationQuery().name(name).datasource(SOURCE).enable(True).icon_color(color)
        # The library's annotations have no target for SQL.
        mark.build().target = Target(query).build()  # type: ignore[assignment]
        made.annotation(mark)
    for panel in panels:
        if isinstance(panel, build.Row):
            made.with_row(panel)
        else:
            made.with_panel(panel)
    return made


def folded(title: str, panels: Iterable[Panel]) -> build.Row:
    """Return a row that a person opens; Grafana sends the queries of its panels only then."""
    row = build.Row(title)
    for panel in panels:
        row.with_panel(panel)
    return row


def _other_boards() -> build.DashboardLink:
    return (
        build.DashboardLink("Boards")
        .type(dashboard.DashboardLinkType.DASHBOARDS)
        .tags(["railsight"])
        .as_dropdown(True)
        .keep_time(True)
    )


def pods(query: Query) -> build.QueryVariable:
    """Return the variable that selects pods; default: all."""
    return choice("pod", "Pod", query).multi(True).include_all(True).current(_ALL)


def choice(name: str, label: str, query: Query, *, hidden: bool = False) -> build.QueryVariable:
    """Return a variable that selects one of a query's values; default: the first."""
    made = build.QueryVariable(name).label(label).datasource(SOURCE).query(query.sql).current(_NONE)
    made.refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
    return made.hide(dashboard.VariableHide.HIDE_VARIABLE) if hidden else made


def severities() -> build.CustomVariable:
    """Return the variable that selects severities."""
    names = "critical,warning,info"
    return build.CustomVariable("severity").label("Severity").values(names).multi(True).include_all(True).current(_ALL)


def text(name: str, label: str, description: str) -> build.TextBoxVariable:
    """Return a text variable that a person types or a link of another board sets; empty selects all."""
    return build.TextBoxVariable(name).label(label).description(description).default_value("").current(_NONE)


def _runbooks() -> build.TextBoxVariable:
    return text(
        "runbooks", "Runbooks at", "URL of the repository's pages, ending in a slash; docs/runbooks is below it."
    )


def finding_filters() -> tuple[build.AdHocVariable, build.ConstantVariable]:
    """Return the ad-hoc filters of findings, and the query from which the plugin lists their values."""
    listed = ", ".join(f"if(n = {n}, one.{column}, NULL) AS {column}" for n, column in enumerate(FILTERS))
    # The plugin lists the values of each column that are not NULL; its parser does not support list literals.
    values = (
        f"SELECT DISTINCT {listed} FROM findings AS one"
        f" CROSS JOIN (SELECT arrayJoin(range(0, {len(FILTERS)})) AS n) AS numbers"
    )
    filters = build.AdHocVariable("filters").label("Findings with").datasource(SOURCE)
    filters.description("Every panel with findings shows, counts and colors those that match.")
    return filters, build.ConstantVariable("clickhouse_adhoc_query").value(values)


def as_json(board: build.Dashboard) -> str:
    """Return a dashboard as Grafana's JSON, with a newline at the end."""
    made: dict[str, Any] = json.loads(json.dumps(board.build(), cls=JSONEncoder))
    for number, panel in enumerate(_flat(made), start=1):
        panel["id"] = number
    _place(made["panels"])
    for row in made["panels"]:
        if row["type"] == "row":
            _place(row["panels"], row["gridPos"]["y"] + 1)
    # Removes fields of old Grafana versions that the library still writes and the present schema lacks.
    made.pop("style", None)
    for variable in made["templating"]["list"]:
        variable.pop("id", None)
        if variable["type"] == "textbox":
            # Without both, the variable expands to nothing, which makes the query invalid.
            variable |= {"query": "", "current": {"selected": True, "text": "", "value": ""}}
        if variable["type"] == "adhoc":
            _apply_filters(made)
    text = json.dumps(made, indent=2, sort_keys=True) + "\n"
    numbers = {panel["title"]: panel["id"] for panel in _flat(made)}
    return re.sub(r"viewPanel=\{([^}]*)\}", lambda found: f"viewPanel={numbers[found[1]]}", text)


def _apply_filters(made: dict[str, Any]) -> None:
    """Apply the ad-hoc filters to each read with the alias FILTERED."""
    queries = [target for panel in _flat(made) for target in panel.get("targets", ())]
    for target in (*queries, *(one["target"] for one in made["annotations"].get("list", ()))):
        sql = re.sub(rf"( AS {FILTERED}\s+WHERE) ", lambda found: f"{found[1]} {_MATCHES} AND ", target["rawSql"])
        target["rawSql"] = f"{sql}\n{_NOT_BY_PLUGIN}"


def _flat(made: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the panels of a dashboard, each row before those in it."""
    for panel in made["panels"]:
        yield panel
        yield from panel.get("panels", ())


def opened_panels(made: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of a dashboard with its rows opened, each in its place; a row is a heading."""
    panels = [{**panel, "gridPos": dict(panel["gridPos"])} for panel in _flat(made)]
    _place(panels)
    return panels


def _place(panels: Sequence[dict[str, Any]], top: int = 0) -> None:
    """Place the panels in their order, each as high as possible, then as far left as possible."""
    used = [top] * COLUMNS
    for panel in panels:
        place = panel["gridPos"]
        tops = [(max(used[x : x + place["w"]]), x) for x in range(COLUMNS - place["w"] + 1)]
        place["y"], place["x"] = min(tops)
        used[place["x"] : place["x"] + place["w"]] = [place["y"] + place["h"]] * place["w"]


def shown_queries(made: dict[str, Any]) -> Sequence[str]:
    """Return the SQL of all panels, variables and annotations of a dashboard."""
    targets = [target for panel in _flat(made) for target in panel.get("targets", ())]
    targets += [one["target"] for one in made["annotations"].get("list", ()) if "rawSql" in one.get("target", {})]
    variables = [one["query"] for one in made["templating"]["list"] if one["type"] == "query"]
    return [*(target["rawSql"] for target in targets), *variables]

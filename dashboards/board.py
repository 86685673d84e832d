"""The parts that all dashboards have: settings, variables, annotations, and the JSON that Grafana reads."""

import json
from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from dashboards import queries
from dashboards.clickhouse import PLUGIN, SOURCE, Target
from dashboards.queries import Query

FINDING_UID = "railsight-finding"
_ALL = dashboard.VariableOption(selected=True, text="All", value="$__all")
_NONE = dashboard.VariableOption(selected=True, text="", value="")


def empty_board(title: str, uid: str, description: str) -> build.Dashboard:
    """Return a dashboard without panels."""
    return (
        build.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["railsight"])
        .timezone("browser")
        .time("now-1h", "now")
        .refresh("10s")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .readonly()
    )


def annotations(name: str, query: Query, color: str) -> build.AnnotationQuery:
    """Return annotations with the columns time, text and tags, and timeEnd where they have a duration."""
    made = build.AnnotationQuery().name(name).datasource(SOURCE).enable(True).icon_color(color)
    # The library has no target of SQL.
    made.build().target = Target(query).build()  # type: ignore[assignment]
    return made


def source() -> build.DatasourceVariable:
    """Return the data source."""
    return build.DatasourceVariable("datasource").label("ClickHouse").type(PLUGIN)


def filters() -> list[Any]:
    """Return the data source and the selections of findings; an empty text selects all."""
    pods = (
        build.QueryVariable("pod")
        .label("Pod")
        .datasource(SOURCE)
        .query(queries.PODS.sql)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .current(_ALL)
    )
    names = "critical,warning,info"
    severities = (
        build.CustomVariable("severity").label("Severity").values(names).multi(True).include_all(True).current(_ALL)
    )
    texts = (
        _text("device", "Device", "The name of a device: findings at it."),
        _text("rail", "Rail", "The number of a rail: findings on it."),
        _text("job", "Job", "The name of a job: findings that affect it."),
        _text("team", "Team", "The name of a team: findings of its devices."),
    )
    return [source(), pods, severities, *texts]


def finding() -> build.TextBoxVariable:
    """Return the finding of the Finding dashboard."""
    return _text("finding", "Finding", "The id of the finding to explain.")


def runbooks() -> build.TextBoxVariable:
    """Return the base of links to runbooks."""
    return _text(
        "runbooks", "Runbooks at", "URL of the repository's pages, ending in a slash; docs/runbooks is below it."
    )


def _text(name: str, label: str, description: str) -> build.TextBoxVariable:
    return build.TextBoxVariable(name).label(label).description(description).default_value("").current(_NONE)


def as_json(board: build.Dashboard) -> str:
    """Return a dashboard as Grafana reads it, ending in a newline."""
    made: dict[str, Any] = json.loads(json.dumps(board.build(), cls=JSONEncoder))
    for number, panel in enumerate(made["panels"], start=1):
        panel["id"] = number
    # Fields of old Grafana that the library still writes and today's schema does not know.
    made.pop("style", None)
    for variable in made["templating"]["list"]:
        variable.pop("id", None)
        if variable["type"] == "textbox":
            # Without both, the variable expands to nothing, which no query can hold.
            variable |= {"query": "", "current": {"selected": True, "text": "", "value": ""}}
    return json.dumps(made, indent=2, sort_keys=True) + "\n"


def shown_queries(made: dict[str, Any]) -> Sequence[str]:
    """Return the SQL of all panels, variables and annotations of a dashboard."""
    targets = [target for panel in made["panels"] for target in panel.get("targets", ())]
    targets += [one["target"] for one in made["annotations"].get("list", ()) if "rawSql" in one.get("target", {})]
    variables = [one["query"] for one in made["templating"]["list"] if one["type"] == "query"]
    return [*(target["rawSql"] for target in targets), *variables]

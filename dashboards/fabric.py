"""The Fabric dashboard: what is broken, since when, who is hit, and how much of the fabric is seen at all.

`python -m dashboards.fabric` writes dashboards/json/fabric.json, which Grafana is provisioned with; a test holds the
two together. What is asked is in queries.py, how it looks in panels.py; here is only the order on the board.
"""

import json
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from dashboards import queries
from dashboards.clickhouse import PLUGIN, SOURCE
from dashboards.panels import GREEN, ORANGE, RED, series, stat, table, timeline

UID = "railsight-fabric"
FILE = Path(__file__).parent / "json/fabric.json"


def board() -> build.Dashboard:
    """Return the whole dashboard."""
    made = (
        build.Dashboard("Fabric")
        .uid(UID)
        .description("Open findings, health by pod and rail, coverage, and how far behind the pipeline is.")
        .tags(["railsight"])
        .timezone("browser")
        .time("now-1h", "now")
        .refresh("10s")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .variables([_source(), _pods(), _severities(), _finding(), _runbooks()])
    )
    _now(made)
    _findings(made)
    _coverage(made)
    _pipeline(made)
    return made


def as_json() -> str:
    """Return the dashboard as Grafana reads it, ending in a newline."""
    made: dict[str, Any] = json.loads(json.dumps(board().build(), cls=JSONEncoder))
    for number, panel in enumerate(made["panels"], start=1):
        panel["id"] = number
    # Fields of old Grafana that the library still writes and today's schema does not know.
    made.pop("style", None)
    for variable in made["templating"]["list"]:
        variable.pop("id", None)
    return json.dumps(made, indent=2, sort_keys=True) + "\n"


def _source() -> build.DatasourceVariable:
    return build.DatasourceVariable("datasource").label("ClickHouse").type(PLUGIN)


def _pods() -> build.QueryVariable:
    return (
        build.QueryVariable("pod")
        .label("Pod")
        .datasource(SOURCE)
        .query(queries.PODS.sql)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .current(_ALL)
    )


def _severities() -> build.CustomVariable:
    names = "critical,warning,info"
    return build.CustomVariable("severity").label("Severity").values(names).multi(True).include_all(True).current(_ALL)


def _finding() -> build.TextBoxVariable:
    return build.TextBoxVariable("finding").label("Finding").description("The id of the finding to explain.")


def _runbooks() -> build.TextBoxVariable:
    description = "Base URL of the repository, ending in a slash; runbook paths are appended to it."
    return build.TextBoxVariable("runbooks").label("Runbooks at").description(description)


_ALL = dashboard.VariableOption(selected=True, text="All", value="$__all")


def _now(made: build.Dashboard) -> None:
    made.with_row(build.Row("Now"))
    made.with_panel(
        stat(
            "Critical",
            "Open findings that no other explains.",
            queries.CRITICAL_COUNT,
            [(None, GREEN), (1, RED)],
        )
    )
    made.with_panel(
        stat(
            "Other open findings",
            "By severity; explained are those that another open finding explains.",
            queries.OTHER_COUNT,
            [(None, GREEN), (1, ORANGE)],
            width=8,
        )
    )
    made.with_panel(
        stat(
            "Sources seen",
            "Of all sources that the inventory and the collectors make us expect. What is not seen is not healthy.",
            queries.COVERAGE_COUNT,
            [(None, RED), (0.95, ORANGE), (1, GREEN)],
            unit="percentunit",
        )
    )
    made.with_panel(
        stat(
            "Sink delay",
            "The age of the newest row: everything on this board is older than that.",
            queries.SINK_DELAY,
            [(None, GREEN), (15, ORANGE), (60, RED)],
            unit="s",
        )
    )
    made.with_panel(
        stat(
            "Rejected messages",
            "What could not be read; see the table at the end.",
            queries.REJECTED_COUNT,
            [(None, GREEN), (1, ORANGE)],
        )
    )
    made.with_panel(
        timeline(
            "Health by pod and rail",
            "The worst open finding of each place; unobserved if no device of the pod reported.",
            queries.HEALTH,
        )
    )


def _findings(made: build.Dashboard) -> None:
    made.with_row(build.Row("Findings"))
    made.with_panel(
        table(
            "Open findings",
            "Causes first, the gravest on top. Click a row to have it explained below, or to open its runbook.",
            queries.OPEN_FINDINGS,
            links={"Explain": _EXPLAIN_URL, "Runbook": "${__data.fields.runbook}"},
            height=10,
            width=24,
        )
    )
    made.with_panel(
        table(
            "The finding, explained",
            "The evidence of the finding whose id is selected above; railsight explain ID prints the same.",
            queries.EXPLAIN,
        )
    )
    made.with_panel(
        series("Findings opened", "Episodes by the time they began.", queries.OPENED, bars=True),
    )
    made.with_panel(
        table(
            "Remediations",
            "The decision for automation, and for a denial the constraint, its limit and the observed value.",
            queries.REMEDIATIONS,
            width=24,
        )
    )


_EXPLAIN_URL = (
    f"/d/{UID}?var-finding=${{__data.fields.id}}&${{__url_time_range}}&${{pod:queryparam}}&${{severity:queryparam}}"
)


def _coverage(made: build.Dashboard) -> None:
    made.with_row(build.Row("Coverage"))
    made.with_panel(table("Sources by pod", "Expected, seen, and silent for too long.", queries.COVERAGE))
    made.with_panel(
        table(
            "Silent sources",
            "Silent for three times their cadence, and at least 30 s; without a time: no sample in this range.",
            queries.STALE,
        )
    )


def _pipeline(made: build.Dashboard) -> None:
    made.with_row(build.Row("Pipeline"))
    made.with_panel(
        series("Watermark lag", "How far each stage's event time is behind arrival.", queries.WATERMARK_LAG, unit="s")
    )
    made.with_panel(series("Records behind", "Of each stage's input, not yet read.", queries.BEHIND))
    made.with_panel(series("Records folded", "A second, by stage.", queries.STAGE_RATE, unit="cps"))
    made.with_panel(series("Rows sampled", "A second, by source.", queries.ROW_RATE, unit="cps"))
    made.with_panel(
        series("Device to Kafka", "The 99th percentile, by source.", queries.ARRIVAL_DELAY, unit="s"),
    )
    made.with_panel(table("Rejected", "What could not be read, and why.", queries.REJECTED))


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(as_json())

"""Defines Grafana's alert rules: no new rows in ClickHouse, no ClickHouse, and critical findings.

The pipeline cannot report the first two. The rule of critical findings is for sites where `railsight notify` sends
them to no Alertmanager; elsewhere it would page a second time, so that it is paused. Grafana notifies its own default
contact point.
"""

import json

from dashboards.clickhouse import Target
from dashboards.pipeline import SINK_LIMITS
from dashboards.queries.pipeline import SINK_DELAY
from dashboards.queries.query import KNOWN, OPEN, Query

SOURCE_UID = "railsight-clickhouse"
"""The UID in provisioning/datasources."""
CRITICAL_UID = "railsight-critical-finding"
RANGE_S = 600
LATE_S = SINK_LIMITS[-1][0]
ANSWER = Query("SELECT 1 AS answer", ("answer",))
CRITICAL = Query(
    f"""SELECT detector AS condition, subject_id AS subject, id AS finding, 1 AS open FROM {KNOWN}
WHERE {OPEN} AND severity = 'critical' AND parent_id = ''""",
    ("condition", "subject", "finding", "open"),
)
"""One row, hence one alert, for each critical finding without a parent; the texts are the labels of the alert."""


def _rule(
    uid: str, title: str, summary: str, query: Query, above: float, *, no_data: str, error: str, pending: str = "2m",
    is_paused: bool = False,
) -> dict[str, object]:  # fmt: skip
    """Return a rule that fires if a value of the query is above `above` for the time `pending`."""
    # Grafana expands $NAME in provisioned files from its environment; $$ is a literal dollar.
    model = {**Target(query).build().to_json(), "rawSql": query.sql.replace("$", "$$")}
    del model["datasource"]
    threshold = {
        "refId": "B", "type": "threshold", "expression": "A",
        "conditions": [{"evaluator": {"type": "gt", "params": [above]}}],
    }  # fmt: skip
    return {
        "uid": uid, "title": title, "condition": "B", "for": pending, "isPaused": is_paused,
        "noDataState": no_data, "execErrState": error,
        "data": [
            {"refId": "A", "datasourceUid": SOURCE_UID, "relativeTimeRange": {"from": RANGE_S, "to": 0},
             "model": model},
            {"refId": "B", "datasourceUid": "__expr__", "model": threshold},
        ],
        "annotations": {"summary": summary.replace("$", "$$")},
        "labels": {"severity": "critical", "service": "railsight"},
    }  # fmt: skip


def rules() -> str:
    """Return the content of the file in provisioning/alerting, with a newline at the end."""
    found = [
        _rule(
            "railsight-no-new-rows", "ClickHouse gets no new rows",
            f"The newest row is older than {LATE_S} s, or there was none for {RANGE_S // 60} minutes: boards show the"
            " past. Check `railsight status`, then the sink's log.",
            # OK would begin the two minutes again at each failed query, and end an alert, on a server that is busy.
            SINK_DELAY, LATE_S, no_data="Alerting", error="KeepLast",
        ),
        _rule(
            "railsight-no-clickhouse", "ClickHouse does not answer Grafana",
            "No board has data. Check the server, and the reader's user and password.",
            # The value never fires, only an error of the query does; the other rules keep their state then.
            ANSWER, 1, no_data="Alerting", error="Alerting",
        ),
        _rule(
            CRITICAL_UID, "A critical finding is open",
            "{{ $labels.condition }} at {{ $labels.subject }}: {{ externalURL }}d/railsight-finding"
            "?var-finding={{ $labels.finding }}",
            CRITICAL, 0, no_data="OK", error="KeepLast", pending="0s", is_paused=True,
        ),
    ]  # fmt: skip
    group = {"orgId": 1, "name": "railsight", "folder": "railsight", "interval": "1m", "rules": found}
    return json.dumps({"apiVersion": 1, "groups": [group]}, indent=2, sort_keys=True) + "\n"

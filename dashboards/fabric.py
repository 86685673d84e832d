"""The Fabric dashboard: what is broken, since when, who is affected, and how much of the fabric is observed at all.

The queries are in queries.py, the looks in panels.py; here is only the order on the board.
"""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards import queries
from dashboards.board import FINDING_UID, annotations, empty_board, filters, runbooks
from dashboards.panels import (
    CRITICAL,
    HEALTHY,
    INFO,
    SEVERITY,
    STATES,
    WARNING,
    Column,
    series,
    stat,
    table,
    timeline,
)

UID = "railsight-fabric"
DESCRIPTION = "Open findings, health by pod and rail, coverage, and how far behind the pipeline is."

_EXPLAIN_URL = (
    f"/d/{FINDING_UID}?var-finding=${{__data.fields.id}}&${{datasource:queryparam}}&${{runbooks:queryparam}}"
    "&${__url_time_range}"
)
_LINKS = {"Explain": _EXPLAIN_URL, "Runbook": "${__data.fields.runbook}"}


def board() -> build.Dashboard:
    """Return the whole dashboard."""
    made = empty_board("Fabric", UID, DESCRIPTION).variables([*filters(), runbooks()])
    for name, query, color in (
        ("Critical findings", queries.CRITICAL_TIMES, CRITICAL),
        ("Remediations", queries.REMEDIATION_TIMES, INFO),
    ):
        made.annotation(annotations(name, query, color))
    _now(made)
    _findings(made)
    _coverage(made)
    _pipeline(made)
    return made


def _now(made: build.Dashboard) -> None:
    made.with_row(build.Row("Now"))
    made.with_panel(
        stat(
            "Critical",
            "Open findings that no other explains. Grey: the pipeline has reported nothing for two minutes.",
            queries.CRITICAL_COUNT,
            [(0, HEALTHY), (1, CRITICAL)],
        )
    )
    made.with_panel(
        stat(
            "Other open findings",
            "By severity; explained are those that another open finding explains.",
            queries.OTHER_COUNT,
            [(0, HEALTHY), (1, WARNING)],
            width=6,
        )
    )
    made.with_panel(
        stat(
            "Sources observed",
            "Of the sources that collectors report: within three times their cadence, and 30 s at least.",
            queries.COVERAGE_COUNT,
            [(0, CRITICAL), (0.95, WARNING), (1, HEALTHY)],
            unit="percentunit",
        )
    )
    made.with_panel(
        stat(
            "Not collected",
            "Devices of the inventory that no collector reports. They are not healthy, they are not known.",
            queries.UNCOLLECTED,
            [(0, HEALTHY), (1, INFO)],
        )
    )
    made.with_panel(
        stat(
            "Sink delay",
            "The age of the newest row. In quiet times the sink waits up to 30 s before it writes.",
            queries.SINK_DELAY,
            [(0, HEALTHY), (45, WARNING), (120, CRITICAL)],
            unit="s",
            width=3,
        )
    )
    made.with_panel(
        stat(
            "Rejected",
            "Messages of this time range that could not be read; the table at the end has the reasons.",
            queries.REJECTED_COUNT,
            [(0, HEALTHY), (1, WARNING)],
            width=3,
        )
    )
    made.with_panel(
        timeline(
            "Health by pod and rail",
            "The worst open finding of each place; unobserved if no device of the pod reported for a minute. Devices"
            " without a pod, such as spines, are the place (none).",
            queries.HEALTH,
        )
    )


def _findings(made: build.Dashboard) -> None:
    made.with_row(build.Row("Findings"))
    made.with_panel(
        table(
            "Open findings",
            "Causes first, the most severe on top, as known at the end of the time range. Click a summary to see its"
            " explanation or its runbook.",
            queries.OPEN_FINDINGS,
            {
                "severity": Column("Severity", 80, colors=SEVERITY),
                "condition": Column("Condition", 140),
                "summary": Column("Summary", wrap=True, links=_LINKS),
                "lasts": Column("For", 100),
                "place": Column("Place", 110),
                "cause": Column("Cause", 100),
                "hosts": Column("Hosts", 60),
                "jobs": Column("Jobs", 140),
                "confidence": Column("Confidence", 100),
                "acknowledged_by": Column("Ack by", 80),
                "explained_by": Column("Explained by", 115),
                "runbook": Column(hidden=True),
                "id": Column(hidden=True),
            },
            empty="No open finding is known. Whether the pipeline works is shown above.",
            height=10,
            width=24,
        )
    )
    made.with_panel(
        series("Findings opened", "Episodes by the time they began.", queries.OPENED, bars=True, width=24),
    )
    made.with_panel(
        table(
            "Remediations",
            "The state of each decision of this time range, and for a denial the constraint, the observed value and its"
            " limit.",
            queries.REMEDIATIONS,
            {
                "decided_at": Column("Changed", 160),
                "action": Column("Action", 120),
                "state": Column("State", 90, colors=STATES),
                "target": Column("Target", 240),
                "reason": Column("Reason", wrap=True),
                "constraint": Column("Constraint", 190),
                "surviving": Column("Surviving", 90),
                "repair_hint": Column("Repair", 180),
            },
            empty="No decision in this time range.",
            width=24,
        )
    )


def _coverage(made: build.Dashboard) -> None:
    made.with_row(build.Row("Coverage"))
    made.with_panel(
        table(
            "Sources by pod",
            "Expected, observed, and silent for too long.",
            queries.COVERAGE,
            {
                "pod": Column("Pod"), "source": Column("Source", 80), "expected": Column("Expected", 85),
                "seen": Column("Observed", 85), "stale": Column("Silent", 65),
                "seen_ratio": Column("Share", 65, unit="percentunit"),
            },
            empty="No inventory is in effect in this time range.",
            width=10,
        )
    )  # fmt: skip
    made.with_panel(
        table(
            "Silent sources",
            "Silent for three times their cadence, and at least 30 s; without a time: no sample in this range.",
            queries.STALE,
            {
                "pod": Column("Pod", 80), "device": Column("Device"), "source": Column("Source", 80),
                "last_sample": Column("Last sample", 160), "silent_for": Column("Silent for", 110),
                "reachable": Column("Reachable", 95), "error": Column("Error", wrap=True),
            },
            empty="No source is known to be silent.",
            width=14,
        )
    )  # fmt: skip


def _pipeline(made: build.Dashboard) -> None:
    made.with_row(build.Row("Pipeline"))
    made.with_panel(
        series("Watermark lag", "How far each stage's event time is behind arrival.", queries.WATERMARK_LAG, unit="s")
    )
    made.with_panel(series("Records behind", "Of each stage's input, not yet read.", queries.BEHIND))
    made.with_panel(series("Records processed", "By stage.", queries.STAGE_RATE, unit="recps"))
    made.with_panel(series("Rows sampled", "By source.", queries.ROW_RATE, unit="rowsps"))
    made.with_panel(
        series("Device to Kafka", "The 99th percentile, by source.", queries.ARRIVAL_DELAY, unit="s"),
    )
    made.with_panel(
        table(
            "Rejected messages",
            "What could not be read, and why.",
            queries.REJECTED,
            {
                "topic": Column("Topic", 190), "stage": Column("Stage", 90), "reason": Column("Reason", wrap=True),
                "times": Column("Times", 70), "last": Column("Last", 160),
            },
            empty="No rejected message is known in this time range.",
        )
    )  # fmt: skip

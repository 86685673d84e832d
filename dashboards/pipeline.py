"""Builds the Pipeline dashboard: delay, rejected records, collectors, storage and cost."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.board import Panel, dashboard_of
from dashboards.limits import DETECT
from dashboards.links import PIPELINE, to_host
from dashboards.looks import CRITICAL, HEALTHY, NEUTRAL, WARNING
from dashboards.panels import series, stat
from dashboards.queries import pipeline as queries
from dashboards.tables import Column, moment, table

SINK_LIMITS = [(0, HEALTHY), (45, WARNING), (120, CRITICAL)]
"""Limits of the newest row's age in seconds; with little data the sink waits up to 30 s before it writes."""
_SILENT = "No stage reported in this time range."
_NO_SAMPLES = "No sample arrived in this time range."


def board() -> build.Dashboard:
    """Return the dashboard."""
    panels = [*_now(), *_stages(), *_inputs()]
    return dashboard_of(
        "Pipeline",
        PIPELINE,
        "Does the pipeline itself work: rates, lag, lateness, rejects, collectors, storage.",
        [],
        panels,
    )


def _now() -> list[Panel]:
    return [
        stat(
            "Newest row",
            "The age of the newest row. In quiet times the sink waits up to 30 s before it writes.",
            queries.SINK_DELAY,
            SINK_LIMITS,
            unit="s",
            width=6,
        ),
        stat(
            "Watermark lag",
            "Of the stage that is furthest behind; windows are final after the allowed lateness. Grey: no stage has"
            " reported for two minutes.",
            queries.WORST_LAG,
            [(0, HEALTHY), (DETECT.lateness_s, WARNING), (4 * DETECT.lateness_s, CRITICAL)],
            unit="s",
            width=6,
        ),
        stat(
            "Rejected",
            "Messages of this time range that could not be read; the table at the end has the reasons.",
            queries.REJECTED_COUNT,
            [(0, HEALTHY), (1, WARNING)],
            width=4,
        ),
        stat(
            "Sources",
            "Sources of devices that their collector reaches, and that it does not.",
            queries.COLLECTOR_COUNT,
            [(0, HEALTHY), (1, WARNING)],
            width=8,
            titles={"failing": "not reached", "reachable": "reached"},
        ).override_by_name("reachable", NEUTRAL),
    ]


def _stages() -> list[Panel]:
    return [
        series(
            "Watermark lag",
            "How far each stage's event time is behind arrival. Dashed: the allowed lateness.",
            queries.WATERMARK_LAG,
            unit="s",
            limits=[(DETECT.lateness_s, WARNING)],
            empty=_SILENT,
        ),
        series("Records behind", "Of each stage's input, not yet read.", queries.BEHIND, empty=_SILENT),
        series("Records processed", "By stage.", queries.STAGE_RATE, unit="recps", empty=_SILENT),
        series("Rows sampled", "By source.", queries.ROW_RATE, unit="rowsps", empty=_NO_SAMPLES),
        series(
            "Device to Kafka",
            "The 99th percentile, by source. Beyond twelve hours: of the 99th percentiles of the devices' hours.",
            queries.ARRIVAL_DELAY,
            unit="s",
            empty=_NO_SAMPLES,
        ),
        series("Rows stored", "By kind: what the sink writes.", queries.STORED_RATE, unit="rowsps", empty=_NO_SAMPLES),
    ]


def _inputs() -> list[Panel]:
    return [
        table(
            "Collectors",
            "What each collector sent in the time range, the longest silent first. More than one run: it restarted.",
            queries.COLLECTORS,
            {
                "collector": Column("Collector"), "source": Column("Source", 75), "devices": Column("Devices", 75),
                "row_rate": Column("Rows", 110, unit="rowsps"),
                "silent_s": Column("Newest", 110, unit="dtdurations", limits=[(None, "text"), (60, WARNING)]),
                "runs": Column("Runs", 60),
            },
            empty=_NO_SAMPLES,
        ),
        table(
            "Sources that are not reached",
            "What the collector reports of them.",
            queries.UNREACHABLE,
            {
                "device": Column("Device", 140, links=to_host("device")), "source": Column("Source", 75),
                "collector": Column("Collector", 120), "error": Column("Error", wrap=True),
                "last_sample": moment("Last sample"),
            },
            empty="No collector is known to report a source that it does not reach.",
        ),
        table(
            "Storage",
            "What the tables hold now, the largest first.",
            queries.STORAGE,
            {
                "table": Column("Table"), "stored": Column("Rows", 90, unit="short"),
                "bytes": Column("Size", 90, unit="bytes"), "parts": Column("Parts", 60),
                "bytes_per_row": Column("Bytes/row", 90, decimals=1), "oldest": moment("Oldest"),
            },
            empty="The reader may not read system.parts, or no table has a row.",
            width=24,
        ),
        table(
            "Rejected messages",
            "What could not be read, and why.",
            queries.REJECTED,
            {
                "topic": Column("Topic", 190), "stage": Column("Stage", 90), "reason": Column("Reason", wrap=True),
                "times": Column("Times", 70), "last": moment("Last"),
            },
            empty="No rejected message is known in this time range.",
            width=24,
        ),
    ]  # fmt: skip

"""Builds the Repair desk dashboard: repairs in order with their places, lemons, cohorts, forecasts and part numbers."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.board import Panel, dashboard_of, finding_filters, folded
from dashboards.links import REPAIR_DESK, to_finding, to_link
from dashboards.looks import CRITICAL, HEALTHY, INFO, STATES, WARNING
from dashboards.panels import stat
from dashboards.queries import repair_desk as queries
from dashboards.tables import Column, moment, table

_NO_SCORES = "No score is published: run `railsight lemons --publish` daily."
_LEMON = {"lemon": CRITICAL}


def board() -> build.Dashboard:
    """Return the dashboard."""
    return dashboard_of(
        "Repair desk",
        REPAIR_DESK,
        "What to replace first, where it is, and which parts fail more than others.",
        [*finding_filters()],
        [
            *_to_do(),
            folded("Lemons: links, hosts, parts and firmware", _lemons()),
            folded("Outcomes of repairs, and parts of the fleet", _outcomes()),
        ],
    )


def _to_do() -> list[Panel]:
    return [
        stat(
            "To do",
            "Targets to repair; lemons, whose whole interval is above the rest of their kind; links that get worse.",
            queries.COUNTS,
            [(0, HEALTHY), (1, INFO)],
            width=24,
            titles={"to_repair": "to repair"},
        ),
        table(
            "Replace first",
            "Targets that are drained, escalated or ordered to be repaired; the highest penalty of waiting first.",
            queries.FIRST,
            {
                "penalty": Column("Penalty", 75, decimals=2), "subject": Column("What", 420, links=to_link()),
                "part_number": Column("Part", 100), "step": Column("Step", 155),
                "hint": Column("Repair", wrap=True),
                "state": Column("State", 85, colors=STATES), "waits": Column("Waits", 90),
                "place": Column("Where", 145), "finding": Column("Finding", 80, links=to_finding("finding")),
            },
            empty="No target is known to wait for a repair.",
            height=10,
            width=24,
        ),
        table(
            "Forecasts",
            "Links that get worse, by the time at which they reach their limit (95 %).",
            queries.FORECAST,
            {
                "subject": Column("Link", links=to_link() | to_finding()), "metric": Column("Metric", 110),
                "value": Column("Now", 80, unit="sci", decimals=1),
                "threshold": Column("Limit", 70, unit="sci", decimals=1),
                "reaches": moment("Reaches it"), "earliest": moment("Earliest"),
                "latest": moment("Latest"), "id": Column(hidden=True),
            },
            empty="No trend of a link is known to reach its limit within a week.",
            width=24,
        ),
        table(
            "Repeat offenders",
            "Root findings of a warning or worse at one subject in 28 days.",
            queries.OFFENDERS,
            {
                "subject": Column("Subject", links=to_link()), "findings": Column("Findings", 80),
                "conditions": Column("Conditions", 170), "open": Column("Open", 60),
                "newest": moment("Newest"), "cause": Column("Cause", 110), "place": Column("Where", 260),
            },
            empty="No finding is known in the last 28 days of the time range.",
            width=24,
        ),
    ]  # fmt: skip


def _lemons() -> list[Panel]:
    return [
        table(
            "Lemons: links and hosts",
            "Faults of 28 days, and their rate against the rest of the kind with its exact interval; a lemon has its"
            " whole interval above 1.",
            queries.LEMONS,
            {
                "mark": Column("", 70, colors=_LEMON), "kind": Column("Kind", 60),
                "subject": Column("Subject", links=to_link()), "faults": Column("Faults", 65),
                "ratio": Column("Ratio", 65, decimals=1), "low": Column("Low", 60, decimals=1),
                "high": Column("High", 60, decimals=1), "failed_repairs": Column("Failed repairs", 105),
                "relapses": Column("Relapses", 80),
            },
            empty=_NO_SCORES,
            width=24,
        ),
        table(
            "Cohorts: parts and firmware",
            "Links with a fault of those that have the part, against those with another part of the kind.",
            queries.COHORTS,
            {
                "mark": Column("", 70, colors=_LEMON), "kind": Column("Kind", 80), "part_kind": Column("Of", 100),
                "subject": Column("Part", wrap=True), "faults": Column("Links with faults", 125),
                "exposed": Column("Links", 65), "fleet_faults": Column("Others with faults", 135),
                "fleet_exposed": Column("Others", 70), "ratio": Column("Ratio", 65, decimals=1),
                "low": Column("Low", 60, decimals=1), "high": Column("High", 60, decimals=1),
            },
            empty=_NO_SCORES,
            width=24,
        ),
    ]  # fmt: skip


def _outcomes() -> list[Panel]:
    return [
        table(
            "Which repair helped",
            "Outcomes of 90 days by part number, cause and step.",
            queries.REPAIRS,
            {
                "part": Column("Part", wrap=True), "cause": Column("Cause", 80), "step": Column("Step", 155),
                "helped": Column("Helped", 75), "did_not": Column("Did not", 75),
                "share": Column("Of all", 100, unit="percentunit", gauge=1, decimals=0,
                                limits=[(None, WARNING), (0.5, HEALTHY)]),
            },
            empty="No outcome of a repair became known in 90 days.",
        ),
        table(
            "Parts of the fleet",
            "What devices reported of their parts in the last two days.",
            queries.FLEET,
            {
                "kind": Column("Kind", 100), "part": Column("Part"), "firmware": Column("Firmware", 110),
                "pieces": Column("Pieces", 75), "devices": Column("Devices", 75),
            },
            empty="No device reported its parts in the last two days of the time range.",
        ),
    ]  # fmt: skip

"""Builds the Fabric dashboard: the faults, their places and durations, and the observed share of the fabric."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.board import Panel, dashboard_of, finding_filters, pods, severities, text
from dashboards.links import (
    FABRIC,
    FIRST,
    PIPELINE,
    RAILS,
    RUNBOOK,
    to_board,
    to_device,
    to_finding,
    to_job,
    to_link,
    to_panel,
    to_rails,
)
from dashboards.looks import CRITICAL, HEALTHY, INFO, LEVELS, SEVERITY, STATES, WARNING
from dashboards.panels import graph, series, stat, tiles, timeline
from dashboards.queries import fabric as queries
from dashboards.queries import pipeline, remediation
from dashboards.queries.changes import CHANGES
from dashboards.shared_tables import waiting
from dashboards.tables import Column, condition, moment, state_matrix, table

_SILENT = "Silent sources"
NO_INVENTORY = "No place is known: no inventory is in effect in this time range, or the query failed."
FINDINGS_LIMITS = [(0, HEALTHY), (90, WARNING), (180, CRITICAL)]
"""Limits of the findings' age in seconds; the lateness allowed (30 s) and the sink's wait (30 s) are no delay."""


def board() -> build.Dashboard:
    """Return the dashboard."""
    filters = [
        pods(queries.PODS), severities(),
        text("device", "Device", "The name of a device: findings at it."),
        text("rail", "Rail", "The number of a rail: findings on it."),
        text("job", "Job", "The name of a job: findings that affect it."),
        text("team", "Team", "The name of a team: findings of its devices."),
    ]  # fmt: skip
    marks = {
        "Critical findings": (queries.CRITICAL_TIMES, CRITICAL), "Remediations": (queries.REMEDIATION_TIMES, INFO),
    }  # fmt: skip
    panels = [*_now(), *_open(), *_places(), *_over_time(), *_coverage()]
    return dashboard_of(
        "Fabric",
        FABRIC,
        "What is broken, where, since when, who is affected, and how much of the fabric is observed.",
        [*filters, *finding_filters()],
        panels,
        marks=marks,
    )


def _now() -> list[Panel]:
    return [
        stat(
            "Critical",
            "Open findings that no other explains. Grey: the pipeline has reported nothing for two minutes.",
            queries.CRITICAL_COUNT,
            [(0, HEALTHY), (1, CRITICAL)],
        ),
        stat(
            "Other open findings",
            "By severity; explained are those that another open finding explains.",
            queries.OTHER_COUNT,
            [(0, HEALTHY), (1, WARNING)],
            width=8,
        ),
        stat(
            "Sources observed",
            "Of the sources that collectors report: within three times their cadence, and 30 s at least.",
            queries.COVERAGE_COUNT,
            [(0, CRITICAL), (0.95, WARNING), (1, HEALTHY)],
            unit="percentunit",
        ),
        stat(
            "Not collected",
            "Devices of the inventory that no collector reports. They are not healthy, they are not known.",
            queries.UNCOLLECTED,
            [(0, HEALTHY), (1, INFO)],
            links={"Their names": to_panel(FABRIC, _SILENT)},
        ),
        stat(
            "Findings lag",
            "The findings are as of this time ago: the age of the oldest watermark of a stage. In quiet times the sink"
            " adds up to 30 s.",
            pipeline.FINDINGS_LAG,
            FINDINGS_LIMITS,
            unit="s",
            links={"Pipeline": to_board(PIPELINE)},
        ),
    ]


def _places() -> list[Panel]:
    return [
        state_matrix(
            "Health by pod and rail",
            "The worst open finding of each place; unobserved if no device of the pod reported for a minute. `fabric`"
            " is what has no rail; devices without a pod, such as spines, are the pod (none). Click a cell.",
            queries.MATRIX,
            LEVELS,
            empty=NO_INVENTORY,
            links=to_rails(FIRST),
            height=7,
            width=16,
        ),
        tiles(
            "Health by plane",
            "The worst open finding at a switch of each plane; unobserved if none of them reported for a minute.",
            queries.PLANES,
            empty="no plane",
            height=7,
            width=8,
            links={"Rails": to_board(RAILS)},
        ),
    ]


def _open() -> list[Panel]:
    return [
        table(
            "Open findings",
            "Causes first, the most severe on top, as known at the end of the time range. Trend: when its severity or"
            " the number of its hosts last changed. Click a condition to see its explanation, its link"
            " or its runbook, and jobs to see the first of them.",
            queries.OPEN_FINDINGS,
            {
                "severity": Column("Severity", 75, colors=SEVERITY),
                "condition": condition(to_finding() | to_link() | RUNBOOK),
                "summary": Column("Summary", wrap=True),
                "lasts": Column("For", 95), "trend": Column("Trend", 110),
                "place": Column("Place", 95),
                "cause": Column("Cause", 110),
                "hosts": Column("Hosts", 60),
                "jobs": Column("Jobs", 115, links=to_job()),
                "note": Column("Note", 150),
                "runbook": Column(hidden=True),
                "subject": Column(hidden=True),
                "id": Column(hidden=True),
                "job": Column(hidden=True),
            },
            empty="No open finding is known. Whether the pipeline works is shown above.",
            height=13,
            width=24,
        ),
        waiting(remediation.WAITING),
    ]  # fmt: skip


def _over_time() -> list[Panel]:
    return [
        table(
            "What changed",
            "In the time range, the newest first: findings, decisions, what people and the inventory changed, roll-outs"
            " of software, reboots, ports that were shut, and jobs.",
            CHANGES,
            {
                "at": moment("At"), "what": Column("What", 190, links=to_finding()),
                "severity": Column("Severity", 80, colors=SEVERITY), "subject": Column("Subject", 260),
                "text": Column("Text", wrap=True), "id": Column(hidden=True),
            },
            empty="No change is known in this time range.",
            height=10,
            width=24,
        ),
        graph(
            "Pods, planes and switches",
            "Pods (of more than 24 the worst, and the others as one) and planes in the color of their worst open"
            " finding, and the 12 worst switches that have one; an orange edge has the links that are up, of all. Click"
            " a place, or an orange edge for its link.",
            queries.NODES,
            queries.EDGES,
            {"title": to_device(), "subject": to_link()},
            height=20,
            width=24,
        ),
        timeline(
            "Health over time",
            f"The worst open finding of each place, of more than {queries.HEALTH_PLACES} of the worst ones; unobserved"
            " if no device of the pod reported for a minute.",
            queries.HEALTH,
            empty=NO_INVENTORY,
        ),
        series(
            "Findings opened",
            "Episodes by the time they began.",
            queries.OPENED,
            bars=True,
            empty="No finding is known to have begun in this time range.",
            width=24,
        ),
        table(
            "Remediations",
            "The state of each decision of this time range, and for a denial the constraint, the observed value and its"
            " limit.",
            queries.REMEDIATIONS,
            {
                "decided_at": moment("Changed"), "action": Column("Action", 120, links=to_link("target")),
                "state": Column("State", 90, colors=STATES), "target": Column("Target", 260),
                "constraint": Column("Constraint", 145), "surviving": Column("Surviving", 85),
                "why": Column("Reason, and repair", wrap=True),
            },
            empty="No decision is known in this time range.",
            width=24,
        ),
    ]  # fmt: skip


def _coverage() -> list[Panel]:
    return [
        table(
            "Sources by pod",
            "Expected, observed, and silent for too long.",
            queries.COVERAGE,
            {
                "pod": Column("Pod", 120), "source": Column("Source", 75), "expected": Column("Expected", 85),
                "seen": Column("Observed", 85), "stale": Column("Silent", 60),
                "seen_ratio": Column("Share", 60, unit="percentunit"),
            },
            empty="No inventory is in effect in this time range.",
            width=9,
        ),
        table(
            _SILENT,
            "Silent for three times their cadence, and at least 30 s; without a time: no sample in this range.",
            queries.STALE,
            {
                "pod": Column("Pod", 70), "device": Column("Device"), "source": Column("Source", 75),
                "last_sample": moment("Last sample"), "silent_for": Column("Silent for", 95),
                "reachable": Column("Reachable", 90), "error": Column("Error", wrap=True),
            },
            empty="No source is known to be silent.",
            width=15,
        ),
    ]  # fmt: skip

"""Builds the Finding dashboard: one finding with its evidence, history, correlated findings and remediations."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.board import Panel, choice, dashboard_of, text
from dashboards.links import AROUND, FINDING, to_finding, to_job, to_link
from dashboards.looks import INFO, PORT_LEVELS, SEVERITY, STATES, WARNING
from dashboards.panels import series, timeline
from dashboards.queries import finding as queries
from dashboards.queries import link
from dashboards.tables import Column, condition, moment, table

_NO_FINDING = "No finding has the id that is selected above, or none is known yet."
_NO_LINK = "The finding is at no link of the inventory."
_NOT_READ = "The finding is at no link of the inventory, or no collector reads this of it in this time range."


def board() -> build.Dashboard:
    """Return the dashboard."""
    return dashboard_of(
        "Finding",
        FINDING,
        "One finding, explained, with the course of its link. Without a choice: the worst open finding.",
        [
            text("finding", "Finding", "Its id, or the beginning of it; empty: the worst open finding."),
            choice("shown", "Shown", queries.SHOWN, hidden=True),
            choice("subject", "Subject", queries.SUBJECT, hidden=True),
        ],
        [_explained(), *_link(), *_answers()],
        marks={"Findings": (link.FINDING_TIMES, WARNING), "Remediations": (link.REMEDIATION_TIMES, INFO)},
    )


def _explained() -> Panel:
    return table(
            "The finding, explained",
            "What was observed against what is expected; railsight explain ID prints the same. Click an item to see"
            " both ends of the link, its first job, or the time around the fault.",
            queries.EXPLAIN,
            {
                "item": Column("Item", 120, links=to_link() | to_job() | AROUND), "value": Column("Value", wrap=True),
                "subject": Column(hidden=True), "id": Column(hidden=True), "job": Column(hidden=True),
                "begin_ms": Column(hidden=True), "end_ms": Column(hidden=True),
            },
            empty=_NO_FINDING,
            height=12,
            width=24,
    )  # fmt: skip


def _link() -> list[Panel]:
    return [
        timeline(
            "State of both ends",
            "Of the finding's link: up, shut by configuration, down; unobserved where no sample has it for a minute.",
            link.STATES,
            levels=PORT_LEVELS,
            empty=_NO_LINK,
            height=5,
        ),
        series("Errors of the link", "By kind and end.", link.ERRORS, unit="suffix:/s", empty=_NOT_READ, width=8),
        series(
            "Flaps of the link", "How often each end went down, or changed its state.", link.FLAPS, bars=True,
            empty=_NOT_READ, width=8,
        ),
        series("Traffic of the link", "Of each end.", link.TRAFFIC, unit="bps", empty=_NOT_READ, width=8),
    ]  # fmt: skip


def _answers() -> list[Panel]:
    return [
        table(
            "Remediations",
            "Every revision of the decisions on this finding, the newest first.",
            queries.ANSWERS,
            {
                "decided_at": moment("Changed"), "action": Column("Action", 120),
                "state": Column("State", 90, colors=STATES), "verdict": Column("Verdict", 120),
                "actor": Column("By", 90), "constraint": Column("Constraint", 145),
                "why": Column("Reason, and repair", wrap=True),
            },
            empty="No decision on this finding is known.",
            width=24,
        ),
        table(
            "History",
            "Each revision as it became known, the newest first.",
            queries.HISTORY,
            {
                "at": moment("Known since"), "status": Column("Status", 90),
                "severity": Column("Severity", 80, colors=SEVERITY), "summary": Column("Summary", wrap=True),
                "cause": Column("Cause", 110),
            },
            empty=_NO_FINDING,
        ),
        table(
            "Explained by this finding",
            "Findings that have it as their cause.",
            queries.CHILDREN,
            {
                "severity": Column("Severity", 80, colors=SEVERITY),
                "condition": condition(to_finding()),
                "subject": Column("Subject", 240), "summary": Column("Summary", wrap=True),
                "since": moment("Since"), "id": Column(hidden=True),
            },
            empty="No finding is known to have it as its cause.",
        ),
    ]  # fmt: skip

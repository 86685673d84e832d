"""Builds the Finding dashboard: one finding with its evidence, history, correlated findings and remediations."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.board import Panel, dashboard_of, text
from dashboards.links import FINDING, to_finding, to_link
from dashboards.looks import SEVERITY, STATES
from dashboards.queries import finding as queries
from dashboards.tables import Column, condition, moment, table

_NO_FINDING = "No finding has the id that is selected above."


def board() -> build.Dashboard:
    """Return the dashboard."""
    return dashboard_of(
        "Finding",
        FINDING,
        "One finding, explained. Follow Explain on another board, or paste an id.",
        [text("finding", "Finding", "The id of the finding to explain.")],
        _panels(),
    )


def _panels() -> list[Panel]:
    return [
        table(
            "The finding, explained",
            "What was observed against what is expected; railsight explain ID prints the same. Click an item to see"
            " both ends of the link.",
            queries.EXPLAIN,
            {
                "item": Column("Item", 120, links=to_link()), "value": Column("Value", wrap=True),
                "subject": Column(hidden=True),
            },
            empty=_NO_FINDING,
            height=12,
            width=24,
        ),
        table(
            "Remediations",
            "Every revision of the decisions on this finding, the newest first.",
            queries.ANSWERS,
            {
                "decided_at": moment("Changed"), "action": Column("Action", 120),
                "state": Column("State", 90, colors=STATES), "verdict": Column("Verdict", 120),
                "actor": Column("By", 80), "reason": Column("Reason", wrap=True),
                "constraint": Column("Constraint", 120), "repair_hint": Column("Repair", 215, wrap=True),
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

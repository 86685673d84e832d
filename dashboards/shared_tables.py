"""Builds the tables that several boards have."""

from grafana_foundation_sdk.builders import table as build_table

from dashboards.links import to_finding, to_link
from dashboards.looks import NOW, SEVERITY, STATES
from dashboards.queries.query import Query
from dashboards.tables import Column, condition, moment, table


def findings(title: str, description: str, query: Query, *, empty: str, width: int = 24) -> build_table.Panel:
    """Return a table of a subject's findings in the time range, open ones first; rows link to the Finding dashboard."""
    return table(
        title,
        description,
        query,
        {
            "severity": Column("Severity", 80, colors=SEVERITY),
            "condition": condition(to_finding() | to_link()),
            "summary": Column("Summary", wrap=True), "since": moment("Since"),
            "lasts": Column("For", 110), "now": Column("Now", 60, colors=NOW), "cause": Column("Cause", 110),
            "confidence": Column("Confidence", 100), "subject": Column(hidden=True), "id": Column(hidden=True),
        },
        empty=empty,
        width=width,
    )  # fmt: skip


def waiting(query: Query) -> build_table.Panel:
    """Return the table of the decisions that wait for a person, with the command for each."""
    return table(
        "Waiting for a person",
        "Approvals first, then what a person must finish, the oldest first. The command approves or rejects"
        " (`railsight reject` takes the same id), or explains.",
        query,
        {
            "decided_at": moment("Since"),
            "action": Column("Action", 120, links=to_finding("finding") | to_link("target")),
            "state": Column("State", 90, colors=STATES), "target": Column("Target", 260, wrap=True),
            "command": Column("Command", 290, wrap=True), "reason": Column("Reason", wrap=True),
            "finding": Column(hidden=True),
        },
        empty="Nothing is known to wait for a person at the end of the time range.",
        height=7,
        width=24,
    )  # fmt: skip

"""Builds the tables that several boards have."""

from grafana_foundation_sdk.builders import table as build_table

from dashboards.links import to_finding, to_link
from dashboards.looks import NOW, SEVERITY
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

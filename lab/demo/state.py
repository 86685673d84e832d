"""Holds the state of the demo: the terminal's, every revision for score and report, and the rows of ClickHouse."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from streams.fabric.topology import Topology
from streams.report.top.state import TopState
from streams.wire.models import Finding, Message, Remediation, Status


@dataclass(slots=True)
class DemoState:
    """Everything that the demo has received; `view` is the part that the terminal displays."""

    started_s: float
    view: TopState = field(default_factory=TopState)
    revisions: list[Finding] = field(default_factory=list)
    decisions: list[Remediation] = field(default_factory=list)
    first_finding_s: float | None = None

    def update(self, message: Message | Topology, now_s: float) -> None:
        """Update the state with one message that arrived at `now_s`."""
        self.view.update(message, now_s)
        match message:
            case Finding():
                self.revisions.append(message)
                if self.first_finding_s is None:
                    self.first_finding_s = now_s - self.started_s
            case Remediation():
                self.decisions.append(message)


def duplicate_episodes(findings: Iterable[Finding]) -> list[str]:
    """Return a line for each episode with two ids: findings of one detector and subject that overlap in time."""
    by_subject: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.status is not Status.RETRACTED:
            by_subject.setdefault((finding.detector, finding.subject.id), []).append(finding)
    duplicates = []
    for (detector, subject), same in by_subject.items():
        same.sort(key=lambda finding: finding.started_at_ns)
        for first, second in itertools.pairwise(same):
            if first.resolved_at_ns is None or second.started_at_ns < first.resolved_at_ns:
                duplicates.append(f"{detector} on {subject} has the ids {first.id} and {second.id}")
    return duplicates


TABLES = (
    "samples",
    "events",
    "facts",
    "collector_status",
    "findings",
    "remediations",
    "remediation_results",
    "controls",
    "rejected",
)
TABLES_OF_A_RECORDING = ("samples", "remediation_results", "controls", "rejected")
"""Tables that any recording fills: a recording may have no events and no fault."""


class Database(Protocol):
    """Answers queries; streams.store.clickhouse.ClickHouse implements it."""

    def query(self, sql: str) -> Any:
        """Return the rows of a query."""
        ...


def count_rows(database: Database) -> dict[str, int]:
    """Return the row count of each table; raise Retry if ClickHouse does not answer."""
    each = " UNION ALL ".join(f"SELECT '{table}', count() FROM {table}" for table in TABLES)  # noqa: S608 — constants
    found = {str(table): int(rows) for table, rows in database.query(each)}
    return {table: found[table] for table in TABLES}


def empty_tables(rows: Mapping[str, int], needed: Iterable[str] = TABLES) -> list[str]:
    """Return the needed tables that are empty or were not counted."""
    return [table for table in needed if not rows.get(table)]

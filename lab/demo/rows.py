"""Row counts of the tables that the demo must fill."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

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
"""Tables that any recording fills: one may have no events and no fault."""


class Database(Protocol):
    """Answers queries; streams.store.clickhouse.ClickHouse implements it."""

    def query(self, sql: str) -> Any:
        """Return the rows of a query."""
        ...


def count_rows(database: Database) -> dict[str, int]:
    """Return the row count of each table; raise Retry when ClickHouse does not answer."""
    each = " UNION ALL ".join(f"SELECT '{table}', count() FROM {table}" for table in TABLES)  # noqa: S608 — constants
    found = {str(table): int(rows) for table, rows in database.query(each)}
    return {table: found[table] for table in TABLES}


def empty_tables(rows: Mapping[str, int], needed: Iterable[str] = TABLES) -> list[str]:
    """Return the needed tables that are empty or were not counted."""
    return [table for table in needed if not rows.get(table)]

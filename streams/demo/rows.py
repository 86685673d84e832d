"""How many rows ClickHouse holds of each thing that the demo must leave behind."""

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
"""What is there whatever was recorded: a recording may hold no events, and have no fault in it."""


class Database(Protocol):
    """What answers a query; streams.store.clickhouse.ClickHouse is the real one."""

    def query(self, sql: str) -> Any:
        """The rows of a query."""
        ...


def count_rows(database: Database) -> dict[str, int]:
    """The rows of each table; raises Retry where ClickHouse is away."""
    each = " UNION ALL ".join(f"SELECT '{table}', count() FROM {table}" for table in TABLES)  # noqa: S608 — ours
    found = {str(table): int(rows) for table, rows in database.query(each)}
    return {table: found[table] for table in TABLES}


def empty_tables(rows: Mapping[str, int], needed: Iterable[str] = TABLES) -> list[str]:
    """Those of the needed tables that hold nothing, or were not counted."""
    return [table for table in needed if not rows.get(table)]

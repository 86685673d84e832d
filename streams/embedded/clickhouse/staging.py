"""Rewrites `INSERT … SELECT … FROM input('structure')` to stage its data in a temporary table.

The library accepts such an INSERT only complete and as text.
"""

from dataclasses import dataclass

from streams.embedded.clickhouse.policy import plain_string
from streams.embedded.clickhouse.structure import rebuild
from streams.embedded.clickhouse.tokens import tokens

_TABLE = "_railsight_input"


@dataclass(frozen=True, slots=True)
class StagingTable:
    """A temporary table for the data, and the statement `sql` that inserts from it."""

    structure: str
    sql: str

    into: str = f"INSERT INTO {_TABLE}"
    drop: str = f"DROP TEMPORARY TABLE IF EXISTS {_TABLE}"

    @property
    def create(self) -> str:
        return f"CREATE TEMPORARY TABLE {_TABLE} ({rebuild(self.structure)})"


def staging_table(sql: str) -> StagingTable | None:
    """Return the staging table of an INSERT that selects from input(), or None."""
    all_tokens = list(tokens(sql))
    for at, token in enumerate(all_tokens[:-3]):
        called, structure, closed = all_tokens[at + 1 : at + 4]
        if token.name.lower() == "input" and called.text == "(" and structure.kind == "string" and closed.text == ")":
            return StagingTable(plain_string(structure), sql[: token.start] + _TABLE + sql[closed.end :])
    return None

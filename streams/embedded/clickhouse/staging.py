"""Rewrites INSERTs whose data must be staged in a temporary table, because the library does not support them.

These are `INSERT … SELECT … FROM input('structure')`, which the library accepts only complete and as text.
"""

import re
from dataclasses import dataclass

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
        return f"CREATE TEMPORARY TABLE {_TABLE} ({self.structure})"


def staging_table(sql: str) -> StagingTable | None:
    """Return the staging table of an INSERT that selects from input(), or None."""
    all_tokens = list(tokens(sql))
    for at, token in enumerate(all_tokens[:-3]):
        called, structure, closed = all_tokens[at + 1 : at + 4]
        if token.name.lower() == "input" and called.text == "(" and structure.kind == "string" and closed.text == ")":
            return StagingTable(_unquoted(structure.text), sql[: token.start] + _TABLE + sql[closed.end :])
    return None


def _unquoted(literal: str) -> str:
    return re.sub(r"\\(.)|''", lambda found: found[1] or "'", literal[1:-1], flags=re.DOTALL)

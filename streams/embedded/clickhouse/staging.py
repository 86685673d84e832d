"""INSERTs whose data must lie in a table before it is inserted, because the library's own way does not do them.

Two of them: `INSERT … SELECT … FROM input('structure')`, which the library takes only whole and as text; and strings
for a Dynamic column under `cast_string_to_dynamic_use_inference`, a setting that its parser of data does not look at.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from streams.embedded.clickhouse.engine import Connection, identifier
from streams.embedded.clickhouse.failures import ClickHouseError
from streams.embedded.clickhouse.native_blocks import Unwalkable, columns
from streams.embedded.clickhouse.statement import Statement
from streams.embedded.clickhouse.tokens import tokens

_TABLE = "_railsight_input"
_INFERS = "cast_string_to_dynamic_use_inference"
_HEAD = re.compile(r"\s*INSERT\s+INTO\s+(?:TABLE\s+)?([^\s(]+)\s*(?:\((.*)\))?\s*", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Stage:
    """A temporary table of this structure takes the data, and `sql` then carries it to its place."""

    structure: str
    sql: str

    into: str = f"INSERT INTO {_TABLE}"
    drop: str = f"DROP TEMPORARY TABLE IF EXISTS {_TABLE}"

    @property
    def create(self) -> str:
        return f"CREATE TEMPORARY TABLE {_TABLE} ({self.structure})"


def stage_of_input(sql: str) -> Stage | None:
    """Return the stage of an INSERT that selects from input(), or None."""
    seen = list(tokens(sql))
    for at, token in enumerate(seen[:-3]):
        called, structure, closed = seen[at + 1 : at + 4]
        if token.name.lower() == "input" and called.text == "(" and structure.kind == "string" and closed.text == ")":
            return Stage(_unquoted(structure.text), sql[: token.start] + _TABLE + sql[closed.end :])
    return None


def stage_of_dynamic(
    connection: Connection, statement: Statement, settings: Mapping[str, str], data: bytes
) -> Stage | None:
    """Return the stage of a Native INSERT of strings into Dynamic columns, or None; `data` is its beginning."""
    if statement.format != "Native" or settings.get(_INFERS) not in {"1", "true"}:
        return None
    found = _HEAD.fullmatch(statement.sql)
    if found is None:
        return None
    try:
        described = connection.query(f"DESCRIBE TABLE {found[1]}", "JSONCompactEachRow").data.splitlines()
        dynamic = {row[0] for row in map(json.loads, described) if row[1] == "Dynamic"}
        sent = [(one.name, one.type) for one in columns(data)] if dynamic else []
    except (ClickHouseError, Unwalkable):
        # Not a plain table, or a block too large to look over: the INSERT itself will tell, or goes on without.
        return None
    if not any(name in dynamic and kind == "String" for name, kind in sent):
        return None
    names = ", ".join(identifier(name) for name, _ in sent)
    structure = ", ".join(f"{identifier(name)} {kind}" for name, kind in sent)
    # The table's name is the client's own SQL; the columns' names are quoted.
    return Stage(structure, f"INSERT INTO {found[1]} ({names}) SELECT {names} FROM {_TABLE}")  # noqa: S608 — said above


def _unquoted(literal: str) -> str:
    return re.sub(r"\\(.)|''", lambda found: found[1] or "'", literal[1:-1], flags=re.DOTALL)

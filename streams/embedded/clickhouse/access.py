"""Authenticates users, and refuses statements of read-only users."""

import hmac
import re
from collections.abc import Sequence

from streams.embedded.clickhouse.data_dir import GRANTS
from streams.embedded.clickhouse.engine import quoted
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.params import User
from streams.embedded.clickhouse.request import QueryRequest
from streams.embedded.clickhouse.statement import Statement
from streams.embedded.clickhouse.tokens import tokens

# The engine's `readonly = 2` also refuses writes, but it permits some statements that readers may not run (KILL QUERY).
_FOR_READERS = {"SELECT", "WITH", "FROM", "(", "EXPLAIN", "DESC", "DESCRIBE", "EXISTS", "SHOW", "SET", "USE"}

_SHOW_GRANTS = re.compile(rb"\s*SHOW\s+GRANTS\s*;?\s*", re.IGNORECASE)


def authenticate(call: QueryRequest, users: Sequence[User]) -> User:
    """Return the authenticated user of the request; raise ClickHouseError if there is none."""
    for user in users:
        given = call.password.encode(errors="surrogateescape")
        # Every user has a password: process.py makes the missing ones.
        if user.password and user.name == call.user and hmac.compare_digest(user.password.encode(), given):
            return user
    raise ClickHouseError(
        516,
        "AUTHENTICATION_FAILED",
        f"{call.user}: Authentication failed: password is incorrect, or there is no user with such name.",
    )


def settings_for(user: User, call: QueryRequest) -> tuple[dict[str, str], str]:
    """Return the settings of the request and its enforced `readonly` level (empty: none).

    Level 2 permits settings per query, which Grafana and clickhouse-connect send.
    """
    settings = dict(call.settings)
    if call.may_write and not user.read_only:
        return settings, ""
    level = settings.pop("readonly", "2")  # the connection has level 2 from its first statement on
    if level not in {"1", "2"}:
        raise ClickHouseError(164, "READONLY", "Cannot modify 'readonly' setting in readonly mode")
    return settings, level


def with_own_grants(raw: bytes, user: User) -> bytes:
    """Replace SHOW GRANTS by a query of the user's rights, because the engine's only user is the administrator."""
    if not _SHOW_GRANTS.fullmatch(raw):
        return raw
    grants = ("SELECT, SHOW ON *.*",) if user.read_only else GRANTS
    rows = ", ".join(quoted(f"GRANT {grant} TO {user.name}") for grant in grants)
    return f"SELECT arrayJoin([{rows}]) AS GRANTS".encode()


def refuse_writing(user: User, call: QueryRequest, statement: Statement) -> None:
    """Raise ClickHouseError for a write that the engine's read-only mode does not refuse."""
    # The engine does not check an INSERT with data in pieces.
    if statement.kind == "insert" and (user.read_only or not call.may_write):
        raise ClickHouseError(164, "READONLY", f"{user.name}: Cannot execute query in readonly mode")
    first = next(tokens(statement.sql), None)
    if user.read_only and first is not None and (first.keyword or first.text) not in _FOR_READERS:
        raise ClickHouseError(
            497, "ACCESS_DENIED", f"{user.name}: Not enough privileges. {first.keyword} is not for a read-only user"
        )

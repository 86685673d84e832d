"""Who may come in, and what a read-only user may say."""

import hmac
from collections.abc import Sequence

from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.params import User
from streams.embedded.clickhouse.request import QueryRequest
from streams.embedded.clickhouse.statement import Statement
from streams.embedded.clickhouse.tokens import tokens

# `readonly = 2` of the engine refuses what writes; these are what it lets pass and a reader has no business with.
_NOT_FOR_READERS = {"KILL", "SYSTEM", "BACKUP", "RESTORE", "GRANT", "REVOKE"}


def authenticate(call: QueryRequest, users: Sequence[User]) -> User:
    """Return the user that the call proves to be; raise ClickHouseError for anybody else."""
    for user in users:
        if user.name == call.user and hmac.compare_digest(user.password.encode(), call.password.encode()):
            return user
    raise ClickHouseError(
        516,
        "AUTHENTICATION_FAILED",
        f"{call.user}: Authentication failed: password is incorrect, or there is no user with such name.",
    )


def settings_for(user: User, call: QueryRequest) -> tuple[dict[str, str], str]:
    """Return the settings of the call and the `readonly` level it must not leave (empty: none).

    2, so that settings can still be given per query, as Grafana and clickhouse-connect do.
    """
    settings = dict(call.settings)
    if call.may_write and not user.read_only:
        return settings, ""
    asked = settings.pop("readonly", "2")
    if asked not in {"1", "2"}:
        raise ClickHouseError(164, "READONLY", "Cannot modify 'readonly' setting in readonly mode")
    return settings, asked


def refuse_writing(user: User, call: QueryRequest, statement: Statement) -> None:
    """Raise ClickHouseError for what the engine's read-only mode lets pass, and should not."""
    # Its check does not see an INSERT whose data is handed over in pieces.
    if statement.kind == "insert" and (user.read_only or not call.may_write):
        raise ClickHouseError(164, "READONLY", f"{user.name}: Cannot execute query in readonly mode")
    first = next(tokens(statement.sql), None)
    if user.read_only and first is not None and first.keyword in _NOT_FOR_READERS:
        raise ClickHouseError(
            497, "ACCESS_DENIED", f"{user.name}: Not enough privileges. {first.keyword} is not for a read-only user"
        )

"""What one call adds to a connection: settings, database, external tables; and taking it away from a session again."""

from collections.abc import Callable, Mapping, Sequence

from streams.embedded.clickhouse.bodies import ExternalTable
from streams.embedded.clickhouse.engine import Connection, identifier, quoted
from streams.embedded.clickhouse.failures import ClickHouseError


class Scope:
    """The surroundings of one statement. All methods block."""

    def __init__(
        self, settings: Mapping[str, str], database: str, read_only: str, tables: Sequence[ExternalTable]
    ) -> None:
        self._settings = settings
        self._database = database
        self._read_only = read_only
        self._tables = tables
        self._undo: list[str] = []

    def enter_new(self, connect: Callable[[], Connection]) -> Connection:
        """Open a connection of its own for the statement."""
        connection = connect()
        try:
            self._apply(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def enter(self, connection: Connection) -> None:
        """Borrow a session's connection; `leave` must follow, also after an error."""
        self._undo = self._ways_back(connection)
        self._apply(connection)

    def leave(self, connection: Connection) -> None:
        """Give the session its own settings and database back."""
        for statement in self._undo:
            try:
                connection.query(statement)
            except ClickHouseError:
                # Dropped meanwhile (the database by the statement itself): nothing is left to go back to.
                continue

    def _apply(self, connection: Connection) -> None:
        connection.configure(self._settings, self._database or None)
        for table in self._tables:
            connection.query(f"CREATE TEMPORARY TABLE {identifier(table.name)} ({table.structure})")
            insert = connection.insert(f"INSERT INTO {identifier(table.name)}", table.format)
            insert.append(table.data)
            insert.finish()
        if self._read_only:
            # Last, and by itself: from here on the connection writes nothing any more, and cannot be told otherwise.
            connection.query(f"SET readonly = {self._read_only}")

    def _ways_back(self, connection: Connection) -> list[str]:
        undo = [f"DROP TEMPORARY TABLE IF EXISTS {identifier(table.name)}" for table in self._tables]
        names = [name for name in self._settings if not name.startswith("param_")]
        if names:
            listed = ", ".join(quoted(name) for name in names)
            rows = connection.query(
                f"SELECT name, if(changed, toValidUTF8(value), NULL) FROM system.settings WHERE name IN ({listed})",  # noqa: S608 — quoted above
                "JSONCompactEachRow",
            )
            undo += [_set_back(*row) for row in map(_json, rows.data.splitlines())]
        if self._database:
            undo.append(f"USE {identifier(connection.value('currentDatabase()'))}")
        return undo


def _set_back(name: str, value: str | None) -> str:
    return f"SET {name} = {'DEFAULT' if value is None else quoted(value)}"


def _json(line: bytes) -> tuple[str, str | None]:
    import json

    name, value = json.loads(line)
    return name, value

"""What one call adds to a connection: settings, database, external tables; and taking it away from a session again.

A client gives the same settings and database with all its calls, so a session keeps them until a call gives others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streams.embedded.clickhouse.engine import Connection, Engine, identifier, quoted
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.request_body import ExternalTable
from streams.embedded.clickhouse.sessions import Session
from streams.embedded.clickhouse.statement import Statement


@dataclass(frozen=True, slots=True)
class QueryScope:
    """The surroundings of one statement. All methods block."""

    settings: Mapping[str, str]
    database: str
    read_only: str
    tables: Sequence[ExternalTable]

    def open(self, engine: Engine) -> Connection:
        """Open a connection of its own for the statement."""
        connection = engine.connect(self.settings, self.database)
        try:
            self._finish(connection)
            if self.read_only:
                # Last, and by itself: from here on the connection writes nothing, and cannot be told otherwise.
                connection.query(f"SET readonly = {self.read_only}")
        except BaseException:
            connection.close()
            raise
        return connection

    def enter(self, session: Session, statement: Statement) -> None:
        """Make the session ready for the statement; `leave` must follow, also after an error."""
        wanted = (dict(self.settings), self.database)
        if self.read_only and not statement.is_read_only:
            # Not by `readonly`, which a connection never leaves again: the session may be a writer's.
            raise ClickHouseError(164, "READONLY", "Cannot execute query in readonly mode")
        if statement.changes_session:
            # What it changes is the session's own, which must show again first, and not what a call put over it.
            _take_away(session)
            session.has_own = True
        elif session.laid_over != wanted:
            _take_away(session)
            session.ways_back = _ways_back(session, self.settings, self.database)
            # Unknown until all of it is set: one of them may be refused.
            session.laid_over = None
            session.connection.configure(self.settings, self.database)
            session.laid_over = wanted
        self._finish(session.connection)

    def leave(self, session: Session) -> None:
        """Drop the tables that came with the statement."""
        for table in self.tables:
            session.connection.query(f"DROP TEMPORARY TABLE IF EXISTS {identifier(table.name)}")

    def _finish(self, connection: Connection) -> None:
        for table in self.tables:
            connection.query(f"CREATE TEMPORARY TABLE {identifier(table.name)} ({table.structure})")
            insert = connection.insert(f"INSERT INTO {identifier(table.name)}", table.format)
            if table.data:
                insert.append(table.data)
            insert.finish()


def _take_away(session: Session) -> None:
    for statement in session.ways_back:
        try:
            session.connection.query(statement)
        except ClickHouseError:
            # Nothing to go back to: the setting was refused in the first place, or the database is gone.
            continue
    session.ways_back, session.laid_over = [], ({}, "")


def _ways_back(session: Session, settings: Mapping[str, str], database: str) -> list[str]:
    names = [name for name in settings if not name.startswith("param_")]
    if not session.has_own:
        back = [f"SET {name} = DEFAULT" for name in names]
        return [*back, "USE default"] if database else back
    back = [f"SET {name} = {quoted(session.connection.value(f'getSetting({quoted(name)})'))}" for name in names]
    current = session.connection.value("currentDatabase()")
    return [*back, f"USE {identifier(current)}"] if database else back

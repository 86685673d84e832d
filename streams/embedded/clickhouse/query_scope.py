"""Applies the settings, database and external tables of one request to a connection, and reverts them in a session.

A client usually sends the same settings and database with every request, so a session retains them until they change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streams.embedded.clickhouse.data_dir import READER_SETTINGS
from streams.embedded.clickhouse.engine import Connection, Engine, identifier, quoted
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.gate import Statement
from streams.embedded.clickhouse.request_body import ExternalTable
from streams.embedded.clickhouse.sessions import Session


@dataclass(frozen=True, slots=True)
class QueryScope:
    """The settings, database and tables of one statement; all methods block."""

    settings: Mapping[str, str]
    database: str
    read_only: bool
    is_reader: bool
    tables: Sequence[ExternalTable]

    def open(self, engine: Engine) -> Connection:
        """Open a separate connection for the statement."""
        # A read-only connection is read-only from its first statement on, before any statement of the client.
        connection = engine.connect(self.settings, self.database, read_only=self.read_only, is_reader=self.is_reader)
        try:
            self._create_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def enter(self, session: Session, statement: Statement) -> None:
        """Prepare the session for the statement; `leave` must follow, even after an error."""
        requested = (dict(self.settings), self.database)
        if self.read_only and not statement.reads:
            # The setting `readonly` would also block later writers of the session, because it cannot be reverted.
            raise ClickHouseError(164, "READONLY", "Cannot execute query in readonly mode")
        if statement.changes_session:
            # The statement must change the session's own settings, so revert the overrides of requests first.
            _undo(session)
            session.has_own_settings = True
        elif session.overrides != requested:
            _undo(session)
            session.undo_statements = self._undo_statements(session)
            # The overrides are unknown until all are set, because the engine may refuse one.
            session.overrides = None
            session.connection.configure(self.settings, self.database)
            session.overrides = requested
        self._create_tables(session.connection)

    def leave(self, session: Session) -> None:
        """Drop the external tables of the statement."""
        for table in self.tables:
            session.connection.query(f"DROP TEMPORARY TABLE IF EXISTS {identifier(table.name)}")

    def _undo_statements(self, session: Session) -> list[str]:
        names = [name for name in self.settings if not name.startswith("param_")]
        if not session.has_own_settings:
            own = READER_SETTINGS if self.is_reader else {}
            undo = [f"SET {name} = {own.get(name, 'DEFAULT')}" for name in names]
            return [*undo, "USE default"] if self.database else undo
        undo = [f"SET {name} = {quoted(session.connection.value(f'getSetting({quoted(name)})'))}" for name in names]
        current = session.connection.value("currentDatabase()")
        return [*undo, f"USE {identifier(current)}"] if self.database else undo

    def _create_tables(self, connection: Connection) -> None:
        for table in self.tables:
            connection.query(create_temporary(identifier(table.name), table.structure))
            insert = connection.insert(f"INSERT INTO {identifier(table.name)}", table.format)
            if table.data:
                insert.append(table.data)
            insert.finish()


def create_temporary(name: str, structure: str) -> str:
    """Return the statement for a table in memory; a literal of the engine is parsed as a structure only."""
    return f"CREATE TEMPORARY TABLE {name} ENGINE = Memory AS SELECT * FROM null({structure})"  # noqa: S608 — a literal


def _undo(session: Session) -> None:
    for statement in session.undo_statements:
        try:
            session.connection.query(statement)
        except ClickHouseError:
            # The setting was refused or the database was dropped, so there is nothing to revert.
            continue
    session.undo_statements, session.overrides = [], ({}, "")

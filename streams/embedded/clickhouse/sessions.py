"""Manages sessions, and applies the settings, database and external tables of each request to its connection.

A session is a connection that retains temporary tables and settings between requests, until it expires. A client
usually sends the same settings and database with every request, so a session retains them until they change.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from streams.embedded.clickhouse.data_dir import READER_SETTINGS
from streams.embedded.clickhouse.engine import Connection, identifier, quoted
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.gate import Statement
from streams.embedded.clickhouse.request_body import ExternalTable


@dataclass(slots=True)
class Session:
    """One session; `expires_at` is read only while it is not in use.

    `overrides` are the settings and the database of the last request, `undo_statements` revert them;
    `has_own_settings` is set if a SET or USE of the client changed the session itself.
    """

    connection: Connection
    timeout_s: int
    in_use: bool = True
    expires_at: float = float("inf")
    overrides: tuple[dict[str, str], str] | None = field(default_factory=lambda: ({}, ""))
    undo_statements: list[str] = field(default_factory=list)
    has_own_settings: bool = False


class Sessions:
    """All sessions of one user, by id; used from the event loop only."""

    def __init__(self, max_sessions: int, clock: Callable[[], float]) -> None:
        self._max_sessions = max_sessions
        self._clock = clock
        self._by_id: dict[str, Session | None] = {}

    async def take(self, key: str, *, must_exist: bool, timeout_s: int, connect: Callable[[], Connection]) -> Session:
        """Return the session, created if new; raise ClickHouseError if it is in use, unknown or beyond the limit."""
        self.drop_expired()
        if key in self._by_id:
            session = self._by_id[key]
            if session is None or session.in_use:
                raise ClickHouseError(373, "SESSION_IS_LOCKED", f"Session {key} is locked by a concurrent client")
            session.in_use, session.timeout_s = True, timeout_s
            return session
        if must_exist:
            raise ClickHouseError(372, "SESSION_NOT_FOUND", f"Session {key} not found")
        if len(self._by_id) >= self._max_sessions:
            self._drop_longest_idle()
        self._by_id[key] = None  # locks the id while the connection is opened
        try:
            session = Session(await asyncio.to_thread(connect), timeout_s)
        except BaseException:
            del self._by_id[key]
            raise
        self._by_id[key] = session
        return session

    def release(self, session: Session) -> None:
        """Unlock the session; it expires after its timeout."""
        session.in_use = False
        session.expires_at = self._clock() + session.timeout_s

    def drop_expired(self) -> None:
        """Close the expired sessions."""
        now = self._clock()
        for key, session in list(self._by_id.items()):
            if session is not None and not session.in_use and session.expires_at <= now:
                self._drop(key, session)

    def close(self) -> None:
        """Close all sessions."""
        for key, session in list(self._by_id.items()):
            if session is not None:
                self._drop(key, session)

    def _drop_longest_idle(self) -> None:
        idle = [(s.expires_at, key) for key, s in self._by_id.items() if s is not None and not s.in_use]
        if not idle:
            raise ClickHouseError(202, "TOO_MANY_SIMULTANEOUS_QUERIES", f"Too many sessions: {self._max_sessions}")
        key = min(idle)[1]
        session = self._by_id[key]
        assert session is not None
        self._drop(key, session)

    def _drop(self, key: str, session: Session) -> None:
        del self._by_id[key]
        session.connection.close()


@dataclass(frozen=True, slots=True)
class QueryScope:
    """The settings, database and tables of one statement; all methods block."""

    settings: Mapping[str, str]
    database: str
    is_reader: bool
    tables: Sequence[ExternalTable]

    def enter(self, session: Session, statement: Statement) -> None:
        """Prepare the session for the statement; `leave` must follow, even after an error."""
        requested = (dict(self.settings), self.database)
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
        self.create_tables(session.connection)

    def leave(self, connection: Connection) -> None:
        """Drop the external tables of the statement."""
        for table in self.tables:
            connection.query(f"DROP TEMPORARY TABLE IF EXISTS {identifier(table.name)}")

    def _undo_statements(self, session: Session) -> list[str]:
        names = [name for name in self.settings if not name.startswith("param_")]
        if not session.has_own_settings:
            own = READER_SETTINGS if self.is_reader else {}
            undo = [f"SET {name} = {own.get(name, 'DEFAULT')}" for name in names]
            return [*undo, "USE default"] if self.database else undo
        undo = [f"SET {name} = {quoted(session.connection.value(f'getSetting({quoted(name)})'))}" for name in names]
        current = session.connection.value("currentDatabase()")
        return [*undo, f"USE {identifier(current)}"] if self.database else undo

    def create_tables(self, connection: Connection) -> None:
        """Create the external tables of the statement."""
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

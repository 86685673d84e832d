"""Manages sessions: connections that retain temporary tables and settings between requests, until they expire."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from streams.embedded.clickhouse.engine import Connection
from streams.embedded.clickhouse.errors import ClickHouseError


@dataclass(slots=True)
class Session:
    """One session; `expires_at` is read only while it is not in use.

    `overrides` are the settings and the database of the last request, `undo_statements` revert them;
    `has_own_settings` is set if a SET or USE of the client changed the session itself (see query_scope.py).
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

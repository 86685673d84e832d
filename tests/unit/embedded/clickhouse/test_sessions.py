"""Tests sessions: creation, locking and expiry."""

import pytest

from streams.embedded.clickhouse.engine import Connection
from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.sessions import Session, Sessions
from tests.fakes.processes import FakeSeconds


class Wire:
    """A connection that only knows whether it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


async def take(sessions: Sessions, name: str, wire: Wire, *, must_exist: bool = False) -> Session:
    return await sessions.take(name, must_exist=must_exist, timeout_s=60, connect=lambda: Connection(wire))


async def test_a_session_is_found_again() -> None:
    """The same id gets the same connection; each user has sessions of its own (server.py)."""
    sessions, wire = Sessions(9, FakeSeconds()), Wire()
    first = await take(sessions, "a", wire)
    sessions.release(first)
    assert await take(sessions, "a", Wire()) is first
    assert await take(sessions, "b", Wire()) is not first


async def test_a_session_ends_its_timeout_after_its_last_use() -> None:
    """An idle session is closed after its timeout, a session in use never."""
    clock, wire = FakeSeconds(), Wire()
    sessions = Sessions(9, clock)
    session = await take(sessions, "a", wire)
    clock.now = 1000
    sessions.drop_expired()
    assert not wire.closed
    sessions.release(session)
    clock.now = 1059
    sessions.drop_expired()
    assert not wire.closed
    clock.now = 1060
    sessions.drop_expired()
    assert wire.closed


async def test_the_longest_idle_makes_room() -> None:
    """The bound on sessions is kept; where all are in use, a new one is refused."""
    clock, old = FakeSeconds(), Wire()
    sessions = Sessions(2, clock)
    sessions.release(await take(sessions, "a", old))
    clock.now = 1
    await take(sessions, "b", Wire())
    await take(sessions, "c", Wire())
    assert old.closed
    with pytest.raises(ClickHouseError, match="202"):
        await take(sessions, "d", Wire())


async def test_an_id_is_free_again_after_its_connection_failed() -> None:
    """An engine that refuses once does not lock the session for ever."""
    sessions = Sessions(9, FakeSeconds())

    def refuse() -> Connection:
        raise ClickHouseError(1, "X", "no")

    with pytest.raises(ClickHouseError):
        await sessions.take("a", must_exist=False, timeout_s=1, connect=refuse)
    assert await take(sessions, "a", Wire())

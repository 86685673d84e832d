"""Tests the HTTP interface of the embedded ClickHouse: the privileges of users."""

from typing import Any

import pytest

from streams.embedded.clickhouse.params import READER_LIMITS
from tests.integration.clickhouse_http.plain import Client


def test_a_reader_reads(reader: Client) -> None:
    """SELECT, SHOW, DESCRIBE, EXPLAIN and settings per query are what Grafana needs."""
    for sql in ("SELECT 1", "SHOW DATABASES", "DESCRIBE TABLE system.one", "EXPLAIN SELECT 1", "EXISTS TABLE x"):
        assert reader.ask(sql, max_execution_time=5).status == 200


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("CREATE TABLE r (a Int8) ENGINE = Memory", {}),
        ("INSERT INTO FUNCTION null('a Int8') VALUES (1)", {}),
        ("INSERT INTO for_reader FORMAT CSV\n1", {}),
        ("INSERT INTO for_reader SELECT 1", {}),
        ("INSERT INTO for_reader SELECT 1", {"session_id": "reader"}),
        ("DROP DATABASE default", {}),
        ("KILL QUERY WHERE 1", {}),
        ("SYSTEM FLUSH LOGS", {}),
        ("SET readonly = 0", {}),
        ("SELECT 1 SETTINGS readonly = 0", {}),
        ("SELECT 1", {"readonly": 0}),
        ("CREATE TABLE r (a Int8) ENGINE = Memory", {"session_id": "reader"}),
    ],
)
def test_a_reader_does_nothing_else(reader: Client, sql: str, parameters: dict[str, Any]) -> None:
    """A reader cannot write, kill queries or leave the mode."""
    writer = Client(reader.port)
    writer.ask("CREATE TABLE IF NOT EXISTS for_reader (a Int8) ENGINE = MergeTree ORDER BY a")
    got = reader.ask(sql, **parameters)
    assert got.code in {164, 497}, got.text
    assert writer.ask("SELECT count() FROM for_reader").text == "0"


def test_a_get_writes_nothing(client: Client) -> None:
    """A proxy or client may repeat a GET, so it must not write, in a session too."""
    for sql in ("CREATE TABLE g (a Int8) ENGINE = Memory", "INSERT INTO FUNCTION null('a Int8') VALUES (1)"):
        assert client.ask(method="GET", query=sql).code == 164
        assert client.ask(method="GET", query=sql, session_id="get").code == 164
    assert client.ask("CREATE TEMPORARY TABLE g (a Int8)", session_id="get").status == 200


@pytest.mark.parametrize(("user", "key"), [("reader", ""), ("reader", "default"), ("unknown", "pw")])
def test_other_users_are_refused(client: Client, user: str, key: str) -> None:
    """403 and AUTHENTICATION_FAILED, whether the name or the password is wrong."""
    got = client.ask("SELECT 1", headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": key})
    assert (got.status, got.code) == (403, 516)


def test_a_dropped_default_database_is_recreated(client: Client) -> None:
    """Without it no connection could be opened; it is recreated empty."""
    client.table()
    assert client.ask("DROP DATABASE default").status == 200
    assert client.ask("SHOW TABLES").text == ""


@pytest.mark.parametrize("session", [{}, {"session_id": "limits"}])
def test_a_reader_cannot_raise_its_limits(reader: Client, session: dict[str, Any]) -> None:
    """Neither by a query, nor by the URL, nor by SET in a session, by another profile, or by no limit at all."""
    for name, (value, highest) in READER_LIMITS.items():
        asked = f"SELECT getSetting('{name}')"
        assert reader.ask(asked, **session).text == str(value), name
        chosen: dict[str, Any] = {**session, name: highest}
        assert reader.ask(asked, **chosen).text == str(highest), name
        # No threads is as many as there are cores.
        for other in (highest + 1,) if name == "max_threads" else (0, highest + 1):
            assert reader.ask(asked, **{**chosen, name: other}).code == 452, (name, other)
            assert reader.ask(f"{asked} SETTINGS {name} = {other}", **session).code == 452, (name, other)
        assert reader.ask(asked, **session).text == str(value), f"{name}: that of one query is its own"
    assert reader.ask("SELECT 1", max_memory_usage=0, **session).code == 452


def test_a_session_of_a_reader_cannot_raise_its_limits(reader: Client) -> None:
    """A SET of an own session lasts, within the limits; a profile of fewer constraints lifts none."""
    session = {"session_id": "own"}
    assert reader.ask("SET max_execution_time = 40", **session).status == 200
    assert reader.ask("SELECT getSetting('max_execution_time')", **session).text == "40"
    reader.ask("SET profile = 'default'", **session)
    for sql in ("SET max_execution_time = 0", "SET max_execution_time = 61", "SET max_execution_time = DEFAULT"):
        assert reader.ask(sql, **session).code == 452, sql
    assert reader.ask("SELECT getSetting('max_execution_time')", **session).text == "40"


def test_the_limits_of_a_reader_end_a_query(reader: Client, client: Client) -> None:
    """Time, rows that are read and rows of the result, in a subquery with settings too; a writer has no such limits."""
    slow = "SELECT * FROM (SELECT sleepEachRow(0.1) FROM numbers(100) SETTINGS max_block_size = 1{})"
    for more in ("", ", max_execution_time = 0"):
        assert "TIMEOUT_EXCEEDED" in reader.ask(slow.format(more), max_execution_time=1).text, more
    read = "SELECT count() FROM (SELECT number FROM numbers(10000) SETTINGS max_rows_to_read = {}) WHERE number % 2"
    assert reader.ask(read.format("DEFAULT"), max_rows_to_read=5000).code == 158
    assert reader.ask(read.format("9000")).code == 158
    assert reader.ask("SELECT number FROM numbers(200000)", max_result_rows=1000).code == 396
    assert client.ask("SELECT getSetting('max_execution_time')").text == "0"


def test_the_comment_of_a_table_may_change(client: Client) -> None:
    """Alembic does it."""
    client.ask("CREATE TABLE commented (a Int8) ENGINE = Memory COMMENT 'one'")
    assert client.ask("ALTER TABLE commented MODIFY COMMENT 'two'").status == 200
    assert client.ask("SELECT comment FROM system.tables WHERE name = 'commented'").text == "two"

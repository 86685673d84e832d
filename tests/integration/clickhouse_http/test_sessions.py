"""Tests the HTTP interface of the embedded ClickHouse: sessions, and the limit of concurrent queries."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

from tests.integration.clickhouse_http.plain import Client, until


def test_a_session_keeps_its_tables_and_settings(client: Client) -> None:
    """Temporary tables and SET belong to the session; a setting in the URL only to its call."""
    name = uuid.uuid4().hex
    client.ask("CREATE TEMPORARY TABLE tmp (a Int32)", session_id=name)
    client.ask("INSERT INTO tmp VALUES (7)", session_id=name, max_threads=1)
    assert client.ask("SELECT a FROM tmp", session_id=name, session_check=1).text == "7"
    assert client.ask("SELECT a FROM tmp").code == 60
    client.ask("SET max_threads = 5", session_id=name, max_threads=1)
    asked = "SELECT getSetting('max_threads')"
    assert client.ask(asked, session_id=name, max_threads=2).text == "2"
    assert client.ask(asked, session_id=name).text == "5"
    client.ask("USE system", session_id=name)
    assert client.ask("SELECT currentDatabase()", session_id=name, database="default").text == "default"
    assert client.ask("SELECT currentDatabase()", session_id=name).text == "system"
    refused = client.ask("SELECT 1", session_id=name, no_such_setting=1)
    assert refused.code == 115
    assert client.ask("SELECT 1", session_id=name, no_such_setting=1).code == 115
    assert client.ask("SELECT 1", session_id="unknown", session_check=1).code == 372


SLEEPERS = "SELECT count() FROM system.processes WHERE query LIKE 'SELECT sleep%'"


def test_a_session_serves_one_query_at_a_time(client: Client) -> None:
    """A second one is refused as the server does."""
    name = uuid.uuid4().hex
    slow = threading.Thread(target=client.ask, args=("SELECT sleep(2)",), kwargs={"session_id": name})
    slow.start()
    until(lambda: client.ask(SLEEPERS).text == "1", "the query never ran")
    assert client.ask("SELECT 1", session_id=name).code == 373
    slow.join()
    assert client.ask("SELECT 1", session_id=name).text == "1"


def test_a_session_is_free_at_the_end_of_its_response(client: Client) -> None:
    """Clients send the next query of a session as soon as they have received the end of the last response."""
    for _ in range(10):
        # Slower than the time of buffering, so that the response is streamed.
        slow = client.ask("SELECT sleepEachRow(0.15) FROM numbers(1)", session_id="again", max_block_size=1)
        assert "transfer-encoding" in slow.headers
        assert client.ask("SELECT 1", session_id="again").text == "1"


def test_too_many_queries_at_once_are_refused(client: Client) -> None:
    """Four of eight concurrent queries are served, and the others are refused with the server's code."""
    with ThreadPoolExecutor(8) as pool:
        codes = sorted(one.code for one in pool.map(client.ask, ["SELECT sleep(2)"] * 8))
    assert codes == [0, 0, 0, 0, 202, 202, 202, 202]
    assert client.ask("SELECT 1").text == "1"

"""Tests the HTTP interface of the embedded ClickHouse: queries, parameters, settings, responses and errors."""

import http.client
import json
import uuid
from typing import Any

import pytest

from tests.integration.clickhouse_http.plain import Client, until


def test_health_needs_no_query(client: Client) -> None:
    """/ping, /replicas_status and / respond Ok; any other path is not found."""
    for path in ("/ping", "/replicas_status", "/"):
        assert client.ask(method="GET", path=path).body == b"Ok.\n"
    assert client.ask(method="GET", path="/nothing").status == 404


def test_a_query_may_be_in_the_url_the_body_or_both(client: Client) -> None:
    """As the server does, the URL's part comes first."""
    assert client.ask(method="GET", query="SELECT 1").text == "1"
    assert client.ask("SELECT 1").text == "1"
    assert client.ask("+ 1", query="SELECT 1").text == "2"


def test_a_response_has_its_format_in_the_headers(client: Client) -> None:
    """Format, query id, time zone and a summary are in the headers."""
    headers = client.ask("SELECT 1", query_id="mine", default_format="JSONEachRow").headers
    assert headers["x-clickhouse-query-id"] == "mine"
    assert headers["x-clickhouse-format"] == "JSONEachRow"
    assert headers["x-clickhouse-timezone"]
    assert headers["x-clickhouse-server-display-name"]
    assert json.loads(headers["x-clickhouse-summary"])["read_rows"] == "1"


@pytest.mark.parametrize(
    "sql", ["FROM numbers(2) SELECT number", "(SELECT 1)", "WITH 1 AS x SELECT x", "(SELECT 1) UNION ALL (SELECT 2)"]
)
def test_every_form_of_a_select_may_be_a_document(reader: Client, sql: str) -> None:
    """Its text is confirmed by EXPLAIN first."""
    assert json.loads(reader.ask(f"{sql} SETTINGS max_threads = 1 FORMAT JSONCompact").text)["rows"] in {1, 2}


def test_totals_are_in_a_result_of_rows(reader: Client) -> None:
    """They would be missing from a result in pieces."""
    sql = "SELECT number % 2 AS n, count() FROM numbers(4) GROUP BY n WITH TOTALS ORDER BY n"
    assert reader.ask(sql).text == "0\t2\n1\t2\n\n0\t4"


@pytest.mark.parametrize("name", ["JSON", "CSVWithNames", "XML", "JSONCompact", "Pretty"])
def test_a_result_of_many_blocks_is_one_document(client: Client, name: str) -> None:
    """Streaming must not repeat a format's head for each block."""
    few = client.ask(f"SELECT number AS n FROM numbers(3) FORMAT {name}", max_block_size=1).text
    heads = {"JSON": '"meta"', "JSONCompact": '"meta"', "CSVWithNames": '"n"', "XML": "<meta>", "Pretty": " n "}
    assert few.count(heads[name]) == 1
    assert "2" in few


def test_a_document_is_bounded_and_rows_are_not(client: Client, reader: Client) -> None:
    """A result in JSON is held whole: by the memory of its query, and of a reader by 64 MiB."""
    sql = "SELECT number AS n, repeat('x', 100) AS x FROM numbers({}) FORMAT {}"
    assert reader.ask(sql.format(200_000, "JSONCompact")).status == 200
    assert reader.ask(sql.format(900_000, "JSONCompact")).code in {241, 396}
    assert client.ask(sql.format(10_000_000, "JSONCompact")).code == 241
    assert len(reader.ask(sql.format(900_000, "JSONCompactEachRow")).body) > 90_000_000


def test_a_large_result_is_streamed(client: Client) -> None:
    """The first bytes of an endless result are sent while it is computed; a disconnect stops the query."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    mark = f"n_{uuid.uuid4().hex}"
    connection.request("POST", "/", f"SELECT number AS {mark} FROM system.numbers", client.headers)
    got = connection.getresponse()
    assert got.status == 200
    assert got.read(8) == b"0\n1\n2\n3\n"
    running = (
        f"SELECT count() FROM system.processes WHERE query LIKE '%AS {mark} FROM%' AND query NOT LIKE '%processes%'"
    )
    assert client.ask(running).text == "1"
    connection.close()
    got.close()
    until(lambda: client.ask(running).text == "0", "the query outlives its client")


def test_settings_apply_to_one_query(client: Client) -> None:
    """A setting in the URL applies to one query; an unknown one is refused with the server's code."""
    assert client.ask("SELECT getSetting('max_threads')", max_threads=3).text == "3"
    assert client.ask("SELECT getSetting('max_block_size')", max_threads=3).text == "65409"
    unknown = client.ask("SELECT 1", no_such_setting=1)
    assert (unknown.status, unknown.code) == (404, 115)
    odd: dict[str, Any] = {"a = 1, max_threads": 1}
    wrong = client.ask("SELECT 1", **odd)
    assert (wrong.status, wrong.code) == (404, 115)


def test_typed_parameters_are_values(client: Client) -> None:
    """The value of a parameter never becomes SQL."""
    got = client.ask(
        "SELECT {s:String}, {n:Nullable(Int8)}, {a:Array(String)} FROM {t:Identifier}",
        param_s="a'; DROP TABLE x; --\\t$",
        param_n="\\N",
        param_a="['x','y']",
        param_t="numbers",
        database="system",
        limit=1,
    )
    assert got.status == 200, got.text
    assert got.text == "a\\'; DROP TABLE x; --\\t$\t\\N\t['x','y']"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT nope",
        "SELECT",
        "SELECT 1 +",
        "SELECT 1 AS",
        "SELECT nope FROM numbers(2) FORMAT JSON",
        "SELECT 1 SETTINGS x = 1",
    ],
)
def test_an_error_quotes_only_what_the_client_wrote(client: Client, sql: str) -> None:
    """The pipe by which the result leaves the engine is in no message."""
    failed = client.ask(sql)
    assert failed.status >= 400
    assert "OUTFILE '" not in failed.text and "/dev/fd" not in failed.text, failed.text


def test_a_dollar_sign_in_the_name_of_a_parameter(client: Client) -> None:
    """As ClickHouse's bare words may have one; nothing else than a bare word is a name."""
    given: dict[str, Any] = {"param_a$b": 5, "param_c$": 2}
    assert client.ask("SELECT {a$b:UInt8} + {c$:UInt8}", **given).text == "7"
    for name in ("param_a b", "param_a$ = 1, max_threads", "$param", "param_\u00e4"):
        wrong: dict[str, Any] = {name: 1}
        refused = client.ask("SELECT 1", **wrong)
        assert (refused.status, refused.code) == (404, 115), name


def test_the_database_is_that_of_the_request(client: Client) -> None:
    """The database is set by parameter or header, and is `default` without either."""
    asked = "SELECT currentDatabase()"
    assert client.ask(asked).text == "default"
    assert client.ask(asked, database="system").text == "system"
    assert client.ask(asked, headers={"X-ClickHouse-Database": "system"}).text == "system"
    missing = client.ask(asked, database="nowhere")
    assert (missing.status, missing.code) == (404, 81)


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        ("SELECT", 400, 62),
        ("SELECT nope", 404, 47),
        ("SELECT * FROM nope", 404, 60),
        ("SELECT nope()", 404, 46),
        ("SELECT 1 FORMAT Nope", 404, 73),
        ("SELECT toInt8('x')", 400, 6),
        ("SELECT throwIf(1)", 500, 395),
        ("INSERT INTO nope FORMAT CSV\n1", 404, 60),
        (
            "SELECT sleep(3) SETTINGS max_execution_time = 1, function_sleep_max_microseconds_per_block = 4000000",
            408,
            159,
        ),
        ("SELECT groupArray(number) FROM numbers(1000000000)", 500, 241),
        ("SELECT 1; SELECT 2", 400, 62),
    ],
)
def test_errors_have_the_servers_code_and_status(client: Client, sql: str, status: int, code: int) -> None:
    """Clients evaluate both; the memory of a query is bounded."""
    got = client.ask(sql)
    assert (got.status, got.code) == (status, code), got.text
    assert got.text.startswith(f"Code: {code}. DB::Exception: ")
    assert "(version " in got.text


def test_an_error_in_midstream_is_marked_in_the_body(client: Client) -> None:
    """Sent data remains; the error follows between the marks with the tag of the header."""
    got = client.ask("SELECT throwIf(number = 5000000) FROM numbers(10000000)", max_block_size=1000)
    tag = got.headers["x-clickhouse-exception-tag"].encode()
    assert got.status == 200
    tail = got.body[got.body.index(b"\r\n__exception__\r\n" + tag) :]
    assert b"FUNCTION_THROW_IF_VALUE_IS_NON_ZERO" in tail
    assert tail.endswith(tag + b"\r\n__exception__\r\n")


def test_wait_end_of_query_keeps_the_status_correct(client: Client) -> None:
    """A client that waits for the end gets the error by its status, whatever preceded it."""
    got = client.ask("SELECT throwIf(number = 5000000) FROM numbers(10000000)", wait_end_of_query=1)
    assert (got.status, got.code) == (500, 395)


def test_a_table_may_be_sent_with_its_query(client: Client) -> None:
    """External tables are sent in a form, whose fields are parameters of the query."""
    form = (
        b'--x\r\nContent-Disposition: form-data; name="param_n"\r\n\r\n1\r\n'
        b'--x\r\nContent-Disposition: form-data; name="ext"; filename="e"\r\n\r\n1\tone\n2\ttwo\r\n--x--\r\n'
    )
    got = client.ask(
        form,
        query="SELECT b FROM ext WHERE a > {n:Int32}",
        ext_structure="a Int32, b String",
        headers={"Content-Type": "multipart/form-data; boundary=x"},
    )
    assert got.text == "two"


def test_a_join_hides_no_rows_from_a_later_query(client: Client, reader: Client) -> None:
    """ClickHouse's cache of conditions records that no row matches, if the rows of a condition have no partner."""
    client.ask("CREATE TABLE versions (version String, device String, speed Nullable(UInt64)) ENGINE = MergeTree"
               " ORDER BY version")  # fmt: skip
    client.ask("CREATE TABLE devices (device String) ENGINE = MergeTree ORDER BY device")
    client.ask("INSERT INTO versions VALUES ('one', 'leaf1', NULL), ('two', 'leaf1', NULL)")
    one_each = "SELECT * FROM versions WHERE version = 'two' LIMIT 1 BY device"
    for user in (client, reader):
        joined = f"devices INNER JOIN ({one_each}) AS one USING device WHERE speed > 0"
        assert user.ask(f"SELECT count() FROM {joined}").text == "0"
        assert user.ask("SELECT count() FROM versions WHERE version = 'two'").text == "1"

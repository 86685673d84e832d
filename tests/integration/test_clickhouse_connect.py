"""Tests clickhouse-connect with the embedded ClickHouse: features that its users rely on, beyond plain HTTP."""

import asyncio
import datetime as dt
import zoneinfo
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import clickhouse_connect
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, StreamFailureError
from clickhouse_connect.driver.external import ExternalData

from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse, User

PASSWORD = "connect"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    users = (User("default", PASSWORD),)
    with EmbeddedClickHouse(ClickHouseParams(data=tmp_path_factory.mktemp("clickhouse"), users=users)) as server:
        yield server.port


@pytest.fixture(params=[True, False], ids=["session", "no session"])
def client(port: int, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return a client with a session of its own, as is its default, and one without."""
    one = clickhouse_connect.get_client(
        host="127.0.0.1", port=port, password=PASSWORD, autogenerate_session_id=request.param
    )
    yield one
    one.close()


def test_it_negotiates_a_revision(client: Any) -> None:
    """The response to the client's probe is that of a server, so that time zones are sent with their columns."""
    asked = "SELECT toDateTime(0, 'Asia/Tokyo') AS t, 'x' AS s, [toLowCardinality('y')] AS l, toDateTime(0, 'UTC') AS u"
    ((tokyo, _, _, _),) = client.query(asked).result_rows
    assert tokyo == dt.datetime(1970, 1, 1, 9, tzinfo=zoneinfo.ZoneInfo("Asia/Tokyo"))
    assert tokyo.tzinfo == zoneinfo.ZoneInfo("Asia/Tokyo")
    assert client.raw_query("SELECT 1 AS a FORMAT Native").hex() == "0101016105" + b"UInt8".hex() + "01"


def test_every_type_survives_the_round_trip(client: Any) -> None:
    """Values are inserted and read as Native, with and without time zones."""
    client.command("DROP TABLE IF EXISTS types")
    client.command(
        "CREATE TABLE types (i UInt32, s String, f Nullable(Float64), d Decimal(10, 3), t DateTime('Asia/Tokyo'), "
        "t9 DateTime64(9, 'UTC'), a Array(LowCardinality(String)), m Map(String, Int64), u UUID, v4 IPv4, "
        "e Enum8('up' = 1, 'down' = 2), j JSON, y Dynamic, w Variant(Int64, String), p Point, b Bool) "
        "ENGINE = MergeTree ORDER BY i"
    )
    when = dt.datetime(2026, 2, 3, 4, 5, 6, tzinfo=zoneinfo.ZoneInfo("Asia/Tokyo"))
    row = [7, "é", None, Decimal("1.500"), when, when, ["a", "b"], {"k": -1}]
    row += ["12345678-1234-5678-1234-567812345678", "10.0.0.1", "down", {"a": {"b": 1}}, "y", "w", (1.0, 2.0), True]
    summary = client.insert("types", [row])
    assert summary.written_rows == 1
    (got,) = client.query("SELECT * FROM types").result_rows
    assert got[:4] == (7, "é", None, Decimal("1.500"))
    assert got[4] == when
    assert (got[6], got[7], got[10]) == (["a", "b"], {"k": -1}, "down")
    assert (got[11], got[12], got[13], got[15]) == ({"a": {"b": 1}}, "y", "w", True)


def test_strings_for_a_dynamic_column_stay_strings(client: Any) -> None:
    """The client sends strings; a server's reader of Native does not infer their type, whatever the setting is."""
    client.command("DROP TABLE IF EXISTS dynamics")
    client.command("CREATE TABLE dynamics (i UInt32, y Dynamic) ENGINE = MergeTree ORDER BY i")
    client.insert("dynamics", [[1, 5], [2, "x"]])
    assert client.query("SELECT dynamicType(y) FROM dynamics ORDER BY i").result_rows == [("String",), ("String",)]


def test_frames_and_arrow_are_inserted_and_read(client: Any) -> None:
    """Pandas and pyarrow work in both directions."""
    client.command("DROP TABLE IF EXISTS frames")
    client.command("CREATE TABLE frames (a Int64, b String) ENGINE = MergeTree ORDER BY a")
    client.insert_df("frames", pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
    client.insert_arrow("frames", pa.table({"a": pa.array([3], pa.int64()), "b": ["z"]}))
    assert client.query_df("SELECT * FROM frames ORDER BY a")["b"].tolist() == ["x", "y", "z"]
    assert client.query_arrow("SELECT * FROM frames").num_rows == 3
    with client.query_arrow_stream("SELECT number FROM numbers(300000)") as stream:
        assert sum(batch.num_rows for batch in stream) == 300_000


def test_large_results_stream_in_blocks(client: Any) -> None:
    """A result is read block by block, not after its end."""
    with client.query_column_block_stream("SELECT number FROM numbers(1000000)") as stream:
        sizes = [len(block[0]) for block in stream]
    assert len(sizes) > 5
    assert sum(sizes) == 1_000_000


def test_an_error_in_midstream_is_raised(client: Any) -> None:
    """The rows before the error do not hide it."""
    asked = "SELECT sleepEachRow(0.01), throwIf(number = 50) FROM numbers(200)"
    with (
        pytest.raises(StreamFailureError, match="throwIf"),
        client.query_rows_stream(asked, settings={"max_block_size": 1, "wait_end_of_query": 0}) as stream,
    ):
        list(stream)
    assert client.command("SELECT 1") == 1


def test_errors_have_code_and_name(client: Any) -> None:
    """The client parses both from the message."""
    with pytest.raises(DatabaseError) as raised:
        client.query("SELECT * FROM nowhere")
    assert (raised.value.code, raised.value.name) == (60, "UNKNOWN_TABLE")


@pytest.mark.parametrize("tail", [";", ";\n", ";\u00a0", "; /* c */", " // LIMIT 0", "; -- end"])
def test_trailing_characters_of_a_statement_are_ignored(client: Any, tail: str) -> None:
    """Semicolons, blanks and comments at the end do not hide the format that is added."""
    assert client.query(f"SELECT 13{tail}\n").result_rows == [(13,)]
    assert client.raw_query(f"SELECT 13{tail}\n", fmt="TabSeparated") == b"13\n"


def test_a_statement_without_a_result_gives_a_summary(client: Any) -> None:
    """The client recognizes it by the missing format, unlike an empty result."""
    assert "query_id" in client.command("DROP TABLE IF EXISTS nowhere").summary
    assert "query_id" in client.query("SET max_threads = 2").first_item
    assert client.command("SELECT 13 WHERE 0") == ""
    assert client.query("SELECT 1 AS a LIMIT 0").column_names == ("a",)
    assert client.query("EXPLAIN SELECT 1").row_count > 1


def test_data_within_the_statement_keeps_its_semicolons(client: Any) -> None:
    """An INSERT may be one text, also after a WITH."""
    client.command("DROP TABLE IF EXISTS inline")
    client.command("CREATE TABLE inline (s String) ENGINE = MergeTree ORDER BY s")
    client.command("INSERT INTO inline (s) FORMAT TabSeparated\none;\n")
    client.query(
        "WITH {SELECT:Int32} AS v INSERT INTO inline (s) FORMAT TabSeparated\ntwo;\n", parameters={"SELECT": 1}
    )
    assert client.query("SELECT s FROM inline ORDER BY s").result_rows == [("one;",), ("two;",)]


def test_parameters_may_be_sent_in_a_form(port: int) -> None:
    """They have every character that URLs, forms and SQL treat specially."""
    one = clickhouse_connect.get_client(host="127.0.0.1", port=port, password=PASSWORD, form_encode_query_params=True)
    odd = "a$b'\"\\x\t\n&=;%{x:Int8}"
    got = one.query(
        "SELECT {s:String}, {n:Nullable(String)}, {a:Array(UInt32)}", parameters={"s": odd, "n": None, "a": [1, 2]}
    )
    assert got.result_rows == [(odd, None, [1, 2])]
    one.close()


def test_binary_data_may_be_in_the_query(client: Any) -> None:
    """The client sends it in a heredoc, whatever its bytes."""
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(pa.table({"a": [1, 2]}), sink)
    got = client.query("SELECT a FROM format(Parquet, $p$)", parameters={"$p$": bytes(sink.getvalue())})
    assert got.result_rows == [(1,), (2,)]


def test_tables_may_be_sent_with_a_query(client: Any) -> None:
    """External tables may be empty, and are available to INSERT … SELECT."""
    people = ExternalData(file_name="people.csv", data=b"a\t1\nb\t2", structure="name String, n UInt16")
    assert client.query("SELECT name FROM people WHERE n = 2", external_data=people).result_rows == [("b",)]
    empty = ExternalData(file_name="none.csv", data=b"", structure="name String")
    assert client.query("SELECT * FROM none", external_data=empty).result_rows == []


@pytest.mark.parametrize("compression", ["gzip", "lz4", "zstd", "deflate"])
def test_raw_data_may_be_compressed(client: Any, compression: str) -> None:
    """A body that the caller compressed is decompressed on arrival."""
    import gzip
    import zlib

    import lz4.frame
    import zstandard

    pack = {"gzip": gzip.compress, "lz4": lz4.frame.compress, "zstd": zstandard.compress, "deflate": zlib.compress}
    client.command("DROP TABLE IF EXISTS packed")
    client.command("CREATE TABLE packed (a Int32) ENGINE = MergeTree ORDER BY a")
    client.raw_insert("packed", ["a"], pack[compression](b"1\n2\n"), fmt="CSV", compression=compression)
    assert client.command("SELECT sum(a) FROM packed") == 3


def test_temporary_tables_belong_to_the_session(port: int) -> None:
    """They are created, filled and read by one client, and unknown to another."""
    one = clickhouse_connect.get_client(host="127.0.0.1", port=port, password=PASSWORD)
    other = clickhouse_connect.get_client(host="127.0.0.1", port=port, password=PASSWORD)
    one.command("CREATE TEMPORARY TABLE mine (a Int32)")
    one.insert("mine", [[1], [2]])
    assert one.command("SELECT sum(a) FROM mine") == 3
    with pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
        other.command("SELECT sum(a) FROM mine")
    one.close()
    other.close()


async def test_an_asynchronous_client_runs_many_queries_concurrently(port: int) -> None:
    """Sixteen queries that sleep overlap."""
    one = await clickhouse_connect.get_async_client(host="127.0.0.1", port=port, password=PASSWORD)
    loop = asyncio.get_running_loop()
    began = loop.time()
    got = await asyncio.gather(*[one.query(f"SELECT {i}, sleep(1)") for i in range(16)])
    assert [answer.result_rows[0][0] for answer in got] == list(range(16))
    assert loop.time() - began < 12
    await one.close()

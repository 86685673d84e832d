"""Tests clickhouse-connect with the embedded ClickHouse: features that its users rely on, beyond plain HTTP."""

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
from clickhouse_connect.driver.exceptions import StreamFailureError

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


def test_a_statement_may_have_any_bytes_in_a_heredoc(client: Any) -> None:
    """The engine's errors quote them, and the library cannot decode those."""
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(pa.table({"a": [1, 2]}), sink)
    data = bytes(sink.getvalue())
    got = client.query("SELECT sum(a) FROM format(Parquet, $parquet$)", parameters={"$parquet$": data})
    assert got.result_rows == [(3,)]

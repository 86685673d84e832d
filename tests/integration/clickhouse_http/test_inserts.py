"""Tests the HTTP interface of the embedded ClickHouse: inserts in every format, and compression both ways."""

import gzip
import http.client
import json
import zlib

import lz4.frame
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from streams.embedded.clickhouse import EmbeddedClickHouse
from streams.embedded.clickhouse.compression import ClickHouseBlockEncoder, ClickHouseBlocks, city_hash_128
from tests.fixtures.changing_folder import paths_below
from tests.integration.clickhouse_http.plain import Client, until


def arrow(stream: bool) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table({"a": pa.array([1, 2], pa.int32()), "b": ["x", "y"]})
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int32()), "b": ["x", "y"]}), sink)
    return bytes(sink.getvalue())


ROWS = {
    "Native": b"\x02\x02\x01a\x05Int32\x01\x00\x00\x00\x02\x00\x00\x00\x01b\x06String\x01x\x01y",
    "RowBinary": b"\x01\x00\x00\x00\x01x\x02\x00\x00\x00\x01y",
    "JSONEachRow": b'{"a":1,"b":"x"}\n{"a":2,"b":"y"}\n',
    "CSV": b'1,"x"\n2,"y"\n',
    "CSVWithNames": b"b,a\nx,1\ny,2\n",
    "TabSeparated": b"1\tx\n2\ty\n",
    "Values": b"(1, 'x'), (1 + 1, concat('', 'y'))",
    "JSONCompactEachRow": b'[1,"x"]\n[2,"y"]\n',
    "Arrow": arrow(stream=False),
    "ArrowStream": arrow(stream=True),
    "Parquet": parquet(),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("in_url", [True, False])
def test_data_is_inserted_in_every_format(client: Client, name: str, in_url: bool) -> None:
    """The data may follow the statement or be the whole body; the summary counts what was written."""
    table = client.table()
    head = f"INSERT INTO {table} (a, b) FORMAT {name}"
    got = client.ask(ROWS[name], query=head) if in_url else client.ask(head.encode() + b"\n" + ROWS[name])
    assert got.status == 200, got.text
    assert json.loads(got.headers["x-clickhouse-summary"])["written_rows"] == "2"
    assert client.ask(f"SELECT * FROM {table} ORDER BY a").text == "1\tx\n2\ty"


COMPRESSED = {"gzip": gzip.compress, "deflate": zlib.compress, "lz4": lz4.frame.compress, "zstd": zstandard.compress}


@pytest.mark.parametrize("encoding", COMPRESSED)
def test_bodies_and_responses_are_compressed(client: Client, encoding: str) -> None:
    """Content-Encoding of a request and Accept-Encoding for the response are independent."""
    table = client.table()
    data = f"INSERT INTO {table} FORMAT CSV\n".encode() + b"".join(b'%d,"x"\n' % i for i in range(200_000))
    assert client.ask(COMPRESSED[encoding](data), headers={"Content-Encoding": encoding}).status == 200
    got = client.ask(f"SELECT a FROM {table} ORDER BY a", headers={"Accept-Encoding": encoding})
    assert got.headers["content-encoding"] == encoding
    unpacked = {
        "gzip": gzip.decompress,
        "deflate": zlib.decompress,
        "lz4": lz4.frame.decompress,
        "zstd": lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body),
    }[encoding](got.body)
    assert unpacked.count(b"\n") == 200_000
    refused = client.ask(f"SELECT a FROM {table}", headers={"Accept-Encoding": encoding}, enable_http_compression=0)
    assert "content-encoding" not in refused.headers


def test_clickhouses_own_compression_works_both_ways(client: Client) -> None:
    """Clients without HTTP compression use compress=1 and decompress=1."""
    encoder = ClickHouseBlockEncoder()
    packed = encoder.feed(b"SELECT number FROM numbers(300000)") + encoder.finish()
    got = client.ask(packed, decompress=1, compress=1)
    decoder = ClickHouseBlocks()
    assert b"".join(decoder.pieces(got.body)).count(b"\n") == 300_000
    decoder.finish()


def test_our_checksums_equal_those_of_the_engine(server: EmbeddedClickHouse, client: Client) -> None:
    """Every compressed block that the engine wrote into a part has the checksum that we compute."""
    client.ask("CREATE TABLE sums (a UInt64, b String CODEC(NONE)) ENGINE = MergeTree ORDER BY a")
    for size in (1, 7, 15, 40, 130, 300, 1000, 5000):
        client.ask(f"INSERT INTO sums SELECT cityHash64(number), toString(number * number) FROM numbers({size})")
    seen = set()
    for file in (path for path in paths_below(server.data) if path.match("all_*/data.bin")):
        data, at = file.read_bytes(), 0
        while at < len(data):
            end = at + 16 + int.from_bytes(data[at + 17 : at + 21], "little")
            assert city_hash_128(data[at + 16 : end]) == data[at : at + 16]
            seen.add(end - at)
            at = end
    assert len([size for size in seen if size > 200]) > 3


def test_a_bad_row_inserts_nothing(client: Client) -> None:
    """An INSERT that fails to parse stores no rows of its block, and the server continues."""
    table = client.table()
    got = client.ask(f"INSERT INTO {table} FORMAT CSV\n1,x\nnope,y\n")
    assert got.status == 400
    assert client.ask(f"SELECT count() FROM {table}").text == "0"


def test_an_insert_may_select_from_its_data(client: Client) -> None:
    """input() in an INSERT … SELECT works in any format, in a session too, and repeatedly."""
    table = client.table()
    sql = f"INSERT INTO {table} SELECT a * 10, upper(b) FROM input('a Int32, b String') WHERE a > 1 FORMAT RowBinary"
    for session in ({}, {"session_id": "input"}, {"session_id": "input"}):
        got = client.ask(ROWS["RowBinary"], query=sql, **session)
        assert got.status == 200, got.text
    assert client.ask(f"SELECT DISTINCT *, count() OVER () FROM {table}").text == "20\tY\t3"


def test_an_aborted_upload_inserts_nothing(client: Client) -> None:
    """Half a body is not inserted."""
    table = client.table()
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    connection.putrequest("POST", "/")
    connection.putheader("Content-Length", "100000")
    for name, value in client.headers.items():
        connection.putheader(name, value)
    connection.endheaders(f"INSERT INTO {table} FORMAT CSV\n1,x\n2,y\n".encode())
    connection.close()
    until(lambda: client.ask("SELECT count() FROM system.processes").text == "1", "the INSERT outlives its client")
    assert client.ask(f"SELECT count() FROM {table}").text == "0"

"""The HTTP interface of the embedded ClickHouse, as plain HTTP clients meet it."""

import gzip
import http.client
import json
import threading
import time
import urllib.parse
import uuid
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import lz4.frame
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse, Limits, User
from streams.embedded.clickhouse.cityhash import city_hash_128
from streams.embedded.clickhouse.compression import ClickHouseBlockEncoder, ClickHouseBlocks


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode().rstrip("\n")

    @property
    def code(self) -> int:
        return int(self.headers.get("x-clickhouse-exception-code", "0"))


@dataclass(frozen=True)
class Client:
    """Asks one server over plain HTTP."""

    port: int
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, body: bytes | str = b"", method: str = "POST", path: str = "/", **parameters: Any) -> Answer:
        given = {name.removesuffix("_"): str(value) for name, value in parameters.items() if name != "headers"}
        headers = {**self.headers, **parameters.get("headers", {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            data = body.encode() if isinstance(body, str) else body
            connection.request(method, f"{path}?{urllib.parse.urlencode(given)}" if given else path, data, headers)
            got = connection.getresponse()
            return Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            connection.close()

    def table(self, columns: str = "a Int32, b String", order: str = "a", more: str = "") -> str:
        """Make a table of its own and return its name."""
        name = f"t_{uuid.uuid4().hex[:12]}"
        made = self.ask(f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree ORDER BY {order} {more}")
        assert made.status == 200, made.text
        return name


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedClickHouse]:
    """One server with a user who may do everything and one who may read."""
    users = (User("default"), User("reader", "pw", read_only=True))
    limits = Limits(server_memory_bytes=2 << 30, query_memory_bytes=256 << 20, concurrent_queries=4)
    params = ClickHouseParams(data=tmp_path_factory.mktemp("clickhouse"), users=users, limits=limits)
    with EmbeddedClickHouse(params) as one:
        yield one


@pytest.fixture
def client(server: EmbeddedClickHouse) -> Client:
    return Client(server.port)


@pytest.fixture
def reader(server: EmbeddedClickHouse) -> Client:
    return Client(server.port, {"X-ClickHouse-User": "reader", "X-ClickHouse-Key": "pw"})


def test_health_is_answered_without_a_query(client: Client) -> None:
    """/ping, /replicas_status and / say Ok; any other path is not found."""
    for path in ("/ping", "/replicas_status", "/"):
        assert client.ask(method="GET", path=path).body == b"Ok.\n"
    assert client.ask(method="GET", path="/nothing").status == 404


def test_a_query_may_stand_in_the_url_the_body_or_both(client: Client) -> None:
    """As the server does, the URL's part comes first."""
    assert client.ask(method="GET", query="SELECT 1").text == "1"
    assert client.ask("SELECT 1").text == "1"
    assert client.ask("+ 1", query="SELECT 1").text == "2"


def test_an_answer_says_what_it_is(client: Client) -> None:
    """Format, query id, time zone and a summary stand in the headers."""
    headers = client.ask("SELECT 1", query_id="mine", default_format="JSONEachRow").headers
    assert headers["x-clickhouse-query-id"] == "mine"
    assert headers["x-clickhouse-format"] == "JSONEachRow"
    assert headers["x-clickhouse-timezone"]
    assert headers["x-clickhouse-server-display-name"]
    assert json.loads(headers["x-clickhouse-summary"])["read_rows"] == "1"


@pytest.mark.parametrize("name", ["JSON", "CSVWithNames", "XML", "JSONCompact", "Pretty"])
def test_a_result_of_many_blocks_is_one_document(client: Client, name: str) -> None:
    """Streaming must not repeat a format's head for each block."""
    few = client.ask(f"SELECT number AS n FROM numbers(3) FORMAT {name}", max_block_size=1).text
    heads = {"JSON": '"meta"', "JSONCompact": '"meta"', "CSVWithNames": '"n"', "XML": "<meta>", "Pretty": " n "}
    assert few.count(heads[name]) == 1
    assert "2" in few


def test_a_large_result_streams(client: Client) -> None:
    """The first bytes of an endless result are there while it is computed; leaving it stops the query."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    mark = f"n_{uuid.uuid4().hex}"
    connection.request("POST", "/", f"SELECT number AS {mark} FROM system.numbers")
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


def test_settings_are_the_querys_own(client: Client) -> None:
    """A setting in the URL holds for one query; an unknown one is refused with the server's code."""
    assert client.ask("SELECT getSetting('max_threads')", max_threads=3).text == "3"
    assert client.ask("SELECT getSetting('max_block_size')", max_threads=3).text == "65409"
    unknown = client.ask("SELECT 1", no_such_setting=1)
    assert (unknown.status, unknown.code) == (404, 115)
    odd: dict[str, Any] = {"a = 1, max_threads": 1}
    wrong = client.ask("SELECT 1", **odd)
    assert (wrong.status, wrong.code) == (404, 115)


def test_typed_parameters_are_values(client: Client) -> None:
    """What a parameter holds never becomes SQL."""
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


def test_the_database_is_the_calls(client: Client) -> None:
    """By parameter or header, and `default` without either."""
    asked = "SELECT currentDatabase()"
    assert client.ask(asked).text == "default"
    assert client.ask(asked, database="system").text == "system"
    assert client.ask(asked, headers={"X-ClickHouse-Database": "system"}).text == "system"
    missing = client.ask(asked, database="nowhere")
    assert (missing.status, missing.code) == (404, 81)


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
def test_bodies_and_answers_are_compressed(client: Client, encoding: str) -> None:
    """Content-Encoding of a request and Accept-Encoding for the answer, each by itself."""
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
    """compress=1 and decompress=1, as clients without HTTP's compression use them."""
    encoder = ClickHouseBlockEncoder()
    packed = encoder.feed(b"SELECT number FROM numbers(300000)") + encoder.finish()
    got = client.ask(packed, decompress=1, compress=1)
    decoder = ClickHouseBlocks()
    assert (decoder.feed(got.body) + decoder.finish()).count(b"\n") == 300_000


def test_our_checksums_are_the_engines(server: EmbeddedClickHouse, client: Client) -> None:
    """Every compressed block that the engine wrote into a part carries the checksum that we compute."""
    client.ask("CREATE TABLE sums (a UInt64, b String CODEC(NONE)) ENGINE = MergeTree ORDER BY a")
    for size in (1, 7, 15, 40, 130, 300, 1000, 5000):
        client.ask(f"INSERT INTO sums SELECT cityHash64(number), toString(number * number) FROM numbers({size})")
    seen = set()
    for file in server.data.glob("store/*/*/all_*/data.bin"):
        data, at = file.read_bytes(), 0
        while at < len(data):
            end = at + 16 + int.from_bytes(data[at + 17 : at + 21], "little")
            assert city_hash_128(data[at + 16 : end]) == data[at : at + 16]
            seen.add(end - at)
            at = end
    assert len([size for size in seen if size > 200]) > 3


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
def test_errors_carry_the_servers_code_and_status(client: Client, sql: str, status: int, code: int) -> None:
    """Clients decide by both; the memory of a query is bounded."""
    got = client.ask(sql)
    assert (got.status, got.code) == (status, code), got.text
    assert got.text.startswith(f"Code: {code}. DB::Exception: ")
    assert "(version " in got.text


def test_an_error_in_midstream_is_marked_in_the_body(client: Client) -> None:
    """What is out is out; the error follows between the marks that the header announced."""
    got = client.ask("SELECT throwIf(number = 5000000) FROM numbers(10000000)", max_block_size=1000)
    tag = got.headers["x-clickhouse-exception-tag"].encode()
    assert got.status == 200
    tail = got.body[got.body.index(b"\r\n__exception__\r\n" + tag) :]
    assert b"FUNCTION_THROW_IF_VALUE_IS_NON_ZERO" in tail
    assert tail.endswith(tag + b"\r\n__exception__\r\n")


def test_wait_end_of_query_keeps_the_status_true(client: Client) -> None:
    """Who waits for the end gets the error by its status, however much came before it."""
    got = client.ask("SELECT throwIf(number = 5000000) FROM numbers(10000000)", wait_end_of_query=1)
    assert (got.status, got.code) == (500, 395)


def test_a_bad_row_inserts_nothing(client: Client) -> None:
    """An INSERT that fails to parse leaves no rows of its block behind, and the server goes on."""
    table = client.table()
    got = client.ask(f"INSERT INTO {table} FORMAT CSV\n1,x\nnope,y\n")
    assert got.status == 400
    assert client.ask(f"SELECT count() FROM {table}").text == "0"


def test_an_insert_may_select_from_its_data(client: Client) -> None:
    """input() in an INSERT … SELECT, in any format, in a session too, and again."""
    table = client.table()
    sql = f"INSERT INTO {table} SELECT a * 10, upper(b) FROM input('a Int32, b String') WHERE a > 1 FORMAT RowBinary"
    for session in ({}, {"session_id": "input"}, {"session_id": "input"}):
        got = client.ask(ROWS["RowBinary"], query=sql, **session)
        assert got.status == 200, got.text
    assert client.ask(f"SELECT DISTINCT *, count() OVER () FROM {table}").text == "20\tY\t3"


def test_an_upload_that_breaks_off_inserts_nothing(client: Client) -> None:
    """Half a body is no INSERT."""
    table = client.table()
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    connection.putrequest("POST", "/")
    connection.putheader("Content-Length", "100000")
    connection.endheaders(f"INSERT INTO {table} FORMAT CSV\n1,x\n2,y\n".encode())
    connection.close()
    until(lambda: client.ask("SELECT count() FROM system.processes").text == "1", "the INSERT outlives its client")
    assert client.ask(f"SELECT count() FROM {table}").text == "0"


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


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, what


def test_a_session_serves_one_query_at_a_time(client: Client) -> None:
    """A second one is refused as the server does."""
    name = uuid.uuid4().hex
    slow = threading.Thread(target=client.ask, args=("SELECT sleep(2)",), kwargs={"session_id": name})
    slow.start()
    until(lambda: client.ask(SLEEPERS).text == "1", "the query never ran")
    assert client.ask("SELECT 1", session_id=name).code == 373
    slow.join()
    assert client.ask("SELECT 1", session_id=name).text == "1"


def test_a_session_is_free_once_its_answer_ended(client: Client) -> None:
    """Clients send the next query of a session as soon as they have read the last one's end."""
    for _ in range(10):
        # Slower than the answer is held back, so that it is streamed.
        slow = client.ask("SELECT sleepEachRow(0.15) FROM numbers(1)", session_id="again", max_block_size=1)
        assert "transfer-encoding" in slow.headers
        assert client.ask("SELECT 1", session_id="again").text == "1"


def test_too_many_queries_at_once_are_refused(client: Client) -> None:
    """Of eight at once four are served, and the others are told with the server's code."""
    with ThreadPoolExecutor(8) as pool:
        codes = sorted(one.code for one in pool.map(client.ask, ["SELECT sleep(2)"] * 8))
    assert codes == [0, 0, 0, 0, 202, 202, 202, 202]
    assert client.ask("SELECT 1").text == "1"


def test_a_table_may_come_with_its_query(client: Client) -> None:
    """External tables in a form, its fields parameters of the query."""
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
    """Nothing is written, nobody's query ended, and the mode is not left."""
    writer = Client(reader.port)
    writer.ask("CREATE TABLE IF NOT EXISTS for_reader (a Int8) ENGINE = MergeTree ORDER BY a")
    got = reader.ask(sql, **parameters)
    assert got.code in {164, 497}, got.text
    assert writer.ask("SELECT count() FROM for_reader").text == "0"


def test_a_get_writes_nothing(client: Client) -> None:
    """What is only asked for may be asked again by anything on the way, in a session too."""
    for sql in ("CREATE TABLE g (a Int8) ENGINE = Memory", "INSERT INTO FUNCTION null('a Int8') VALUES (1)"):
        assert client.ask(method="GET", query=sql).code == 164
        assert client.ask(method="GET", query=sql, session_id="get").code == 164
    assert client.ask("CREATE TEMPORARY TABLE g (a Int8)", session_id="get").status == 200


@pytest.mark.parametrize(("user", "key"), [("reader", ""), ("reader", "default"), ("nobody", "pw")])
def test_nobody_else_gets_in(client: Client, user: str, key: str) -> None:
    """403 and AUTHENTICATION_FAILED, whether the name or the password is wrong."""
    got = client.ask("SELECT 1", headers={"X-ClickHouse-User": user, "X-ClickHouse-Key": key})
    assert (got.status, got.code) == (403, 516)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM file('/etc/hostname', LineAsString)",
        "SELECT * FROM '/etc/hostname'",
        "SELECT * FROM `/etc/hostname`",
        "SELECT file('/etc/hostname')",
        "SELECT * FROM viewIfPermitted(SELECT * FROM `file`('/etc/hostname', LineAsString) ELSE null('x String'))",
        "SELECT 1 INTO OUTFILE '/dev/shm/railsight-out'",
        "INSERT INTO FUNCTION null('a String') FROM INFILE '/etc/hostname' FORMAT CSV",
        "CREATE TABLE o (a String) ENGINE = File(CSV, '/etc/hostname')",
        "CREATE TABLE o (a String) ENGINE = Executable('id', 'CSV')",
        "CREATE TABLE o (a String) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = local, path = '/tmp/')",
        "CREATE DICTIONARY o (a UInt64) PRIMARY KEY a SOURCE(EXECUTABLE(COMMAND 'id' FORMAT 'CSV')) LAYOUT(FLAT()) "
        "LIFETIME(0)",
        "SELECT * FROM executable('id', CSV, 'a String')",
        "SELECT * FROM url('http://127.0.0.1:1/', CSV, 'a String')",
        "SELECT * FROM remote('127.0.0.1:1', system.one)",
        "SELECT * FROM s3('http://127.0.0.1:1/x', 'CSV')",
        "SELECT * FROM sqlite('/tmp/x', 't')",
        "BACKUP TABLE system.one TO File('/tmp/railsight-backup')",
        "SELECT * FROM icebergLocal('/tmp')",
        "CREATE DATABASE o ENGINE = Filesystem('/etc')",
        "CREATE USER o",
    ],
)
def test_no_client_reaches_beyond_the_database(client: Client, sql: str) -> None:
    """Files, processes and other hosts are refused, by the face or by the engine's own grants."""
    got = client.ask(sql)
    assert got.status >= 400, got.text
    assert got.code in {36, 60, 78, 81, 358, 497, 514}, got.text


def test_the_default_database_cannot_be_lost(client: Client) -> None:
    """Without it no connection could be opened: dropped, it is there again, and empty."""
    client.table()
    assert client.ask("DROP DATABASE default").status == 200
    assert client.ask("SHOW TABLES").text == ""


def test_what_our_tables_need_is_there(client: Client) -> None:
    """Deduplication by token, TTL, views, projections and ReplacingMergeTree, as the migrations use them."""
    raw = client.table(
        "t DateTime, k String, v UInt64, PROJECTION p (SELECT k, sum(v) GROUP BY k)",
        "(k, t)",
        "TTL t + INTERVAL 100 YEAR SETTINGS non_replicated_deduplication_window = 100",
    )
    last = f"{raw}_last"
    client.ask(f"CREATE TABLE {last} (k String, v UInt64) ENGINE = ReplacingMergeTree(v) ORDER BY k")
    client.ask(f"CREATE MATERIALIZED VIEW {raw}_mv TO {last} AS SELECT k, v FROM {raw}")
    for token in ("one", "one", "two"):
        got = client.ask(f"INSERT INTO {raw} FORMAT CSV\n10,a,1\n", insert_deduplication_token=token)
        assert got.status == 200, got.text
    assert client.ask(f"SELECT sum(v) FROM {raw}").text == "2"
    assert client.ask(f"SELECT * FROM {last} FINAL").text == "a\t1"

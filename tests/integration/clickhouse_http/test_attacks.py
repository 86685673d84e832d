"""Tests attacks on the embedded ClickHouse: files, processes, hosts, privileges, web pages and memory."""

import secrets
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse, Limits, User
from tests.fuzz.clickhouse import Canaries, EngineFuzzer, HttpFuzzer, ReaderFuzzer, changes, files_of
from tests.integration.clickhouse_http.plain import Answer, Client, until

DICTIONARY = (
    "CREATE DICTIONARY attack (a UInt64, b String) PRIMARY KEY a "
    "SOURCE(EXECUTABLE(COMMAND '{command}' FORMAT 'CSV')) LAYOUT(FLAT()) LIFETIME(0)"
)


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canaries]:
    one = Canaries(tmp_path_factory.mktemp("canaries"))
    yield one
    assert one.breaches() == []
    one.close()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedClickHouse]:
    """Yield a server of its own: merges of other tests' tables change the engine's files at any time."""
    users = (User("default", "writer"), User("reader", "pw", read_only=True))
    limits = Limits(server_memory_bytes=2 << 30, query_memory_bytes=256 << 20)
    with EmbeddedClickHouse(ClickHouseParams(data=tmp_path_factory.mktemp("quiet"), users=users, limits=limits)) as one:
        yield one


def reader_of(server: EmbeddedClickHouse) -> Client:
    return Client(server.port, {"X-ClickHouse-User": "reader", "X-ClickHouse-Key": "pw"})


def disguises(sql: str) -> Iterator[str]:
    """Yield a statement in the characters that ClickHouse reads as blanks and quotes."""
    yield sql
    yield sql.replace(" ", "\u3000").replace("(", "\u3000(")
    yield sql.replace("(", "/**/(")
    yield sql.replace("'", "\u2018", 1).replace("'", "\u2019", 1)
    for name in ("file", "File", "EXECUTABLE", "executable", "EmbeddedRocksDB"):
        if name in sql:
            yield sql.replace(name, f"\u201c{name}\u201d", 1)
            yield sql.replace(name, f"`{name}`", 1)
    yield f"SELECT $'$ ' $'$, ({sql}), ' '"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT file('{file}')",
        "SELECT * FROM file('{file}', LineAsString)",
        "SELECT * FROM fileCluster('default', '{file}', LineAsString)",
        "INSERT INTO FUNCTION file('{out}/x', CSV, 'a Int8') SELECT 1",
        "INSERT INTO FUNCTION null('x String') VALUES (file('{file}'))",
        "SELECT * FROM format(Values, 'x String', '(file(\\'{file}\\'))')",
        "DESCRIBE TABLE null('x String DEFAULT file(\\'{file}\\')')",
        "SELECT * FROM executable('id', CSV, 'a String')",
        DICTIONARY,
        "CREATE TABLE attack (a UInt64, b String) ENGINE = EmbeddedRocksDB(0, '{out}/rocks') PRIMARY KEY a",
        "CREATE TABLE attack (a String) ENGINE = Executable('id', 'CSV')",
        "CREATE TABLE attack (a String) ENGINE = File(LineAsString, '{file}')",
        "CREATE DATABASE attack ENGINE = Filesystem('/')",
        "CREATE TABLE attack (a Int8) ENGINE = Memory SETTINGS disk = disk(type = web, endpoint = '{url}')",
        "SELECT * FROM url('{url}', CSV, 'a String')",
        "SELECT * FROM remote('127.0.0.1:{port}', system.one)",
        "SELECT 1 INTO OUTFILE '{out}/x'",
        "EXPLAIN AST SELECT 1; DROP TABLE for_reader",
        "SELECT 1 PARALLEL WITH CREATE TABLE attack (a Int8) ENGINE = Memory",
        "SELECT 1 SETTINGS additional_result_filter = 'file(\\'{file}\\') = \\'\\''",
        "SELECT 1 SETTINGS dialect = 'prql'",
        "SHOW GRANTS FOR default",
        "SHOW ACCESS",
        "BACKUP DATABASE default TO File('{out}/backup')",
        "CREATE FUNCTION attack AS x -> file(x)",
        "SELECT * APPLY(file) FROM (SELECT '{file}' AS p)",
        "SELECT COLUMNS('p') APPLY file FROM (SELECT '{file}' AS p)",
        "SELECT arrayMap(file, ['{file}'])",
        "SELECT * FROM eval('SELECT file(\\'{file}\\')')",
    ],
)
def test_no_disguise_of_a_statement_breaks_out(quiet: EmbeddedClickHouse, canaries: Canaries, sql: str) -> None:
    """Nothing outside is read, written, run or reached, by a writer either; a reader changes no file of the engine."""
    client, reader = Client(quiet.port), reader_of(quiet)
    values = {"{file}": str(canaries.files[0]), "{out}": str(canaries.out), "{port}": str(canaries.port)}
    values |= {"{url}": f"http://127.0.0.1:{canaries.port}/x", "{command}": f"touch {canaries.out}/ran"}
    for name, value in values.items():
        sql = sql.replace(name, value)
    folder = quiet.data / "engine"
    for disguised in disguises(sql):
        assert canaries.token not in client.ask(disguised).text, disguised
    client.ask("DROP TABLE IF EXISTS attack SYNC")
    before = files_of(folder)
    for disguised in disguises(sql):
        assert canaries.token not in reader.ask(disguised).text, disguised
    assert changes(before, files_of(folder)) == []
    assert canaries.breaches() == []


def test_no_table_function_makes_a_file(quiet: EmbeddedClickHouse) -> None:
    """The engine opens the database of sqlite(), and so makes the file, before it checks the right to read it.

    As `metadata/x.sql` the file would keep the server from starting again. A quoted name is the same function.
    """
    reader, folder = reader_of(quiet), quiet.data / "engine"
    names = reader.ask("SELECT name FROM system.table_functions ORDER BY name").text.split("\n")
    assert "sqlite" in names
    before = files_of(folder)
    for name in [*names, "`sq\\x6cite`"]:
        for arguments in ("'made'", "'made', 'a'", "'made', 'a', 'b'", "'made', 'a', 'b', 'c'"):
            reader.ask(f"SELECT * FROM {name}({arguments}) LIMIT 1", max_execution_time=2)
    reader.ask(f"SELECT * FROM sqlite('{folder}/metadata/made.sql', 'a')")
    assert changes(before, files_of(folder)) == []


def form(client: Client, structure: str, sql: str = "SELECT 1", **fields: str) -> Answer:
    boundary = secrets.token_hex(8)
    part = f'--{boundary}\r\nContent-Disposition: form-data; name="ext"; filename="x"\r\n\r\n1\r\n--{boundary}--\r\n'
    headers = {**client.headers, "Content-Type": f"multipart/form-data; boundary={boundary}"}
    return client.ask(part, query=sql, ext_structure=structure, ext_format="CSV", headers=headers, **fields)


@pytest.mark.parametrize(
    "structure",
    [
        "a Int8); DROP TABLE for_reader; SELECT (1",
        "a Int8); CREATE TABLE by_reader (a Int8) ENGINE = Memory; SELECT (1",
        "a String) ENGINE = Memory AS SELECT file('{file}') --",
        "a String DEFAULT file('{file}')",
        "a String ALIAS file('{file}')",
        "a String CODEC(NONE)",
        "a Int8 TTL now()",
        "a Int8, INDEX i a TYPE minmax",
        "a AggregateFunction(file, String)",
        "a Int8 -- \u2019\n); SELECT 1",
    ],
)
def test_the_structure_of_an_external_table_is_no_sql(
    client: Client, reader: Client, canaries: Canaries, structure: str
) -> None:
    """It is a literal of a statement, which the engine parses as a structure only; a reader stays a reader."""
    client.ask("CREATE TABLE IF NOT EXISTS for_reader (a Int8) ENGINE = MergeTree ORDER BY a")
    for one in (client, reader):
        got = form(one, structure.replace("{file}", str(canaries.files[0])), "SELECT * FROM ext")
        assert canaries.token not in got.text
    assert client.ask("EXISTS TABLE for_reader").text == "1"
    assert client.ask("EXISTS TABLE by_reader").text == "0"


def test_a_reader_sends_external_tables(reader: Client) -> None:
    """They are the reader's own, and the session of one is read-only from its first statement on."""
    for fields in ({}, {"session_id": "tables of a reader"}):
        assert form(reader, "a Int8", "SELECT a + 1 FROM ext", **fields).text == "2"
        assert form(reader, "a Int8", "INSERT INTO for_reader SELECT a FROM ext", **fields).code in {164, 497}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "[::1]"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_no_web_page_sends_statements(client: Client, headers: dict[str, str], status: int) -> None:
    """A page may send a text/plain POST, and rebind its own name to loopback; both are refused, with a password too."""
    headers = {**client.headers, "Content-Type": "text/plain", **headers}
    got = client.ask("CREATE TABLE IF NOT EXISTS by_page (a Int8) ENGINE = Memory", headers=headers)
    assert got.status == status, got.text
    assert "access-control-allow-origin" not in got.headers


def test_nothing_is_answered_without_a_password(server: EmbeddedClickHouse, client: Client) -> None:
    """Neither without credentials nor with an empty password."""
    for headers in ({}, {"X-ClickHouse-User": "default"}, {"X-ClickHouse-User": "default", "X-ClickHouse-Key": ""}):
        assert Client(server.port, headers).ask("SELECT 1").code == 516


def peak_kib(server: EmbeddedClickHouse) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


@pytest.mark.parametrize("encoding", ["deflate", "gzip", "zstd", "lz4"])
def test_a_small_body_does_not_become_gigabytes(server: EmbeddedClickHouse, client: Client, encoding: str) -> None:
    """A statement of 256 MiB of blanks and more, compressed, is refused while it is decompressed."""
    before = peak_kib(server)
    got = client.ask(bomb(encoding), headers={**client.headers, "Content-Encoding": encoding})
    assert got.code in {229, 271}, got.text
    assert peak_kib(server) - before < 400 << 10


def bomb(encoding: str) -> bytes:
    blanks = b" " * (64 << 20)
    if encoding in {"deflate", "gzip"}:
        packer: Any = zlib.compressobj(9, wbits=31 if encoding == "gzip" else 15)
        return bytes(b"".join(packer.compress(blanks) for _ in range(8)) + packer.flush())
    if encoding == "zstd":
        import zstandard

        return zstandard.compress(blanks, 19) * 8
    import lz4.frame

    return bytes(lz4.frame.compress(blanks)) * 4


def test_a_statement_is_bounded(client: Client, reader: Client) -> None:
    """A writer's text has 8 MiB at most, a reader's 256 KiB."""
    assert client.ask("SELECT '" + "x" * (9 << 20) + "'").code == 229
    assert client.ask("SELECT length('" + "x" * (1 << 20) + "')", max_query_size=2 << 20).text == str(1 << 20)
    assert reader.ask("SELECT length('" + "x" * 200_000 + "')").text == "200000"
    assert reader.ask("SELECT '" + "x" * (256 << 10) + "'").code == 229


def test_no_request_of_a_reader_becomes_a_statement(quiet: EmbeddedClickHouse) -> None:
    """Formats, settings, ids and texts of a request are no SQL; none of them changes a file, with a session or not."""
    client, reader = Client(quiet.port), reader_of(quiet)
    folder = quiet.data / "engine"
    loot, table = f"{folder}/loot", client.table()
    client.ask(f"INSERT INTO {table} VALUES (1, 'x')")
    secret = quiet.data / "face" / "password-secret"
    secret.write_text("secret")
    victim = f"{folder}/metadata/default.sql"
    out = f"SELECT 'x' INTO OUTFILE '{loot}'"
    requests: list[tuple[str, dict[str, Any]]] = [
        ("SELECT 1", {"default_format": f"Null; {out}"}),
        ("SELECT 1", {"default_format": f"Null; SELECT 'x' INTO OUTFILE '{victim}' TRUNCATE FORMAT RawBLOB"}),
        ("SELECT 1", {"headers": {"X-ClickHouse-Format": f"Null; {out}"}}),
        ("SELECT 1", {"default_format": f"TSV INTO OUTFILE '{loot}'"}),
        ("SELECT 1", {f"max_threads = DEFAULT; {out} --": "1"}),
        ("SELECT 1", {"database": f"default`; {out} --"}),
        ("SELECT 1", {"query_id": "\r"}),
        (f"SELECT 1 FORMAT `Null; {out}`", {}),
        (f"EXPLAIN AST SELECT 1; {out}", {}),
        (out, {}),
        (f"SELECT 1 /* /* */ {out} */", {}),
        (f"SELECT 1 SETTINGS output_format_schema = '{loot}'", {}),
        ("SELECT * FROM format(CSV, 'a Int8', 'x')", {"input_format_record_errors_file_path": loot}),
        ("SHOW DATABASES; KILL QUERY WHERE 1", {}),
        ("SHOW DATABASES PARALLEL WITH KILL QUERY WHERE 1", {}),
        ("CREATE TEMPORARY TABLE t (a Int8) ENGINE = MergeTree ORDER BY a", {}),
        (f"WITH 1 AS a INSERT INTO {table} SELECT a, ''", {}),
        (f"INSERT INTO {table} FORMAT CSV\n1,x", {}),
        (f"OPTIMIZE TABLE {table} FINAL", {}),
        (f"TRUNCATE TABLE {table}", {}),
        ("SET readonly = 0", {}),
    ]
    before = files_of(folder)
    for sql, more in requests:
        for session in ({}, {"session_id": "attacks"}):
            got = reader.ask(sql, **session, **more)
            assert got.status >= 400, (sql, more, got.text)
            assert got.code in {27, 36, 62, 73, 80, 81, 115, 164, 358, 452, 497}, (sql, more, got.text)
    for sql in (f"SELECT * APPLY(file) FROM (SELECT '{secret}' AS p)", f"SELECT arrayMap(file, ['{secret}'])"):
        assert "Permission denied" in reader.ask(sql).text
    # A sort on the disk leaves nothing behind.
    sort = "SELECT max(number) FROM (SELECT number FROM numbers(3000000) ORDER BY rand() LIMIT 2000000 OFFSET 1)"
    sort += " SETTINGS max_bytes_before_external_sort = 1000000, max_bytes_ratio_before_external_sort = 0"
    assert reader.ask(sort).status == 200
    assert changes(before, files_of(folder)) == []


LONG = (
    " ".join(f"$a{i}$" for i in range(5000)),
    "WITH " + ", ".join(f"q{i} (x) AS (SELECT 1)" for i in range(1500)) + " SELECT 1",
    "SELECT " + "(" * 16_000 + "1" + ")" * 16_000,
    "SELECT " + "a+" * 120_000 + "1",
)


@pytest.mark.parametrize("sql", LONG, ids=["dollars", "queries", "parentheses", "operators"])
def test_a_long_statement_of_a_reader_does_not_stop_the_server(client: Client, reader: Client, sql: str) -> None:
    """A writer is served within a second meanwhile; these took the event loop 12 to 48 s."""
    sending = [threading.Thread(target=reader.ask, args=(sql,)) for _ in range(2)]
    for one in sending:
        one.start()
    longest = 0.0
    while any(one.is_alive() for one in sending):
        began = time.monotonic()
        assert client.ask("SELECT 1").text == "1"
        longest = max(longest, time.monotonic() - began)
    # Without other load it is some 0.2 s; a second is the promise, and the machine of the tests is shared.
    assert longest < 2


def sent(port: int, data: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(data)
    return connection


def test_readers_with_half_bodies_leave_the_writer_its_slots(client: Client, reader: Client) -> None:
    """Each user has its own."""
    head = "".join(f"{name}: {value}\r\n" for name, value in reader.headers.items())
    half = f"POST / HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: 100\r\n\r\nSELECT".encode()
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(sent(reader.port, half))
        until(lambda: reader.ask("SELECT 1").code == 202, "the slots of the reader are free")
        assert client.ask("SELECT 1").text == "1"
    until(lambda: reader.ask("SELECT 1").text == "1", "the slots of the reader are taken for ever")


def sockets_of(server: EmbeddedClickHouse) -> int:
    links = [one.readlink() for one in Path(f"/proc/{server.pid}/fd").iterdir() if one.is_symlink()]
    return sum(str(link).startswith("socket:") for link in links)


def test_headers_and_connections_are_bounded_before_a_password(server: EmbeddedClickHouse, client: Client) -> None:
    """Many large headers are refused while they arrive; a new connection closes the oldest idle one."""
    before = peak_kib(server)
    header = b"X-Large: " + b"x" * (1 << 20) + b"\r\n"
    for number in (1, 20):
        with ExitStack() as stack:
            for _ in range(8):
                one = stack.enter_context(sent(server.port, b"GET /ping HTTP/1.1\r\nHost: localhost\r\n"))
                try:
                    one.sendall(header * number + b"\r\n")
                    assert one.recv(1000).split(b" ")[1] in {b"400", b"431"}
                except ConnectionError:
                    continue
    many = {f"X-{i}": "x" * 1000 for i in range(30)}
    assert client.ask("SELECT 1", headers=many).status == 431
    with ExitStack() as stack:
        for _ in range(400):
            stack.enter_context(sent(server.port, b"GET /ping HTTP/1.1\r\n"))
        assert client.ask("SELECT 1").text == "1"
        assert sockets_of(server) < 256 + 20
    assert peak_kib(server) - before < 200 << 10


def test_a_refused_request_writes_no_stack_trace(server: EmbeddedClickHouse, client: Client) -> None:
    """Neither an id with a line break nor a form that is none nor a broken body."""
    multipart = {"Content-Type": "multipart/form-data; boundary=x"}
    assert client.ask("SELECT 1", query_id="\r").code == 36
    for body in (b"--x\r\n", b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n\xff\r\n--x--\r\n', b"\0"):
        assert client.ask(body, query="SELECT 1", headers=multipart).status in {200, 400}
    assert client.ask("SELECT 1", headers={"Content-Type": "multipart/form-data"}).code == 36
    assert client.ask(b"\xff\xfe", session_id="\u2028").status == 400
    assert client.ask("SELECT 1", headers={"Content-Encoding": "br"}).code == 89
    for sql in (b"SELECT '\xff' FROM nope", b"SHOW TABLES LIKE '\xff' nope", b"SELECT $$\xff$$, nope FORMAT JSON"):
        refused = client.ask(sql)
        assert refused.code in {47, 60, 62}, refused.text
    assert "Traceback" not in server.log.read_text()


def test_the_parts_of_a_form_are_not_decompressed(client: Client) -> None:
    """An encoding of a part would be decompressed without a limit."""
    head = 'Content-Disposition: form-data; name="ext"; filename="x"\r\nContent-Encoding: deflate\r\n\r\n'
    body = b"--b\r\n" + head.encode() + zlib.compress(b"1") + b"\r\n--b--\r\n"
    headers = {**client.headers, "Content-Type": "multipart/form-data; boundary=b"}
    got = client.ask(body, query="SELECT 1", ext_structure="a Int8", headers=headers)
    assert got.code == 89, got.text


def test_the_servers_files_are_the_owners_alone(server: EmbeddedClickHouse) -> None:
    """Folders have 0700, files of configuration and password 0600."""
    for path in (server.data, server.data / "engine", server.data / "face"):
        assert path.stat().st_mode & 0o077 == 0, path
    for path in (server.data / "face").glob("*.xml"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_grammars_statements_do_not_break_out(tmp_path: Path) -> None:
    """The bounded part of `make fuzz-clickhouse`: 1,500 statements of a fixed seed."""
    fuzzer = HttpFuzzer(tmp_path, seed=1)
    try:
        outcome = fuzzer.run(1500, float("inf"))
    finally:
        fuzzer.close()
    assert outcome.breaches == []
    assert outcome.statements == 1500
    assert outcome.codes[0] > 10


def test_whatever_a_reader_sends_the_engines_files_stay(tmp_path: Path) -> None:
    """The bounded part of the layer `reader`: 1,500 requests with hostile parameters, headers and bodies."""
    fuzzer = ReaderFuzzer(tmp_path, seed=1)
    try:
        outcome = fuzzer.run(1500, float("inf"))
    finally:
        fuzzer.close()
    assert outcome.breaches == []
    assert outcome.restarts == 0
    assert outcome.codes[0] > 10
    assert outcome.writer_s < 2


def test_the_sandbox_alone_stops_what_the_gate_would_refuse(tmp_path: Path) -> None:
    """The same statements, passed to the engine in its sandbox without the gate."""
    fuzzer = EngineFuzzer(tmp_path, seed=2)
    try:
        outcome = fuzzer.run(300, float("inf"))
    finally:
        fuzzer.close()
    assert outcome.breaches == []

"""Tests attacks on the embedded ClickHouse: files, processes, hosts, privileges, web pages and memory."""

import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams.embedded.clickhouse import EmbeddedClickHouse
from tests.fuzz.clickhouse import Canaries, EngineFuzzer, HttpFuzzer
from tests.integration.clickhouse_http.plain import Answer, Client

REFUSED = {36, 46, 60, 62, 78, 81, 164, 358, 452, 497, 514}
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
        "SELECT * FROM eval('SELECT file(\\'{file}\\')')",
    ],
)
def test_no_disguise_of_a_statement_breaks_out(client: Client, canaries: Canaries, sql: str) -> None:
    """Neither the policy of statements nor the lexer is passed by other characters."""
    values = {"{file}": str(canaries.files[0]), "{out}": str(canaries.out), "{port}": str(canaries.port)}
    values |= {"{url}": f"http://127.0.0.1:{canaries.port}/x", "{command}": f"touch {canaries.out}/ran"}
    for name, value in values.items():
        sql = sql.replace(name, value)
    for disguised in disguises(sql):
        got = client.ask(disguised)
        assert got.code in REFUSED, (disguised, got.text)
        assert canaries.token not in got.text
    assert canaries.breaches() == []


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
    """Names and types are read and written again; a reader stays a reader."""
    client.ask("CREATE TABLE IF NOT EXISTS for_reader (a Int8) ENGINE = MergeTree ORDER BY a")
    for one in (client, reader):
        got = form(one, structure.replace("{file}", str(canaries.files[0])))
        assert got.code in {36, 62, 497}, got.text
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
    assert server._process is not None
    status = Path(f"/proc/{server._process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


@pytest.mark.parametrize("encoding", ["deflate", "gzip", "zstd", "br", "lz4"])
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
    if encoding == "lz4":
        import lz4.frame

        return bytes(lz4.frame.compress(blanks)) * 4
    import cramjam

    return bytes(cramjam.brotli.compress(blanks * 5, level=9))


def test_a_statement_is_bounded(client: Client) -> None:
    """Neither its bytes nor its tokens take more memory than the limits allow."""
    assert client.ask("SELECT '" + "x" * (9 << 20) + "'").code == 229
    assert client.ask("SELECT 1" + ",1" * 300_000).code == 229


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


def test_the_sandbox_alone_stops_what_the_policy_would_refuse(tmp_path: Path) -> None:
    """The same statements, passed to the engine in its sandbox without the policy of statements."""
    fuzzer = EngineFuzzer(tmp_path, seed=2)
    try:
        outcome = fuzzer.run(300, float("inf"))
    finally:
        fuzzer.close()
    assert outcome.breaches == []

"""Tests parsing statements: their kind, the begin of an INSERT's data, and forbidden functions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.statement import parse


@pytest.mark.parametrize(
    ("sql", "head", "data_format", "data"),
    [
        (b"INSERT INTO t FORMAT Native\n\x01\x02", "INSERT INTO t ", "Native", b"\x01\x02"),
        (b"insert into t (a, b) format csv 1,2\n", "insert into t (a, b) ", "csv", b"1,2\n"),
        (b"INSERT INTO t VALUES (1), (2)", "INSERT INTO t ", "Values", b" (1), (2)"),
        (b"INSERT INTO t (values, format) VALUES (1, 2)", "INSERT INTO t (values, format) ", "Values", b" (1, 2)"),
        (b"INSERT INTO t SETTINGS a=1 FORMAT TSV\r\n1", "INSERT INTO t SETTINGS a=1 ", "TSV", b"1"),
        (b"INSERT INTO t FORMAT TSV SETTINGS a=1, b='x'\n1", "INSERT INTO t SETTINGS a=1, b='x'", "TSV", b"1"),
        (b"INSERT INTO t /* FORMAT CSV */ FORMAT TSV\n\n1", "INSERT INTO t /* FORMAT CSV */ ", "TSV", b"\n1"),
        (b"INSERT INTO format FORMAT TSV\n1", "INSERT INTO format ", "TSV", b"1"),
        (b"INSERT INTO values VALUES (1)", "INSERT INTO values ", "Values", b" (1)"),
        (b"INSERT INTO TABLE `FORMAT CSV` FORMAT TSV\n1", "INSERT INTO TABLE `FORMAT CSV` ", "TSV", b"1"),
        (
            b"INSERT INTO t SELECT * FROM input('a Int8') FORMAT CSV\n1",
            "INSERT INTO t SELECT * FROM input('a Int8') ",
            "CSV",
            b"1",
        ),
        (b"WITH 1 AS y INSERT INTO t (s) FORMAT TSV\nv;\n", "WITH 1 AS y INSERT INTO t (s) ", "TSV", b"v;\n"),
    ],
)
def test_the_data_of_an_insert_begins_after_its_head(sql: bytes, head: str, data_format: str, data: bytes) -> None:
    """The head goes to the engine without its FORMAT clause, the data untouched."""
    statement = parse(sql)
    assert (statement.kind, statement.sql, statement.format) == ("insert", head, data_format)
    assert statement.data_at is not None
    assert sql[statement.data_at :] == data


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        (b"INSERT INTO t SELECT 1 FORMAT CSV", "other"),
        (b"INSERT INTO t SELECT 'VALUES (1)'", "other"),
        (b"WITH insert AS (SELECT 13 AS n) SELECT * FROM insert", "select"),
        (b"WITH 13 AS insert SELECT insert", "select"),
        (b"WITH 1 AS y INSERT INTO t SELECT y", "other"),
        (b"(SELECT 1) UNION ALL (SELECT 2)", "select"),
        (b"SHOW TABLES", "other"),
        (b"-- why\nSELECT 1", "select"),
    ],
)
def test_only_an_insert_with_data_has_data(sql: bytes, kind: str) -> None:
    """A SELECT streams, everything else is answered whole, and neither takes data from the body."""
    statement = parse(sql)
    assert (statement.kind, statement.data_at) == (kind, None)


@pytest.mark.parametrize(
    ("sql", "into"),
    [
        (b"SELECT 1", "SELECT 1\nINTO OUTFILE '/p' APPEND FORMAT TSV"),
        (b"SELECT 1; -- the end", "SELECT 1\nINTO OUTFILE '/p' APPEND FORMAT TSV"),
        (b"SELECT 1 FORMAT JSON", "SELECT 1 \nINTO OUTFILE '/p' APPEND FORMAT JSON"),
        (b"SELECT '\xc3\xa9' FORMAT JSON", "SELECT 'é' \nINTO OUTFILE '/p' APPEND FORMAT JSON"),
        (b"SELECT 1 SETTINGS a = 1", "SELECT 1 SETTINGS a = 1\nINTO OUTFILE '/p' APPEND FORMAT TSV"),
        (
            b"SELECT 1 FORMAT JSON SETTINGS a = 1",
            "SELECT 1 \nINTO OUTFILE '/p' APPEND FORMAT JSON SETTINGS a = 1",
        ),
        (b"SELECT format FROM t", "SELECT format FROM t\nINTO OUTFILE '/p' APPEND FORMAT TSV"),
        (b"SELECT * FROM format(CSV, 'x')", "SELECT * FROM format(CSV, 'x')\nINTO OUTFILE '/p' APPEND FORMAT TSV"),
    ],
)
def test_a_result_goes_into_the_pipe_in_its_own_format(sql: bytes, into: str) -> None:
    """The pipe's clause stands before the statement's own FORMAT, or the default format follows it."""
    assert parse(sql).into("/p", "TSV") == into


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (b"SELECT 1; SELECT 2", 62),
        (b"", 62),
        (b" ; ", 62),
        (b"SELECT 1 INTO OUTFILE '/x'", 358),
        (b"select 1 into /* */ outfile '/x'", 358),
        (b"INSERT INTO t FROM INFILE '/x' FORMAT CSV", 78),
        (b"SELECT * FROM file('/etc/passwd')", 497),
        (b"SELECT `file`('/etc/passwd')", 497),
        (b'SELECT "FILE" ($$/etc/passwd$$)', 497),
        (b"INSERT INTO FUNCTION file('x', 'CSV') VALUES (1)", 497),
        (b"CREATE TABLE t (a Int8) ENGINE = File(CSV)", 497),
        (b"CREATE TABLE t (a Int8) ENGINE=File", 497),
        (b"CREATE TABLE t (a Int8) ENGINE `Executable` ('x', CSV)", 497),
        (b"CREATE DICTIONARY d (a Int8) PRIMARY KEY a SOURCE(EXECUTABLE(COMMAND 'id' FORMAT 'CSV'))", 497),
        (b"SELECT * FROM url('http://127.0.0.1/', CSV)", 497),
        (b"SELECT * FROM python(x)", 497),
    ],
)
def test_what_lies_outside_of_the_database_is_refused(sql: bytes, code: int) -> None:
    """Files and processes of the server, and a second statement, are refused with ClickHouse's own code."""
    with pytest.raises(ClickHouseError) as refused:
        parse(sql)
    assert refused.value.code == code


def test_a_comment_inside_of_a_comment_is_blanked() -> None:
    """Engines differ in whether comments nest, so that the engine gets none; offsets stay."""
    sql = b"/* a /* b */ c */ SELECT 1 /*/**/*/ + 2 -- /* d"
    assert parse(sql).sql == " " * 17 + " SELECT 1 " + " " * 8 + " + 2"
    assert parse(b"INSERT /* /* */ */ INTO t FORMAT TSV\n/* /* */").data_at == 37


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (b"SELECT 1 /* /* */ ' */, file('/etc/hostname') -- '", 497),
        (b"SELECT 1 /* /* */ + 1", 62),
        (b"SELECT 1 /*/*/ + 1 */", 62),
        (b"SELECT 1" + b"/*/**/*/" * 20, 229),
    ],
)
def test_what_a_nested_comment_could_hide_is_refused(sql: bytes, code: int) -> None:
    """It is read as comments nest; one without an end is unknown text, and their number is bounded."""
    with pytest.raises(ClickHouseError) as refused:
        parse(sql)
    assert refused.value.code == code


def test_a_named_query_may_have_a_list_of_columns() -> None:
    """SQLAlchemy writes VALUES so; what is called inside is checked as everywhere."""
    assert (
        parse(b"WITH rows_ (id, `n`) AS (SELECT 1, 2), b(x) AS (SELECT 3) SELECT max(id) FROM rows_, b").kind
        == "select"
    )
    for sql in (
        b"WITH rows_ (id) AS (SELECT * FROM file('x')) SELECT 1",
        b"WITH file (id) AS (SELECT 1) SELECT 1",
        b"SELECT 1, unknown(id) AS (x)",
        b"WITH rows_ (id + 1) AS (SELECT 1) SELECT 1",
        b"WITH rows_ (id) AS (SELECT 1) SELECT rows_(id)",
    ):
        with pytest.raises(ClickHouseError):
            parse(sql)


@pytest.mark.parametrize("sql", [b"SELECT 'file(x)'", b"SELECT file FROM t", b"SELECT 1 AS url -- file('x')"])
def test_the_words_alone_are_not_refused(sql: bytes) -> None:
    """A column may be called `file`, and a text may contain the name of a function."""
    assert parse(sql).kind == "select"


@given(st.binary(max_size=200))
def test_data_is_never_looked_into(data: bytes) -> None:
    """Whatever bytes follow the head, the head ends at the same place."""
    statement = parse(b"INSERT INTO t FORMAT RowBinary\n" + data)
    assert statement.sql == "INSERT INTO t "
    assert statement.data_at == 31


def test_bytes_that_are_not_utf8_survive() -> None:
    """A heredoc with binary data reaches the engine as it came."""
    sql = b"SELECT $x$\xff\xfe$x$"
    assert parse(sql).sql.encode(errors="surrogateescape") == sql


@pytest.mark.parametrize(
    ("sql", "answers"), [(b"SHOW TABLES", True), (b"KILL QUERY WHERE 0", True), (b"DROP TABLE t", False)]
)
def test_what_has_no_result_is_answered_without_a_format(sql: bytes, answers: bool) -> None:
    """Clients distinguish an empty result from no result by the format header."""
    assert parse(sql).returns_rows is answers


def test_a_view_is_called_with_its_parameters() -> None:
    """A name off the list is allowed only if it is that of a view; one that the engine refuses stays refused."""
    call = b"SELECT * FROM db.rates(device = 'a')"
    with pytest.raises(ClickHouseError, match="`rates` does not exist"):
        parse(call)
    assert parse(call, {"rates"}.__contains__).kind == "select"
    with pytest.raises(ClickHouseError, match="outside of this database"):
        parse(b"SELECT * FROM file('/etc/passwd')", {"file"}.__contains__)


@pytest.mark.parametrize(
    "rows",
    [
        "'x Int8', 1",
        "'x Nullable(Int8), s String', (-1, 'a'), (NULL, 'b')",
        "'a Array(Int8)', [1, 2]",
        "'b Bool', (true)",
    ],
)
def test_a_table_of_literals_is_allowed(rows: str) -> None:
    """values() computes nothing then."""
    assert parse(f"SELECT * FROM values({rows}) AS v WHERE 1".encode()).kind == "select"


@pytest.mark.parametrize(
    "rows",
    [
        "", "1", "(1, 2)", "'x Int8'", "1, 'x Int8'", "'x String', file('/etc/hostname')", "'x Int8', (SELECT 1)",
        "'x Int8', 1 + 1", "'x Int8', y", "'x Int8', `y`", "'x Int8', {p:Int8}", "'x Int8' || '', 1",
        "'x Int8 DEFAULT 1', 1", "'x String DEFAULT file(\\'/etc/hostname\\')', 'a'", "'x Int8', (1",
        "concat('x', ' Int8'), 1",
        "'x Int8', CAST('1' AS Int8)", "'x Int8', 1::Int8", "'x Int8', [1, toInt8(1)]",
    ],
)  # fmt: skip
def test_a_table_of_anything_else_is_refused(rows: str) -> None:
    """The engine evaluates the arguments of values() as expressions, and its structure may have them."""
    with pytest.raises(ClickHouseError):
        parse(f"SELECT * FROM values({rows}".encode() + (b"" if rows.endswith("(1") else b")"))

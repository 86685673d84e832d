"""Tests the gate: what the engine gets of a text, where an INSERT's data begins, and what is refused."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.embedded.clickhouse.errors import ClickHouseError
from streams.embedded.clickhouse.gate import INPUT_TABLE, Statement, judge


def read(raw: bytes, *, reader: bool = False) -> Statement:
    statement = judge(raw, reader=reader, deadline=float("inf"))
    assert statement is not None
    return statement


def code_of(raw: bytes, *, reader: bool = False) -> int:
    """Return the code of the refusal, 0 without one."""
    try:
        read(raw, reader=reader)
    except ClickHouseError as error:
        return error.code
    return 0


@pytest.mark.parametrize(
    ("sql", "head", "data_format", "data"),
    [
        (b"INSERT INTO t FORMAT Native\n\x01\x02", b"INSERT INTO t", "Native", b"\x01\x02"),
        (b"insert into t (a, b) format csv 1,2\n", b"insert into t (a, b)", "csv", b"1,2\n"),
        (b"INSERT INTO t VALUES (1), (2)", b"INSERT INTO t", "Values", b" (1), (2)"),
        (b"INSERT INTO t (values, format) VALUES (1, 2)", b"INSERT INTO t (values, format)", "Values", b" (1, 2)"),
        (b"INSERT INTO t SETTINGS a=1 FORMAT TSV\r\n1", b"INSERT INTO t SETTINGS a=1", "TSV", b"1"),
        (b"INSERT INTO t FORMAT TSV SETTINGS a=1, b='x'\n1", b"INSERT INTO t SETTINGS a=1, b='x'", "TSV", b"1"),
        (b"INSERT INTO t /* FORMAT CSV */ FORMAT TSV\n\n1", b"INSERT INTO t /* FORMAT CSV */", "TSV", b"\n1"),
        (b"INSERT INTO format FORMAT TSV\n1", b"INSERT INTO format", "TSV", b"1"),
        (b"INSERT INTO values VALUES (1)", b"INSERT INTO values", "Values", b" (1)"),
        (b"INSERT INTO TABLE `FORMAT CSV` FORMAT TSV\n1", b"INSERT INTO TABLE `FORMAT CSV`", "TSV", b"1"),
        (b"WITH 1 AS y INSERT INTO t (s) FORMAT TSV\nv;\n", b"WITH 1 AS y INSERT INTO t (s)", "TSV", b"v;\n"),
        (b"/* /* */ */ INSERT INTO t FORMAT TSV\n/* /* */", b"INSERT INTO t", "TSV", b"/* /* */"),
    ],
)
def test_the_data_of_an_insert_begins_after_its_head(sql: bytes, head: bytes, data_format: str, data: bytes) -> None:
    """The head goes to the engine without its FORMAT clause, the data untouched."""
    statement = read(sql)
    assert (statement.text, statement.format, statement.reads) == (head, data_format, False)
    assert statement.data_at is not None
    assert sql[statement.data_at :] == data
    assert judge(sql, reader=False, deadline=float("inf"), complete=False) == statement


def test_an_insert_that_selects_from_its_data_reads_a_table() -> None:
    """The library accepts such an INSERT only complete and as text."""
    statement = read(b"INSERT INTO t SELECT a FROM input('a Int8') WHERE a FORMAT CSV\n1")
    assert statement.text == b"INSERT INTO t SELECT a FROM " + INPUT_TABLE + b" WHERE a"
    assert (statement.input_structure, statement.format) == (b"'a Int8'", "CSV")


@pytest.mark.parametrize(
    ("sql", "text", "output_format", "reads"),
    [
        (b"SELECT 1", b"SELECT 1", "", True),
        (b"-- why\n/* a /* b */ */ SELECT 1; -- the end", b"SELECT 1", "", True),
        (b"SELECT 1;\xc2\xa0", b"SELECT 1", "", True),
        (b"SELECT 1 FORMAT JSON SETTINGS a = 1", b"SELECT 1 FORMAT JSON SETTINGS a = 1", "JSON", True),
        (b"SELECT format FROM t", b"SELECT format FROM t", "", True),
        (b"SELECT * FROM format(CSV, 'x')", b"SELECT * FROM format(CSV, 'x')", "", True),
        (b"SELECT $x$\xff; INTO $x$", b"SELECT $x$\xff; INTO $x$", "", True),
        (b"SELECT {a$b:Int8}, {$x:Int8}, {c$:Int8}", b"SELECT {a$b:Int8}, {$x:Int8}, {c$:Int8}", "", True),
        (b"INSERT INTO t SELECT 1 FORMAT CSV", b"INSERT INTO t SELECT 1 FORMAT CSV", "", False),
        (b"WITH insert AS (SELECT 13 AS n) SELECT * FROM insert", None, "", True),
        (b"WITH 1 AS y INSERT INTO t SELECT y", None, "", False),
        (b"DROP TABLE t", None, "", False),
        (b"SELECT '/* ; INTO OUTFILE', 'it''s', \"a;\", `--`", None, "", True),
    ],
)
def test_the_engine_gets_the_text_from_its_first_word(
    sql: bytes, text: bytes | None, output_format: str, reads: bool
) -> None:
    """No comment is before it and no semicolon behind it; all else is as the client wrote it."""
    statement = read(sql)
    assert (statement.text, statement.format, statement.reads) == (text or sql, output_format, reads)
    assert statement.data_at is None


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (b"SELECT 1; SELECT 2", 62),
        (b"", 62),
        (b" ; ", 62),
        (b"select 1 into /* */ outfile '/x'", 358),
        (b"INSERT INTO t FROM INFILE '/x' FORMAT CSV", 78),
        (b"SELECT 1 FORMAT `a\nb`", 73),
        (b"INSERT INTO t FORMAT `CSV; DROP TABLE t`\n1", 73),
        ("\u3000SELECT 1".encode(), 62),
        ("\ufeffSELECT 1".encode(), 62),
        ("SELECT \u2018a\u2019".encode(), 62),
        ("SELECT 1 \u2212\u2212 comment".encode(), 62),
        (b"SELECT a\x00", 62),
        (b"SELECT 'abc", 62),
        (b"SELECT `abc", 62),
        (b"SELECT 'a''b", 62),
        (b"SELECT 1 /* open", 62),
        (b"SELECT 1 /*/*/ + 1 */", 62),
        (b"SELECT $'$ ' $'$ file(1) '", 62),
        (b"SELECT 1 #x", 62),
        (b"SELECT 1 ~ 2", 62),
    ],
)
def test_a_text_that_is_not_one_statement_is_refused(sql: bytes, code: int) -> None:
    """The lexer refuses what the engine could read otherwise."""
    assert code_of(sql) == code


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (b"SELECT 1 INTO OUTFILE '/x'", 358),
        (b"SELECT 'outFile'", 358),
        (b"KILL QUERY WHERE 1", 497),
        (b"CREATE TEMPORARY TABLE t (a Int8)", 497),
        (b"INSERT INTO t VALUES (1)", 497),
        (b"SYSTEM FLUSH LOGS", 497),
        (b"EXECUTE AS default SELECT 1", 497),
        (b"`SELECT` 1", 497),
    ],
)
def test_a_reader_sends_statements_that_read(sql: bytes, code: int) -> None:
    """A reader's text begins with one of a few words and has OUTFILE nowhere."""
    assert code_of(sql, reader=True) == code


HARD = (
    b" ".join(b"$a%d$" % i for i in range(30_000)), b"$a$" * 80_000, b"$" * 250_000, b"(" * 250_000, b"[({" * 80_000,
    b"/*" * 120_000, b"/*" * 60_000 + b"*/" * 60_000, b"a+" * 120_000, b"1," * 120_000, b"'a'," * 60_000,
    b"'" * 250_001, b"`" * 250_001, b"'\\" * 120_000, b"0x" * 120_000, b"1.e+" * 60_000, b"1 " * 120_000 + b"'",
    b"input(" * 40_000, b"FORMAT " * 35_000, b"INTO " * 50_000, b"-" * 250_000, b"SETTINGS a=1," * 19_000,
    b", ".join(b"q%d (x) AS (SELECT 1)" % i for i in range(10_000)),
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(HARD)))
def test_the_time_of_the_gate_is_linear(number: int) -> None:
    """A text of 256 KiB takes a part of a second of CPU, however it is built; quadratic ones took 5 to 50 s."""
    for before in (b"SELECT ", b"INSERT INTO t FORMAT TSV SETTINGS a=1,"):
        began = time.process_time()
        assert code_of(before + HARD[number]) in {0, 62, 73}
        assert time.process_time() - began < 3


def test_a_text_has_a_deadline() -> None:
    """An expired deadline ends the work on a long text."""
    with pytest.raises(ClickHouseError, match="in time"):
        judge(b"SELECT " + b"a+" * 50_000, reader=True, deadline=0.0)


@given(st.binary(max_size=200))
def test_data_is_never_looked_into(data: bytes) -> None:
    """Whatever bytes follow the head, the head ends at the same place."""
    statement = read(b"INSERT INTO t FORMAT RowBinary\n" + data)
    assert (statement.text, statement.data_at) == (b"INSERT INTO t", 31)


@given(st.binary(max_size=200))
def test_the_text_of_a_statement_is_a_part_of_what_was_sent(raw: bytes) -> None:
    """Any bytes are judged or refused with a code of ClickHouse; a reader's text begins with its keyword."""
    if code := code_of(raw, reader=True):
        assert code in {62, 73, 78, 358, 497}
        return
    statement = read(raw, reader=True)
    assert statement.text in raw
    assert statement.text.upper().startswith(statement.keyword)

"""Tests which INSERTs are staged in a temporary table."""

from streams.embedded.clickhouse.staging import staging_table


def test_an_insert_from_input_is_staged() -> None:
    """The structure makes the table, and the table takes the place of the call."""
    stage = staging_table("INSERT INTO t SELECT a + 1 FROM input('a Int8, b Enum8(\\'x\\' = 1)') WHERE a > 0")
    assert stage is not None
    assert stage.structure == "a Int8, b Enum8('x' = 1)"
    assert stage.sql == "INSERT INTO t SELECT a + 1 FROM _railsight_input WHERE a > 0"


def test_the_word_alone_stages_nothing() -> None:
    """A table, a column or a text called input is not the function."""
    for sql in ("INSERT INTO input (a)", "INSERT INTO t (input)", "INSERT INTO t SELECT 'input(1)'"):
        assert staging_table(sql) is None

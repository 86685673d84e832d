"""Tests which INSERTs are staged in a temporary table."""

from streams.embedded.clickhouse.staging import staging_table


def test_the_word_alone_stages_nothing() -> None:
    """A table, a column or a text called input is not the function."""
    for sql in ("INSERT INTO input (a)", "INSERT INTO t (input)", "INSERT INTO t SELECT 'input(1)'"):
        assert staging_table(sql) is None

"""Tests migrations: numbered, never changed, applied once, and repeated whole after an interruption."""

import re
from collections.abc import Iterator

import pytest

from streams.fabric.catalogue import Metric
from streams.store.migrate import MIGRATIONS_DIR, Migration, apply, pending_migrations, shipped_migrations
from streams.store.persist.persisted_topics import PERSISTED_TOPICS
from streams.store.rows.sample_layout import column_name, is_scalar
from streams.wire.errors import Misconfigured
from tests.fakes.database import FakeDatabase

ONE = Migration("0001_one", "-- why\nCREATE TABLE IF NOT EXISTS a (x Int8);\nCREATE TABLE IF NOT EXISTS b (x Int8);\n")
TWO = Migration("0002_two", "CREATE TABLE IF NOT EXISTS c (x Int8);\n")


def test_a_shipped_migration_never_changes() -> None:
    """Each file has the digest that was recorded when it was shipped."""
    lines = [line.split() for line in (MIGRATIONS_DIR / "DIGESTS").read_text().splitlines()]
    recorded = {name: digest for digest, name in lines}
    assert recorded == {f"{migration.name}.sql": migration.digest for migration in shipped_migrations()}


def test_numbers_are_in_order_and_without_gaps() -> None:
    """They are 0001, 0002 and so on."""
    assert [migration.name[:4] for migration in shipped_migrations()] == [
        f"{i + 1:04d}" for i in range(len(shipped_migrations()))
    ]


def test_every_statement_can_be_repeated() -> None:
    """An interrupted migration is run whole: it adds what is missing, sets options, or replaces a table."""
    for migration in shipped_migrations():
        alters = (
            r"ALTER TABLE \w+\s+(MODIFY SETTING \w+ = |ADD COLUMN IF NOT EXISTS "
            r"|(MODIFY COLUMN \S+ DEFAULT [^ ,]+(, )?)+$)|DROP VIEW IF EXISTS "
        )
        plain = [s for s in migration.statements() if not re.match(alters, s)]
        swapped = [s.split()[0] for s in plain if not re.match(r"CREATE (TABLE|VIEW) IF NOT EXISTS \w+", s)]
        # A replacement table is empty before it is filled, and takes its name only when it is full.
        filled = ["INSERT", "EXCHANGE", "DROP"]
        # A codec can be removed once: 0018 sets it before, so that its statements can be run again from the first.
        altered = [re.findall(r"MODIFY COLUMN \S+ (?:REMOVE )?\S+ (DEFAULT|ALIAS)?", s) for s in plain if "ALTER" in s]
        by_statement = [set(clauses) for clauses in altered]
        assert swapped in ([], ["TRUNCATE", *filled], ["DROP", *filled]) or (
            by_statement == [{"DEFAULT"}, {""}, {"ALIAS"}] * 2
        ), migration.name


def test_a_setting_that_the_server_lacks_is_skipped() -> None:
    """Each release of ClickHouse has settings that earlier ones refuse; the others are set."""
    database = FakeDatabase()
    database.settings = {"old"}
    setting = "ALTER TABLE a MODIFY SETTING {} = 1;\n"
    apply(database, (Migration("0001_one", setting.format("old") + setting.format("new")),))
    assert [c for c in database.commands if c.startswith("ALTER")] == ["ALTER TABLE a MODIFY SETTING old = 1"]


def test_rows_expire_by_arrival() -> None:
    """No TTL uses event time: replayed history would expire at once."""
    tables = [s for m in shipped_migrations() for s in m.statements() if s.startswith("CREATE TABLE")]
    for statement in tables:
        assert "TTL toDateTime(arrived_at) +" in statement
        assert re.search(r"PARTITION BY to(Date|YYYYMM)\((arrived_at|bucket)\)", statement)
        assert "non_replicated_deduplication_window" in statement


def test_every_metric_and_every_persisted_table_is_declared() -> None:
    """A scalar metric of the catalogue is a column of samples; a table of a persisted topic is created."""
    created = {s.split()[5]: s for m in shipped_migrations() for s in m.statements() if s.startswith("CREATE TABLE")}
    created["samples"] = created.pop("samples_next")  # 0004 replaces it
    created["samples_1m"] = created.pop("samples_1m_next")  # as does 0017
    by_hour = {"samples_1h", "sample_lanes_1h", "sample_messages_1h", "port_groups_1h"}  # hour_rollups.py fills them
    assert {table for persisted in PERSISTED_TOPICS for table in persisted.tables} == set(created) - by_hour
    columns = _columns("samples_next") | _added("samples")
    for metric in Metric:
        assert (column_name(metric) in columns) is is_scalar(metric), metric


def _statements(begin: str) -> Iterator[str]:
    return (s for m in shipped_migrations() for s in m.statements() if s.startswith(begin))


def _columns(table: str) -> set[str]:
    created = next(_statements(f"CREATE TABLE IF NOT EXISTS {table} "))
    return {line.split()[0] for line in created.splitlines()}


def _added(table: str) -> set[str]:
    altered = re.compile(rf"ALTER TABLE {table}\s+ADD COLUMN ")
    return {
        column
        for statement in _statements("ALTER TABLE ")
        if altered.match(statement)
        for column in re.findall(r"ADD COLUMN IF NOT EXISTS (\w+)", statement)
    }


def test_every_scalar_metric_has_its_columns_in_the_rollups() -> None:
    """A counter has its increase, a gauge its extremes and its average."""
    for table in ("samples_1m", "samples_1h"):
        columns = _columns(table) | _added(table)
        for metric in filter(is_scalar, Metric):
            suffixes = ("increase",) if metric.counter else ("min", "max", "avg")
            assert {f"{column_name(metric)}_{suffix}" for suffix in suffixes} <= columns, metric


def test_the_view_of_rates_reads_every_scalar_counter() -> None:
    """A counter that the newest definition lacks would have no rate, and no error."""
    *_, newest = _statements("CREATE VIEW IF NOT EXISTS counter_rates ")
    columns, names = (re.findall(r"\w+", listed) for listed in re.findall(r"\[([\w', \n]+)\]", newest))
    assert columns == names
    assert set(columns) == {column_name(metric) for metric in Metric if metric.counter and is_scalar(metric)}


def test_applying_twice_does_it_once() -> None:
    """The second call has nothing to apply."""
    database = FakeDatabase(exists=False)
    assert apply(database, (ONE, TWO)) == (ONE, TWO)
    created = [command for command in database.commands if "IF NOT EXISTS" in command and "schema_" not in command]
    assert [command.split()[5] for command in created] == ["a", "b", "c"]
    assert apply(database, (ONE, TWO)) == ()


def test_listing_pending_migrations_changes_nothing() -> None:
    """A dry run has the same result with and without a database."""
    for exists in (True, False):
        database = FakeDatabase(exists=exists)
        assert pending_migrations(database, (ONE, TWO)) == (ONE, TWO)
        assert not database.commands
        assert database.exists is exists


def test_an_interrupted_migration_is_repeated() -> None:
    """A migration without a record is not applied; those recorded before it stay applied."""
    database = FakeDatabase()
    database.fails_at = "EXISTS c"
    with pytest.raises(ConnectionError):
        apply(database, (ONE, TWO))
    database.fails_at = ""
    assert apply(database, (ONE, TWO)) == (TWO,)


def test_a_database_of_another_build_is_refused() -> None:
    """The error names a migration that was applied with other contents, and nothing is run."""
    database = FakeDatabase()
    database.applied = {"0001_one": "f" * 64}
    with pytest.raises(Misconfigured, match="0001_one"):
        apply(database, (ONE, TWO))
    assert not database.applied.get("0002_two")

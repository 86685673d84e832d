"""Lists the migrations of the tables, finds the pending ones, and applies them.

A shipped migration never changes: `migrations/DIGESTS` has the digest of each, a test compares them, and a server with
another version of an applied migration is refused. Statements create only missing objects or replace their own, so an
interrupted migration runs again completely. They are rendered for the form of the schema: one server, replicas or
shards (schema_form.py). A table setting that the server lacks is skipped: such settings affect only the cost of rows,
and different releases of ClickHouse introduced them.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from streams.store.clickhouse import ClickHouse
from streams.store.params import StoreParams
from streams.store.schema_form import render
from streams.wire.errors import Misconfigured

MIGRATIONS_DIR = Path(__file__).with_name("migrations")
APPLIED_TABLE = "schema_migrations"
_CREATE_APPLIED = """CREATE TABLE IF NOT EXISTS {table}{on} (
    name String,
    digest String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = {engine}
ORDER BY name"""
_SETTING = re.compile(r"ALTER TABLE \w+ MODIFY SETTING (\w+) = ")


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of statements."""

    name: str
    sql: str

    @property
    def digest(self) -> str:
        """The SHA-256 of the file, hexadecimal."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    def statements(self) -> Iterator[str]:
        """Yield the statements in order; each ends with a semicolon at the end of a line."""
        for piece in self.sql.split(";\n"):
            lines = [line for line in piece.splitlines() if line.strip() and not line.startswith("--")]
            if lines:
                yield "\n".join(lines)


def shipped_migrations(folder: Path = MIGRATIONS_DIR) -> tuple[Migration, ...]:
    """Return all migrations in the order of their numbers."""
    return tuple(Migration(path.stem, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.sql")))


def pending_migrations(database: ClickHouse, migrations: tuple[Migration, ...]) -> tuple[Migration, ...]:
    """Return the migrations that this server lacks, without changing it.

    Raises Misconfigured if an applied migration differs from the shipped one.
    """
    applied = _applied_digests(database)
    for migration in migrations:
        if applied.get(migration.name, migration.digest) != migration.digest:
            raise Misconfigured(
                f"ClickHouse has another version of migration {migration.name} ({applied[migration.name][:12]},"
                f" this build has {migration.digest[:12]}): the database belongs to another build;"
                " set store.database to another name"
            )
    return tuple(migration for migration in migrations if migration.name not in applied)


def apply(
    database: ClickHouse,
    migrations: tuple[Migration, ...],
    params: StoreParams | None = None,
    on_start: Callable[[Migration], None] = lambda _: None,
) -> tuple[Migration, ...]:
    """Create the database and apply the pending migrations in the form of `params`; return them.

    Calls `on_start` before each. Raises Misconfigured if the tables have another form.
    """
    params = params or StoreParams()
    database.ensure_database()
    refuse_other_form(database, params)
    pending = pending_migrations(database, migrations)
    database.command(_applied_table(params))
    for migration in pending:
        on_start(migration)
        for statement in migration.statements():
            if _is_supported(database, statement):
                for rendered in render(statement, params):
                    database.command(rendered)
        values = f"('{migration.name}', '{migration.digest}')"  # a file name and a hexadecimal number
        database.command(f"INSERT INTO {APPLIED_TABLE} (name, digest) VALUES {values}")  # noqa: S608 — both are ours
    return pending


def refuse_other_form(database: ClickHouse, params: StoreParams) -> None:
    """Raise Misconfigured if the tables are for one server and the settings name a cluster, or the reverse."""
    found = database.query(
        "SELECT engine FROM system.tables WHERE database = currentDatabase() AND name = {table:String}",
        {"table": "sample_messages"},
    )
    if not found:
        return
    engine = str(found[0][0])
    expected = "Distributed" if params.sharded else "ReplicatedMergeTree" if params.cluster else "MergeTree"
    if engine != expected:
        raise Misconfigured(
            f"the tables of database {params.database} have the engine {engine}, the settings (store.cluster,"
            f" store.sharded) want {expected}: a migration does not change it; set store.database to another name and"
            " copy the rows (docs/scaling.md)"
        )


def _applied_table(params: StoreParams) -> str:
    """Return the statement that creates the table of applied migrations; on a cluster, each host has all of it."""
    if not params.cluster:
        return _CREATE_APPLIED.format(table=APPLIED_TABLE, on="", engine="ReplacingMergeTree(applied_at)")
    engine = "ReplicatedReplacingMergeTree('/clickhouse/tables/{uuid}/all', '{shard}-{replica}', applied_at)"
    return _CREATE_APPLIED.format(table=APPLIED_TABLE, on=f" ON CLUSTER `{params.cluster}`", engine=engine)


def _is_supported(database: ClickHouse, statement: str) -> bool:
    """Return whether the server supports a statement; False for a setting that its release lacks."""
    setting = _SETTING.match(statement)
    if setting is None:
        return True
    count = "SELECT count() FROM system.merge_tree_settings WHERE name = {name:String}"
    return bool(database.query(count, {"name": setting[1]})[0][0])


def _applied_digests(database: ClickHouse) -> dict[str, str]:
    if not database.has_database():
        return {}
    tables = database.query(
        "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = {table:String}",
        {"table": APPLIED_TABLE},
    )
    if not tables[0][0]:
        return {}
    rows = database.query(f"SELECT name, digest FROM {APPLIED_TABLE} FINAL")  # noqa: S608 — a constant of ours
    return {row[0]: row[1] for row in rows}

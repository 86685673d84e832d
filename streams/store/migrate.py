"""The tables' migrations: which there are, which are applied, and applying the rest.

A shipped migration never changes: `migrations/DIGESTS` holds the digest of each, a test compares, and a server on
which another version of one was applied is refused. Statements create only what is not there, or make again what
they made, so that a migration that was cut short is run again whole. A table's setting that the server does not know
is left out: such settings change what rows cost, and came with one release of ClickHouse or another.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from streams.wire.errors import Misconfigured

MIGRATIONS_DIR = Path(__file__).with_name("migrations")
APPLIED_TABLE = "schema_migrations"
_CREATE_APPLIED = f"""CREATE TABLE IF NOT EXISTS {APPLIED_TABLE} (
    name String,
    digest String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(applied_at)
ORDER BY name"""
_SETTING = re.compile(r"ALTER TABLE \w+ MODIFY SETTING (\w+) = ")


class MigrationClient(Protocol):
    """What a migration needs of ClickHouse."""

    def query(self, sql: str, parameters: Any = None) -> Any: ...

    def command(self, sql: str) -> None: ...

    def has_database(self) -> bool: ...

    def ensure_database(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of statements."""

    name: str
    sql: str

    @property
    def digest(self) -> str:
        """SHA-256 of the file, hexadecimal."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    def statements(self) -> Iterator[str]:
        """Its statements in order; each ends with a semicolon at the end of a line."""
        for piece in self.sql.split(";\n"):
            lines = [line for line in piece.splitlines() if line.strip() and not line.startswith("--")]
            if lines:
                yield "\n".join(lines)


def shipped_migrations(folder: Path = MIGRATIONS_DIR) -> tuple[Migration, ...]:
    """All migrations, in the order of their numbers."""
    return tuple(Migration(path.stem, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.sql")))


def pending_migrations(database: MigrationClient, migrations: tuple[Migration, ...]) -> tuple[Migration, ...]:
    """Those that this server lacks; asks only, and raises Misconfigured where one differs from what was applied."""
    applied = _applied(database)
    for migration in migrations:
        if applied.get(migration.name, migration.digest) != migration.digest:
            raise Misconfigured(
                f"migration {migration.name} was applied in another version ({applied[migration.name][:12]},"
                f" this is {migration.digest[:12]}): the database belongs to another build"
            )
    return tuple(migration for migration in migrations if migration.name not in applied)


def apply(database: MigrationClient, migrations: tuple[Migration, ...]) -> tuple[Migration, ...]:
    """Create the database and bring it up to date; answers what was applied."""
    database.ensure_database()
    todo = pending_migrations(database, migrations)
    database.command(_CREATE_APPLIED)
    for migration in todo:
        for statement in migration.statements():
            if _is_for(database, statement):
                database.command(statement)
        values = f"('{migration.name}', '{migration.digest}')"  # a file's name and a hexadecimal number
        database.command(f"INSERT INTO {APPLIED_TABLE} (name, digest) VALUES {values}")  # noqa: S608 — ours, both
    return todo


def _is_for(database: MigrationClient, statement: str) -> bool:
    """Whether a server can take a statement: false for a setting that its release has not."""
    setting = _SETTING.match(statement)
    if setting is None:
        return True
    ask = "SELECT count() FROM system.merge_tree_settings WHERE name = {name:String}"
    return bool(database.query(ask, {"name": setting[1]})[0][0])


def _applied(database: MigrationClient) -> dict[str, str]:
    if not database.has_database():
        return {}
    there = database.query(
        "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = {table:String}",
        {"table": APPLIED_TABLE},
    )
    if not there[0][0]:
        return {}
    return dict(database.query(f"SELECT name, digest FROM {APPLIED_TABLE} FINAL"))  # noqa: S608 — a constant of ours

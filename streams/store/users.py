"""Creates ClickHouse's users with least rights by SQL: the sink, the migrator, and readers (Grafana, the commands).

The embedded ClickHouse has no CREATE USER; `railsight clickhouse --read-only-user` creates its reader.
"""

import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from streams.store.params import StoreParams

PREFIX = "railsight"
CONDITION_CACHE = "use_query_condition_cache"
"""A setting that is on by default. With it, a query may lack rows: after a join in which the rows of `WHERE a` have no
partner, ClickHouse 26.9 returns none of them to later queries `WHERE a`."""
_GLOBAL = ", distributed_product_mode = 'global'"
"""Views join tables, and each shard has only some of their rows."""


READER_LIMITS = {
    "max_execution_time": (30, 60),
    "max_memory_usage": (4 << 30, 8 << 30),
    "max_rows_to_read": (20_000_000_000, 20_000_000_000),
    "max_result_rows": (1_000_000, 10_000_000),
    "max_threads": (4, 8),
}
"""Settings of a reader's query: the default, and the maximum; 0 (no limit) is refused."""


def user_statements(params: StoreParams, passwords: Mapping[str, str]) -> Iterator[str]:
    """Yield the statements; `passwords` must have the password of each user of USERS by name.

    A repetition changes only the passwords.
    """
    on = f" ON CLUSTER `{params.cluster}`" if params.cluster else ""
    database = f"`{params.database}`"
    limits = ", ".join(f"{name} = {value} MIN 1 MAX {highest}" for name, (value, highest) in READER_LIMITS.items())
    for verb in ("CREATE SETTINGS PROFILE IF NOT EXISTS", "ALTER SETTINGS PROFILE"):
        yield (
            f"{verb} {PREFIX}_reader{on} SETTINGS readonly = 2 READONLY, {limits}, allow_ddl = 0 READONLY,"
            f" allow_introspection_functions = 0 READONLY, {CONDITION_CACHE} = 0{_GLOBAL if params.sharded else ''}"
        )
    yield (
        f"CREATE QUOTA IF NOT EXISTS {PREFIX}_reader{on} KEYED BY user_name FOR INTERVAL 1 minute MAX queries = 6000,"
        " execution_time = 120"
    )
    for name in USERS:
        password = passwords[name].replace("\\", "\\\\").replace("'", "\\'")
        for verb in ("CREATE USER IF NOT EXISTS", "ALTER USER"):
            profile = f" SETTINGS PROFILE '{PREFIX}_reader'" if name == READER else ""
            yield f"{verb} {name}{on} IDENTIFIED WITH sha256_password BY '{password}'{profile}"
    yield f"GRANT{on} SELECT, INSERT, ALTER DELETE ON {database}.* TO {SINK}"
    yield f"GRANT{on} SELECT ON system.parts_columns TO {SINK}"
    yield (
        f"GRANT{on} SELECT, INSERT, CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, TRUNCATE,"
        f" ALTER TABLE, ALTER VIEW ON {database}.* TO {MIGRATOR}"
    )
    yield f"GRANT{on} SELECT ON system.tables, SELECT ON system.merge_tree_settings TO {MIGRATOR}"
    if params.cluster:
        yield f"GRANT{on} CLUSTER, REMOTE ON *.* TO {MIGRATOR}"
    yield f"GRANT{on} SELECT ON {database}.* TO {READER}"
    yield f"ALTER QUOTA {PREFIX}_reader{on} TO {READER}"


SINK, MIGRATOR, READER = (f"{PREFIX}_{role}" for role in ("sink", "migrator", "reader"))
USERS = (SINK, MIGRATOR, READER)
PLACEHOLDERS = dict.fromkeys(USERS, "PASSWORD")
"""Placeholders of passwords in printed statements."""


def read_passwords(folder: Path) -> dict[str, str]:
    """Return the password of each user from its file in the folder; make a missing file, readable only by its owner."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    passwords = {}
    for name in USERS:
        path = folder / name
        if not path.exists():
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_urlsafe(24))
        passwords[name] = path.read_text(encoding="utf-8").strip()
    return passwords

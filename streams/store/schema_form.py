"""Renders the statements of migrations for the form of the schema: one server, replicas, or shards with replicas.

Migrations are written for one server. With `store.cluster`, each statement runs on every host of that cluster, and
tables are replicated (the table's UUID determines the path in Keeper). With `store.sharded` too, a table is
`NAME_local` on every host, and NAME is a Distributed table over them; SHARDING_KEYS selects the shard of a row, so that
all rows of a device, finding or remediation are on one shard.
"""

import re
from collections.abc import Iterator

from streams.store.clickhouse import QueryClient
from streams.store.params import StoreParams
from streams.wire.errors import Misconfigured

_REPLICA = "'/clickhouse/tables/{uuid}/{shard}', '{replica}'"
_CREATE_TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")
_CREATE_VIEW = re.compile(r"(CREATE VIEW IF NOT EXISTS|DROP VIEW IF EXISTS) (\w+)")
_ALTER = re.compile(r"ALTER TABLE (\w+)")
_ALTERS_COLUMNS = re.compile(r"ALTER TABLE \w+\s+(?:(?:ADD|MODIFY|COMMENT) COLUMN|MODIFY COMMENT)")
_ENGINE = re.compile(r"ENGINE = (\w*MergeTree)(?:\((\w*)\))?")
_REPLACES_DATA = re.compile(r"(TRUNCATE TABLE|INSERT INTO|EXCHANGE TABLES|DROP TABLE) (?!schema_migrations)")
_SWAPPED = re.compile(r"samples_next\b")
_REORDERED = "samples_1m_next"
"""The table of migration 0017, which copies rows; on a cluster it is skipped, and samples_1m keeps its order."""

SHARDING_KEYS = {
    "findings": "id", "episodes": "id", "remediations": "id", "remediation_results": "remediation_id",
    "controls": "id", "lemons": "subject_id", "rejected": "topic", "progress": "stage", "inventory_devices": "digest",
    "inventory_links": "digest", "inventory_jobs": "digest",
}  # fmt: skip
"""Table -> the column that selects the shard of a row; for all other tables it is `device`."""


def render(statement: str, params: StoreParams) -> Iterator[str]:
    """Yield the rendered statements of one statement of a migration."""
    if not params.cluster:
        yield statement
        return
    on = f"ON CLUSTER `{params.cluster}`"
    if _REORDERED in statement or _REPLACES_DATA.match(statement):
        return  # migration 0004 copies samples; a cluster has none and is created in the new form
    if view := _CREATE_VIEW.match(statement):
        yield f"{view[0]} {on}{statement[view.end() :]}"
    elif create := _CREATE_TABLE.match(statement):
        yield from _tables(create[1], statement[create.end() :], on, params)
    elif alter := _ALTER.match(statement):
        yield f"ALTER TABLE {_local(alter[1], params)} {on}{statement[alter.end() :]}"
        if params.sharded and _ALTERS_COLUMNS.match(statement):
            yield f"ALTER TABLE {alter[1]} {on}{statement[alter.end() :]}"
    else:
        yield statement


def _tables(table: str, definition: str, on: str, params: StoreParams) -> Iterator[str]:
    if table == "samples":
        return  # migration 0004 replaces this table
    table = _SWAPPED.sub("samples", table)
    replicated = _ENGINE.sub(
        lambda engine: f"ENGINE = Replicated{engine[1]}({_REPLICA}{', ' + engine[2] if engine[2] else ''})", definition
    ).replace("non_replicated_deduplication_window", "replicated_deduplication_window")
    yield f"CREATE TABLE IF NOT EXISTS {_local(table, params)} {on}{replicated}"
    if params.sharded:
        key = SHARDING_KEYS.get(table, "device")
        yield (
            f"CREATE TABLE IF NOT EXISTS {table} {on} AS {_local(table, params)}\n"
            f"ENGINE = Distributed(`{params.cluster}`, `{params.database}`, {_local(table, params)}, cityHash64({key}))"
        )


def _local(table: str, params: StoreParams) -> str:
    return f"{table}_local" if params.sharded else table


def delete_from(table: str, condition: str, params: StoreParams) -> str:
    """Return the statement that deletes rows of a table on all hosts."""
    on = f" ON CLUSTER `{params.cluster}`" if params.cluster else ""
    return f"DELETE FROM {_local(table, params)}{on} WHERE {condition}"  # noqa: S608 — all are ours


_TTL = re.compile(r"TTL toDateTime\(arrived_at\) \+ toIntervalDay\((\d+)\)")


def retention_statements(client: QueryClient, params: StoreParams) -> Iterator[str]:
    """Yield the statements that set the retention of tables to the settings, for tables where it differs.

    Raises Misconfigured for a table that does not exist or does not expire.
    """
    suffix = "_local" if params.sharded else ""
    for table, days in sorted(params.retention_days.items()):
        found = client.query(
            "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = {table:String}",
            {"table": table + suffix},
        )
        present = _TTL.search(found[0][0]) if found else None
        if present is None:
            raise Misconfigured(f"store.retention_days: no table {table} with a retention; docs/tables.md lists them")
        if int(present[1]) != days:
            statement = f"ALTER TABLE {table} MODIFY TTL toDateTime(arrived_at) + INTERVAL {days} DAY DELETE"
            # Rows of existing parts expire with their part; no part is rewritten.
            yield from (f"{one} SETTINGS materialize_ttl_after_modify = 0" for one in render(statement, params))

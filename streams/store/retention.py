"""Sets the retention of tables: `store.retention_days`, else that of the migration that created the table."""

import re
from collections.abc import Iterator

from streams.store.params import StoreParams
from streams.store.query_client import QueryClient
from streams.store.schema_form import render
from streams.wire.errors import Misconfigured

_TTL = re.compile(r"TTL toDateTime\(arrived_at\) \+ toIntervalDay\((\d+)\)")


def retention_statements(client: QueryClient, params: StoreParams) -> Iterator[str]:
    """Yield the statements that bring the retention of tables to the settings; none where it is already.

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
            # The rows of parts that are there expire with their part; nothing is rewritten.
            yield from (f"{one} SETTINGS materialize_ttl_after_modify = 0" for one in render(statement, params))

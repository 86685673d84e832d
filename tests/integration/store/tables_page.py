"""The page of the tables and views of ClickHouse, from their definitions and comments.

`python -m tests.integration.store.tables_page` writes docs/tables.md; test_tables_page.py compares both.
"""

import re
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pydantic import SecretStr

from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.store.clickhouse import ClickHouse, QueryClient
from streams.store.migrate import APPLIED_TABLE, apply, shipped_migrations
from streams.store.params import StoreParams

PAGE = Path(__file__).parents[3] / "docs/tables.md"

_HEAD = """# Tables and views

The tables and views of ClickHouse.
This page is generated from their definitions: `python -m tests.integration.store.tables_page` writes it.
`railsight migrate` creates them; `railsight migrate --dry-run` prints the statements.

A view with parameters (in braces in its description) is called like a table function; times are text or expressions:

```sql
SELECT * FROM link_ends_1m(link = 'link:host-0/eth0--leaf-0/p0', since = now() - INTERVAL 1 HOUR, until = now())
SELECT * FROM counter_rates(device = 'leaf-0', port = 'p0', metric = 'rx_bytes', since = $__fromTime, until = $__toTime)
```

Views and rollups whose name ends in `_1m` have a row for each minute, those in `_1h` for each hour.
The rate of a counter is its increase divided by `observed_s`; an absent value is NULL, never 0.
"""
_COLUMN = re.compile(r"`(\w+)` ((?:[^'`]|'[^']*')+?) COMMENT '((?:[^'\\]|\\.)*)'")
_COUNTERS = ("`METRIC_increase`", "growth of a counter of `samples`; NULL: not read, or reset")
_GAUGES = (
    "`METRIC_min`, `METRIC_max`, `METRIC_avg`",
    "extremes (of a bool computed from its average) and average of a gauge of `samples`; NULL: not read",
)
_SUFFIX = re.compile(r"_(?:increase|min|max|avg)$")


class Column(NamedTuple):
    """A column as it is declared."""

    name: str
    type: str
    comment: str


def page(client: QueryClient) -> str:
    """Return the page for a migrated database."""
    found = client.query(
        "SELECT name, engine, comment, create_table_query, sorting_key, partition_key FROM system.tables"
        f" WHERE database = currentDatabase() AND name != '{APPLIED_TABLE}' ORDER BY engine = 'View', name"
    )
    parts = [_HEAD]
    for is_view, rows in groupby(found, key=lambda row: row[1] == "View"):
        parts.append("## Views\n" if is_view else "## Tables\n")
        for name, engine, comment, created, sorting, partition in rows:
            columns = [Column(*column) for column in _COLUMN.findall(created.partition("\nAS SELECT")[0])]
            if not columns:
                columns = _columns(client, name)
            parts.append(f"### {name}\n")
            if comment:
                parts.append(f"{comment}.\n")
            if not is_view:
                parts.append(f"{engine}, ordered by `{sorting}`, a partition for each `{partition}`.\n")
            parts.append("| column | type | meaning |\n|---|---|---|\n" + "".join(_lines(columns)))
    return "\n".join(parts)


def _columns(client: QueryClient, table: str) -> list[Column]:
    rows = client.query(
        "SELECT name, type, comment FROM system.columns WHERE database = currentDatabase() AND table = {table:String}"
        " ORDER BY position",
        {"table": table},
    )
    return [Column(*row) for row in rows]


def _lines(columns: list[Column]) -> Iterator[str]:
    """Yield a line for each column; the columns of all metrics of a rollup share one."""
    is_rollup = sum(column.name.endswith("_increase") for column in columns) > 1
    seen = set()
    for column in columns:
        suffix = _SUFFIX.search(column.name)
        if not is_rollup or suffix is None:
            type_ = column.type.replace("\\'", "'")
            yield f"| `{column.name}` | {type_} | {column.comment.replace('|', '/')} |\n"
            continue
        group = _COUNTERS if suffix[0] == "_increase" else _GAUGES
        if group not in seen:
            seen.add(group)
            # The first gauge is a bool, whose extremes are computed.
            yield f"| {group[0]} | {column.type.partition(' ALIAS ')[0]} | {group[1]} |\n"


def main() -> None:
    """Write the page from a server of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedClickHouse(ClickHouseParams(data=Path(folder) / "clickhouse")) as server,
    ):
        client = ClickHouse(StoreParams(url=server.url, password=SecretStr(server.password)))
        apply(client, shipped_migrations())
        PAGE.write_text(page(client), encoding="utf-8")
        client.close()


if __name__ == "__main__":
    main()

"""What those who store left in ClickHouse, and what it cost the server."""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from streams.bench.baselines.usage import descendants_cpu_s
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.store.clickhouse import ClickHouse
from streams.store.params import StoreParams

_PARTS = (
    "system.parts WHERE active AND rows > 0 AND database IN ('default', 'railsight') AND table != 'schema_migrations'"
)
_SERVER = "streams.embedded.clickhouse"
_QUIET_S = 2.0
_LOOK_EVERY_S = 0.5
_REST_WITHIN_S = 300.0


class Server:
    """A ClickHouse of one contender's own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._before = self._cpu_s()

    def cpu_s(self) -> float:
        """What it used since it began to answer."""
        return self._cpu_s() - self._before

    def at_rest(self) -> tuple[dict[str, int], int]:
        """Merge every table that has rows to one part a day; those rows, and the bytes of all on disk.

        Tables put off merges differently, and a short run would hold few of those that a row costs in its life: so
        each has its own, as far as they came, and one of everything.
        """
        with closing(ClickHouse(StoreParams(url=self.url, database="default"))) as clickhouse:
            for database, table in clickhouse.query(f"SELECT DISTINCT database, table FROM {_PARTS}"):  # noqa: S608 — ours
                clickhouse.command(f"OPTIMIZE TABLE {database}.{table} FINAL")
            give_up = time.monotonic() + _REST_WITHIN_S
            quiet_since = time.monotonic()
            while time.monotonic() - quiet_since < _QUIET_S and time.monotonic() < give_up:
                if clickhouse.query("SELECT count() FROM system.merges")[0][0]:
                    quiet_since = time.monotonic()
                time.sleep(_LOOK_EVERY_S)
            parts = clickhouse.query(f"SELECT table, sum(rows), sum(bytes_on_disk) FROM {_PARTS} GROUP BY table")  # noqa: S608 — ours
        return {table: int(rows) for table, rows, _ in parts}, sum(int(size) for _, _, size in parts)

    @staticmethod
    def _cpu_s() -> float:
        return descendants_cpu_s(os.getpid(), _SERVER)


@contextmanager
def clickhouse_server(folder: Path) -> Iterator[Server]:
    """A fresh server, whose data is gone with its folder."""
    with EmbeddedClickHouse(ClickHouseParams(data=folder)) as clickhouse:
        yield Server(clickhouse.url)

"""The ClickHouse server of a storing baseline: its rows, their size, and its CPU."""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pydantic import SecretStr

from streams.bench.baselines.usage import descendants_cpu_s
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.embedded.passwords import read_password
from streams.store.clickhouse import ClickHouse
from streams.store.params import StoreParams
from streams.store.query_client import QueryClient

_PARTS = (
    "system.parts WHERE active AND rows > 0 AND database IN ('default', 'railsight') AND table != 'schema_migrations'"
)
_SERVER = "streams.embedded.clickhouse"
_IDLE_S = 2.0
_POLL_S = 0.5
_MERGE_TIMEOUT_S = 300.0


def wait_for_merges(clickhouse: QueryClient, idle_s: float, timeout_s: float) -> bool:
    """Wait until no merge has run for a while; return False if one still runs after the timeout."""
    deadline_s = time.monotonic() + timeout_s
    idle_since = time.monotonic()
    while time.monotonic() - idle_since < idle_s:
        if time.monotonic() >= deadline_s:
            return False
        if clickhouse.query("SELECT count() FROM system.merges")[0][0]:
            idle_since = time.monotonic()
        time.sleep(_POLL_S)
    return True


class Server:
    """A ClickHouse for one baseline alone."""

    def __init__(self, url: str, password_file: Path) -> None:
        self.url = url
        self.password_file = password_file
        self._before = self._cpu_s()

    def cpu_s(self) -> float:
        """Return the CPU seconds since it began to answer."""
        return self._cpu_s() - self._before

    def at_rest(self) -> tuple[dict[str, int], int]:
        """Merge every non-empty table to one part per day; return the rows by table, and the bytes on disk.

        Tables defer merges differently, and a short run would include few of those that a row costs in its life. So
        each run has its own merges so far, and one final merge of everything.
        """
        with closing(ClickHouse(self._params())) as clickhouse:
            for database, table in clickhouse.query(f"SELECT DISTINCT database, table FROM {_PARTS}"):  # noqa: S608 — constants
                clickhouse.command(f"OPTIMIZE TABLE {database}.{table} FINAL")
            wait_for_merges(clickhouse, _IDLE_S, _MERGE_TIMEOUT_S)
            parts = clickhouse.query(f"SELECT table, sum(rows), sum(bytes_on_disk) FROM {_PARTS} GROUP BY table")  # noqa: S608 — constants
        return {table: int(rows) for table, rows, _ in parts}, sum(int(size) for _, _, size in parts)

    def _params(self) -> StoreParams:
        password = SecretStr(read_password(self.password_file))
        return StoreParams(url=self.url, password=password, database="default")

    @staticmethod
    def _cpu_s() -> float:
        return descendants_cpu_s(os.getpid(), _SERVER)


@contextmanager
def clickhouse_server(folder: Path) -> Iterator[Server]:
    """Run a new server with its data in the folder."""
    with EmbeddedClickHouse(ClickHouseParams(data=folder)) as clickhouse:
        yield Server(clickhouse.url, clickhouse.password_file)

"""A fake ClickHouse that records the applied migrations and the commands."""

import re
from typing import Any

from streams.store.clickhouse import ClickHouse
from streams.store.params import StoreParams


class FakeDatabase(ClickHouse):
    """Responds to the queries of migrations."""

    def __init__(self, *, exists: bool = True) -> None:
        super().__init__(StoreParams())
        self.exists = exists
        self.applied: dict[str, str] = {}
        self.commands: list[str] = []
        self.fails_at: str = ""
        self.settings: set[str] = set()
        self.engine = ""  # of the tables; empty: none

    def has_database(self) -> bool:
        return self.exists

    def ensure_database(self) -> None:
        self.exists = True

    def query(self, sql: str, parameters: Any = None) -> Any:
        if "system.merge_tree_settings" in sql:
            return [(int(parameters["name"] in self.settings),)]
        if "SELECT engine " in sql:
            return [(self.engine,)] if self.engine else []
        return [(1,)] if "system.tables" in sql else list(self.applied.items())

    def command(self, sql: str) -> None:
        if self.fails_at and self.fails_at in sql:
            raise ConnectionError("unavailable")
        self.commands.append(sql)
        if sql.startswith("INSERT INTO schema_migrations"):
            name, digest = re.findall(r"'([^']+)'", sql)
            self.applied[name] = digest

"""A ClickHouse that knows only which migrations were applied, and keeps what it was told to run."""

import re
from typing import Any


class FakeDatabase:
    """Answers what migrations ask."""

    def __init__(self, *, there: bool = True) -> None:
        self.there = there
        self.applied: dict[str, str] = {}
        self.commands: list[str] = []
        self.fails_at: str = ""
        self.settings: set[str] = set()

    def has_database(self) -> bool:
        return self.there

    def ensure_database(self) -> None:
        self.there = True

    def query(self, sql: str, parameters: Any = None) -> Any:
        if "system.merge_tree_settings" in sql:
            return [(int(parameters["name"] in self.settings),)]
        return [(1,)] if "system.tables" in sql else list(self.applied.items())

    def command(self, sql: str) -> None:
        if self.fails_at and self.fails_at in sql:
            raise ConnectionError("away")
        self.commands.append(sql)
        if sql.startswith("INSERT INTO schema_migrations"):
            name, digest = re.findall(r"'([^']+)'", sql)
            self.applied[name] = digest

"""Provides migrated tables that a test fills with rows of its own."""

import json
from typing import Any

from pydantic import SecretStr

from streams.store.clickhouse import ClickHouse
from streams.store.migrate import apply, shipped_migrations
from streams.store.params import StoreParams
from tests.integration.fixtures_clickhouse import ClickHouse as Server

Row = dict[str, Any]


class Tables:
    """A migrated database that a test fills."""

    def __init__(self, server: Server, name: str) -> None:
        self._server, self._name = server, name
        self.client = ClickHouse(
            StoreParams(url=server.url, user=server.user, password=SecretStr(server.password), database=name)
        )
        apply(self.client, shipped_migrations())

    def fill(self, table: str, rows: list[Row]) -> None:
        """Insert rows; absent columns have their defaults."""
        lines = "\n".join(json.dumps(row) for row in rows)
        self._server.execute(f"INSERT INTO {self._name}.{table} FORMAT JSONEachRow\n{lines}")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return [tuple(row) for row in self.client.query(sql)]

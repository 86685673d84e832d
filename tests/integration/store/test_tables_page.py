"""docs/tables.md has every table and view as it is created."""

from collections.abc import Callable

from pydantic import SecretStr

from streams.store.clickhouse import ClickHouse
from streams.store.migrate import apply, shipped_migrations
from streams.store.params import StoreParams
from tests.integration.fixtures_clickhouse import ClickHouse as Server
from tests.integration.store.tables_page import PAGE, page


def test_the_page_is_that_of_the_migrations(clickhouse: Server, clickhouse_database: Callable[[], str]) -> None:
    """A new table, view or column is in the page: run `python -m tests.integration.store.tables_page`."""
    params = StoreParams(
        url=clickhouse.url,
        user=clickhouse.user,
        password=SecretStr(clickhouse.password),
        database=clickhouse_database(),
    )
    client = ClickHouse(params)
    apply(client, shipped_migrations())
    assert page(client) == PAGE.read_text(encoding="utf-8")

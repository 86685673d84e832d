"""Tests migrations on a server: interrupted at every statement, over stored rows; the forms, users and retention."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from streams.store.clickhouse import ClickHouse
from streams.store.migrate import apply, pending_migrations, shipped_migrations
from streams.store.params import StoreParams
from streams.store.schema_form import render, retention_statements
from streams.store.users import PLACEHOLDERS, user_statements
from streams.wire.errors import Misconfigured
from tests.integration.fixtures_clickhouse import ClickHouse as Server


class Interrupted(Exception):
    """The migrator ended here."""


class Interrupting(ClickHouse):
    """A client that ends before its n-th statement."""

    def __init__(self, client: ClickHouse, before: int) -> None:
        super().__init__(client.params)
        self._left = before

    def command(self, sql: str) -> None:
        if self._left == 0:
            raise Interrupted
        self._left -= 1
        super().command(sql)


@pytest.fixture
def client(clickhouse: Server, clickhouse_database: Callable[[], str]) -> ClickHouse:
    """Return a client of an empty database."""
    password = SecretStr(clickhouse.password)
    return ClickHouse(
        StoreParams(url=clickhouse.url, user=clickhouse.user, password=password, database=clickhouse_database())
    )


def schema(client: ClickHouse) -> list[tuple[Any, ...]]:
    """Return all tables and columns."""
    columns = "SELECT table, name, type FROM system.columns WHERE database = currentDatabase() ORDER BY table, position"
    return [tuple(row) for row in client.query(columns)]


FILLED = {
    "0004_samples_by_message": """INSERT INTO samples (device, row, sampled_at, rx_bytes, arrived_at, kafka_offset)
        SELECT concat('leaf-', toString(number % 7)), 'Ethernet1', now(), number, now(), number FROM numbers(1000)""",
    "0007_remediation_states": """INSERT INTO remediations (id, revision, arrived_at)
        SELECT toString(number % 3), number, now64(3) FROM numbers(9)""",
    "0017_minutes_by_device": """INSERT INTO samples_1m (device, row, bucket, readings, rx_bytes_increase, arrived_at)
        SELECT 'leaf', toString(number % 8), now() - number * 7200, 6, number, now() FROM numbers(1000)""",
    "0018_extremes_of_bools": """INSERT INTO samples_1h
        (device, row, bucket, readings, oper_up_min, oper_up_max, oper_up_avg, arrived_at)
        SELECT 'leaf', toString(number), now(), 6, floor(number / 2), ceil(number / 2), number / 2, now()
        FROM numbers(3)""",
}
"""The rows that are stored before a migration that changes their table."""
EXPECTED: dict[str, list[tuple[Any, ...]]] = {
    "SELECT count(), sum(rx_bytes), countIf(tx_bytes IS NULL), countIf(bfd_session_up IS NULL) FROM samples": [
        (1000, 499500, 1000, 1000)
    ],
    "SELECT count(), countIf(state = '' AND cause = '') FROM remediations_latest": [(3, 3)],
    "SELECT count(), sum(rx_bytes_increase) FROM samples_1m": [(1000, 499500)],
    "SELECT oper_up_min, oper_up_max, oper_up_avg, admin_up_min FROM samples_1h ORDER BY row": [
        (0, 0, 0, None), (0, 1, 0.5, None), (1, 1, 1, None),
    ],
    "SELECT name, sorting_key FROM system.tables WHERE database = currentDatabase()"
    " AND (name = 'samples' OR name LIKE 'samples_1m%') ORDER BY name": [
        ("samples", "device, source, sampled_at"), ("samples_1m", "device, bucket"),
    ],
}  # fmt: skip
MINUTES = (
    "SELECT name, type, compression_codec, comment FROM system.columns"
    " WHERE database = currentDatabase() AND table = 'samples_1m'"
)


def test_migrations_with_rows_are_resumed_wherever_they_were_interrupted(client: ClickHouse) -> None:
    """Every statement from 0004 on fails once; the next run goes on, and every row is there once, in the new order."""
    apply(client, shipped_migrations()[:3])
    interrupted = 0
    while pending := pending_migrations(client, shipped_migrations()):
        name = pending[0].name
        if name in FILLED:
            client.command(FILLED[name])
        minutes = client.query(MINUTES)
        left = sum(1 for _ in pending[0].statements()) + 1
        for before in range(1, left + 1):
            with pytest.raises(Interrupted):
                apply(Interrupting(client, before), pending[:1])
            interrupted += 1
        assert apply(Interrupting(client, left + 1), pending[:1]) == pending[:1]
        assert name != "0017_minutes_by_device" or client.query(MINUTES) == minutes
    assert interrupted > 40
    for query, rows in EXPECTED.items():
        assert [tuple(row) for row in client.query(query)] == rows, query
    after = schema(client)
    assert apply(client, shipped_migrations()) == ()
    assert schema(client) == after


def test_every_rendered_statement_is_one_that_the_engine_parses(client: ClickHouse) -> None:
    """Replicas and shards need servers with Keeper; here the engine's own parser reads their statements."""
    for params in (StoreParams(cluster="net"), StoreParams(cluster="net", sharded=True)):
        statements = [
            one for migration in shipped_migrations() for sql in migration.statements() for one in render(sql, params)
        ]
        for statement in [*statements, *user_statements(params, PLACEHOLDERS)]:
            client.query("SELECT formatQuery({sql:String})", {"sql": statement})
    for statement in user_statements(StoreParams(), PLACEHOLDERS):
        client.query("SELECT formatQuery({sql:String})", {"sql": statement})


def test_the_retention_of_a_table_is_a_setting(client: ClickHouse) -> None:
    """It is changed once; a table that does not exist is refused by name."""
    apply(client, shipped_migrations())
    params = client.params.model_copy(update={"retention_days": {"samples": 3, "findings": 400}})
    (statement,) = retention_statements(client, params)
    client.command(statement)
    assert "toIntervalDay(3)" in client.query(
        "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = 'samples'"
    )[0][0]  # fmt: skip
    assert list(retention_statements(client, params)) == []
    unknown = client.params.model_copy(update={"retention_days": {"sample": 3}})
    with pytest.raises(Misconfigured, match="no table sample with a retention"):
        list(retention_statements(client, unknown))

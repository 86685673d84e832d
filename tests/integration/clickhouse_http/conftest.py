"""Provides one server, a client with all privileges and a read-only one."""

from collections.abc import Iterator

import pytest

from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse, Limits, User
from tests.integration.clickhouse_http.plain import Client


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedClickHouse]:
    """Yield a server with a user with all privileges and a read-only one."""
    users = (User("default", "writer"), User("reader", "pw", read_only=True))
    limits = Limits(server_memory_bytes=2 << 30, query_memory_bytes=256 << 20, concurrent_queries=4)
    params = ClickHouseParams(data=tmp_path_factory.mktemp("clickhouse"), users=users, limits=limits)
    with EmbeddedClickHouse(params) as one:
        yield one


@pytest.fixture
def client(server: EmbeddedClickHouse) -> Client:
    return Client(server.port)


@pytest.fixture
def reader(server: EmbeddedClickHouse) -> Client:
    return Client(server.port, {"X-ClickHouse-User": "reader", "X-ClickHouse-Key": "pw"})

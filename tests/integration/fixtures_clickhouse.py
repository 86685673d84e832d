"""Provides a ClickHouse for every test that needs one: in Docker if it is available, else the embedded one.

One server serves a whole test session, so tests take databases of their own from `clickhouse_database`.
"""

import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from tests.integration.fixtures_kafka import docker_answers


@dataclass(frozen=True)
class ClickHouse:
    """The address of a ClickHouse: `url` is http://host:port."""

    url: str
    user: str = "default"
    password: str = ""

    def execute(self, sql: str) -> str:
        """Run one statement and return the body of the response."""
        headers = {"X-ClickHouse-User": self.user, "X-ClickHouse-Key": self.password}
        request = urllib.request.Request(self.url, data=sql.encode(), headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(answer.read().decode())


@contextmanager
def in_docker() -> Iterator[ClickHouse]:
    """Run ClickHouse by testcontainers."""
    from testcontainers.clickhouse import ClickHouseContainer

    with ClickHouseContainer(username="test", password="test") as running:
        host, port = running.get_container_host_ip(), running.get_exposed_port(8123)
        yield ClickHouse(f"http://{host}:{port}", "test", "test")


@contextmanager
def embedded(data: Path) -> Iterator[ClickHouse]:
    """Run the server of the product, on a folder of its own."""
    with EmbeddedClickHouse(ClickHouseParams(data=data)) as server:
        yield ClickHouse(server.url, server.user, server.password)


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    """Yield a ClickHouse that is ready; its tables exist until the end of the test session."""
    with in_docker() if docker_answers() else embedded(tmp_path_factory.mktemp("clickhouse")) as server:
        yield server


@pytest.fixture
def clickhouse_database(clickhouse: ClickHouse) -> Iterator[Callable[[], str]]:
    """Return a function that creates databases, which are dropped after the test."""
    made: list[str] = []

    def make() -> str:
        name = f"test_{uuid.uuid4().hex[:12]}"
        clickhouse.execute(f"CREATE DATABASE {name}")
        made.append(name)
        return name

    yield make
    for name in made:
        clickhouse.execute(f"DROP DATABASE IF EXISTS {name} SYNC")

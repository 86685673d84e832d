"""Provides the dashboard on two databases: an empty one, and one with the small fabric."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.integration.dashboards import simulated_day
from tests.integration.dashboards.fabric import FINDINGS, Board, inventory_rows, pipeline_rows, telemetry_rows
from tests.integration.fixtures_clickhouse import ClickHouse


@pytest.fixture
def empty(clickhouse: ClickHouse, clickhouse_database: Callable[[], str]) -> Board:
    """Return the dashboard over tables without a row."""
    return Board(clickhouse, clickhouse_database())


@pytest.fixture
def board(empty: Board) -> Board:
    """Return the dashboard over the small fabric."""
    empty.fill({"findings": FINDINGS} | inventory_rows() | telemetry_rows() | pipeline_rows())
    return empty


@pytest.fixture(scope="session")
def day(clickhouse: ClickHouse) -> Iterator[Board]:
    """Return the dashboards over the simulated day, which all tests of a session share."""
    name = f"day_{uuid.uuid4().hex[:12]}"
    clickhouse.execute(f"CREATE DATABASE {name}")
    made = Board(clickhouse, name)
    made.with_store(simulated_day.fill)
    yield made
    clickhouse.execute(f"DROP DATABASE IF EXISTS {name} SYNC")
